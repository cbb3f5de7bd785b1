package bridge

import (
	"context"
	"encoding/json"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/contextstore"
	"aqueduct/store"
)

// Dialects a client may speak; kept on the Run, because they decide how it ends.
const (
	DialectV1      = "agui-1.0"
	DialectV0      = "agui-0.x"
	DialectTDesign = "tdesign"
)

// ChatRequest is one POST to the chat, whatever body it came in.
type ChatRequest struct {
	Principal   store.Principal
	Dialect     string
	ThreadID    string // "" when the client named none
	RunID       string // "" when the client named none
	AgentID     string // "" means the Session's, or the default
	Messages    []agui.Message
	Answers     []approval.Answer
	Tools       []agui.Tool
	Context     []agui.Context
	State       json.RawMessage
	Props       json.RawMessage
	BodyHash    []byte
	Traceparent string // as the request brought them; one that is not valid begins a trace of ours
	Tracestate  string
	After       int64  // the position of the last event that the client has (Last-Event-ID), 0 for none
	Again       bool   // it has a Last-Event-ID: the client may have sent it before
	JoinOnly    bool   // POST /api/agui/connect: nothing is started or settled
	ParentRunID string // AG-UI's, "" when the client named none
	OnBusy      string // OnBusyRefuse, OnBusyQueue, or "" for the server's own
	Channel     bool   // the client reads by a channel, and not the response
	Unnamed     bool   // the ids of the messages are ours: the client has none
	Repeat      string // RepeatNever, or ""
	// parent is set where an agent calls another; see AgentCalls.
	parent *parentCall
	// ofProgram is set where a user's program calls tools; see ClientCalls.
	ofProgram bool
	// attached are the attachments that the messages name, by key or by hash, as far as they have been read; nil for one that is not ours.
	attached map[string]*contextstore.Attachment
	// Task is set where the prompt waited in the queue; nil otherwise.
	Task     *TaskStart
	Callback bool // the client is notified elsewhere than on a response: it counts as there although no response is open
}

// TaskStart is a Task of the queue on its way to its Turn. It waits for what is under way in its thread, and its Agent is called
// until it can be reached (unsent.go).
type TaskStart struct {
	// TurnID is the Task's own id, which is given out before there is a Turn.
	TurnID string
	// Shared is set where its thread is another user's: without that one there is none to be made.
	Shared bool
	// Begin is called in the transaction that makes the Turn, after its rows are written. An error of it undoes them, and is
	// what Chat returns. The transaction may run more than once.
	Begin func(ctx context.Context, tx store.Tx, reply Reply) error
}

// turnID is the id of the Turn that a request makes: the one that was given out for a Task, else a new one.
func (s *TaskStart) turnID() string {
	if s == nil {
		return newID()
	}
	return s.TurnID
}

// shared reports whether the thread of a request has to be there, because it is another user's.
func (s *TaskStart) shared() bool { return s != nil && s.Shared }

// RepeatNever has an unnamed message is new, though it is what was asked before.
const RepeatNever = "never"

// Profile is what a client's POST decides about a Run: how it is spoken to, and which
// tools it declares.
type Profile struct {
	Dialect string      `json:"dialect"`
	Tools   []ToolBrief `json:"tools,omitempty"`
	// Client is what the POST held of the state; of this Run alone.
	Client *clientState `json:"client,omitempty"`
	// Added and Props are for the Agent, from a POST that answers. The row of the Turn has those of the POST that began it.
	Added []addedMessage  `json:"added,omitempty"`
	Props json.RawMessage `json:"props,omitempty"`
	// Callback is of a Turn's first Run and holds for all of them.
	Callback bool `json:"callback,omitempty"`
}

// profileOf is the profile a Run was made with.
func profileOf(r store.Run) (p Profile, err error) {
	if len(r.Profile) > 0 {
		err = json.Unmarshal(r.Profile, &p)
	}
	return p, err
}

// ToldByCallback reports whether the client of a Turn is notified of it without a response, and so
// can be given a tool call.
func ToldByCallback(ctx context.Context, r store.Reader, turnID string) (bool, error) {
	// A Turn has the id of its first Run.
	first, err := r.Run(ctx, store.System(), turnID)
	if err != nil {
		return false, err
	}
	var p Profile
	_ = json.Unmarshal(first.Profile, &p) // of our own writing
	return p.Callback, nil
}

// ToolBrief is a declared tool as the Agent gets it.
type ToolBrief struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// declares reports whether the client declared the tool.
func (p Profile) declares(name string) bool {
	for _, t := range p.Tools {
		if t.Name == name {
			return true
		}
	}
	return false
}

// Reply is what a ChatRequest came to: what the response tails.
type Reply struct {
	Session store.Session
	Run     store.Run  // to tail from its first event; zero ID when nothing runs
	Then    *store.Run // a further Run for the same response
	Join    bool       // begin with the frames of a join
	Dialect string
	RunID   string // the client's runId or one of ours, for a join with nothing running
	After   int64  // a position before the Run's first event
	Sent    int64  // a position up to which the client has everything already; 0 for none
	Notes   []agui.Event

	answering bool // the request answered something
	// Answered lists the calls that the request answered and that were not Questions.
	Answered []AnsweredCall
	// Access is what the caller may do with the Session, where it is another user's; nil for its own.
	Access *store.Access

	// CallNames are the names of the Turn's tool calls so far, by id, for a dialect that
	// repeats them on results; only TDesign does.
	CallNames map[string]string
	turnID    string // under way, for who follows from a thread at rest

	rings []string // Sessions whose owners have to look besides

	begun *begun // what the owner has to do, when this request alone made it
}

// begun is a Turn that a request has just begun on a thread at rest: all its owner would
// otherwise read back from the store.
type begun struct {
	todo store.Agenda
	// messages is the whole transcript when the thread is new, else nil.
	messages []agui.Message
	handed   int // Sessions.handed when the request came
}
