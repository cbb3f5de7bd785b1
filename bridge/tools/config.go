package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"aqueduct/bridge/approval"
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
	// Keep commits moves and Records of a Session without its owner, in the next group commit, and returns which moves were
	// lost (eventlog.Log). It rings no bell.
	Keep func(ctx context.Context, sessionID string, moves []store.Move, records []store.Record) (lost []int, err error)
	// Ring wakes the Session's owner.
	Ring func(sessionID string)
	// Listen subscribes to a Session's rings; Listeners counts its subscriptions.
	Listen    func(sessionID string) (<-chan struct{}, func())
	Listeners func(sessionID string) int
	// Callback reports whether the client of a Turn is reached by a callback, also while it does not listen.
	Callback func(ctx context.Context, r store.Reader, turnID string) (bool, error)
	// Unconfined reports whether an agent could approve for itself; nil for none.
	Unconfined func(agentID string) bool
	// Notices writes the webhook notices of Questions.
	Notices approval.Notices
	// Client calls server tools. It decides which addresses may be reached.
	Client *http.Client
	// MCP executes the tools that MCP servers offer; Servers are the names of those. Nil and none: there is no such server.
	MCP     Runtime
	Servers []string
	// Own are tools of this server's own, for all tenants, which OwnRuntime executes.
	Own        []store.Tool
	OwnRuntime Runtime
	// OwnVerdict is what holds for a call of one of these, whatever the policy file says. Nil changes nothing.
	OwnVerdict func(v policy.Verdict, args json.RawMessage) policy.Verdict
	Limits     Limits
	Meter      Meter
	Logger     *slog.Logger
}

// Causes of Meter.Offline: when it was found that no client is there.
const (
	OfflineInvoked  = "invoked"  // the agent called the tool
	OfflineApproved = "approved" // the call was approved
)

// Limits bound what tools may use. The zero value of a member means its default.
type Limits struct {
	Timeout     time.Duration // of executing one, when neither the tool nor the call has its own
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
	// The same limits as the engine has for Questions that agents ask themselves.
	defaultQuestionsPerTurn = 32
	defaultQuestionsPerUser = 200
	// longestTimeout bounds what a call may ask for, unless the operator gives every call more.
	longestTimeout = time.Hour
	// lookEvery is how often the rows are looked at without a ring: the ring of a replica that died is lost.
	lookEvery = 2 * time.Second
	// lookMost bounds the rows of one look.
	lookMost = 100
	// maxArgs bounds a call's arguments; they are shown to people.
	maxArgs = 256 << 10
)

// withDefaults fills what is not set.
func (l Limits) withDefaults() Limits {
	l.Timeout = cmp.Or(l.Timeout, defaultTimeout)
	l.ApprovalTTL = cmp.Or(l.ApprovalTTL, defaultApprovalTTL)
	l.ResultBytes = cmp.Or(l.ResultBytes, defaultResultBytes)
	l.Running = cmp.Or(l.Running, defaultRunning)
	l.QuestionsPerTurn = cmp.Or(l.QuestionsPerTurn, defaultQuestionsPerTurn)
	l.QuestionsPerUser = cmp.Or(l.QuestionsPerUser, defaultQuestionsPerUser)
	return l
}

// Meter counts what happens, for metrics. Members may be nil; they must be quick.
type Meter struct {
	Ended func(tool string, status store.ToolCallStatus, took time.Duration) // an execution
	// Settled counts a Question that was settled because its agent is gone.
	Settled func(approval.Question)
	// Offline counts a call that failed because no client was there, by when that was found.
	Offline func(cause string)
}
