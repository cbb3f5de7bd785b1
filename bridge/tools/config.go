package tools

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"aqueduct/bridge/inbox"
	"aqueduct/bridge/redact"
	"aqueduct/policy"
	"aqueduct/store"
)

// Config is what a Service needs.
type Config struct {
	Store   store.Store
	Hash    redact.Hasher // binds arguments to what is decided about them
	Replica string
	// Policy is the one in force now.
	Policy func() *policy.Policy
	// Keep commits what belongs to a Session without its owner, together with what others keep
	// at that moment, and tells which moves were lost (eventlog.Log). It rings no bell.
	Keep func(ctx context.Context, sessionID string, moves []store.Move, records []store.Record) (lost []int, err error)
	// Ring tells the Session's owner that there is something to do for it.
	Ring func(sessionID string)
	// Listen hears what happens to a Session; Listeners counts who does.
	Listen    func(sessionID string) (<-chan struct{}, func())
	Listeners func(sessionID string) int
	// Callback says whether the client of a Turn is told although nobody listens.
	Callback func(ctx context.Context, r store.Reader, turnID string) (bool, error)
	// Notices tells others of Questions.
	Notices inbox.Notices
	// Client calls server tools; it decides which addresses may be called.
	Client *http.Client
	Limits Limits
	Meter  Meter
	Logger *slog.Logger
}

// When it was found that no client is there.
const (
	OfflineInvoked  = "invoked"  // the agent called the tool
	OfflineApproved = "approved" // the call was approved
)

func (s *Service) countOffline(call store.ToolCall, cause string) {
	if f := s.cfg.Meter.Offline; f != nil && call.ErrorCode == CodeClientOffline {
		f(cause)
	}
}

// Limits are the settings of tools. The zero value of a member means its default.
type Limits struct {
	Timeout     time.Duration // of running one, when neither tool nor call say
	ApprovalTTL time.Duration // of asking
	ResultBytes int64         // of an answer
	Running     int           // at a time, on this replica
	// QuestionsPerTurn and QuestionsPerUser bound the calls that wait for a person or a client.
	QuestionsPerTurn, QuestionsPerUser int
}

const (
	defaultTimeout     = 60 * time.Second // contract §10
	defaultApprovalTTL = 10 * time.Minute // contract §10
	defaultResultBytes = 1 << 20
	defaultRunning     = 256
	// The same as bridge's, for Questions that agents ask without us.
	defaultQuestionsPerTurn = 32
	defaultQuestionsPerUser = 200
	// longestTimeout bounds what a call may ask for.
	longestTimeout = time.Hour
	// lookEvery is how often work nobody rang for is looked for: approved calls whose
	// approver's replica died, calls whose runner died.
	lookEvery = 2 * time.Second
	// lookMost is how many at a time.
	lookMost = 100
	// maxArgs bounds a call's arguments; they are shown to people.
	maxArgs = 256 << 10
)

func (l Limits) withDefaults() Limits {
	if l.Timeout == 0 {
		l.Timeout = defaultTimeout
	}
	if l.ApprovalTTL == 0 {
		l.ApprovalTTL = defaultApprovalTTL
	}
	if l.ResultBytes == 0 {
		l.ResultBytes = defaultResultBytes
	}
	if l.Running == 0 {
		l.Running = defaultRunning
	}
	if l.QuestionsPerTurn == 0 {
		l.QuestionsPerTurn = defaultQuestionsPerTurn
	}
	if l.QuestionsPerUser == 0 {
		l.QuestionsPerUser = defaultQuestionsPerUser
	}
	return l
}

// Meter hears what happens, for metrics. Members may be nil; they must be quick.
type Meter struct {
	Ended func(tool string, status store.ToolCallStatus, took time.Duration) // running it
	// Settled hears of a Question that was settled because its Agent is gone.
	Settled func(inbox.Question)
	// Offline hears of a call that failed because no client was there to run it, and when that was found.
	Offline func(cause string)
}
