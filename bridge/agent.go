package bridge

import (
	"context"
	"encoding/json"
	"slices"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
)

// Agent answers prompts. An implementation is safe for concurrent use.
type Agent interface {
	// Start gives the Agent a new prompt.
	Start(ctx context.Context, call Call) (Turn, error)
	// Resume goes on with a Turn whose upstream has ended to wait for answers, or, with no
	// answers, takes up one that a restart interrupted. ErrCannotResume when that is not
	// possible.
	Resume(ctx context.Context, call Call, answers []approval.Delivery) (Turn, error)
}

// Pauser is a Turn whose upstream may only take so long. Its limits stand still while a Question is open: then it
// is people who take long.
type Pauser interface {
	// Pause(true) is called when a Run has ended with open Questions, Pause(false) when none is open any more.
	Pause(paused bool)
}

// Forgetter is an Agent that keeps something for each Session.
type Forgetter interface {
	// Forget gives up what is kept under a Call's InstanceID: its Session is being deleted.
	Forget(ctx context.Context, instanceID string) error
}

// Resumable is an Agent, or a Turn of one, that may be able to answer a Turn again after its call was lost. Such an Agent
// keeps nothing in a call that it needs: called again with the answers, it finds its tool calls by their idempotency keys.
type Resumable interface {
	// Resumable reports whether it can: of an Agent as it was configured, of a Turn as its upstream reported.
	Resumable() bool
}

func isResumable(of any) bool {
	r, ok := of.(Resumable)
	return ok && r.Resumable()
}

// Turn is one prompt being answered upstream. Next is called from one goroutine; Cancel, Release and an
// Answerer's Answer may be called beside it.
type Turn interface {
	// Next waits for the upstream's next output. After an Output with an End it is not
	// called again. An error is a *fault.Error, or ctx's.
	Next(ctx context.Context) ([]Output, error)
	// Cancel asks the upstream to stop. Next then ends soon.
	Cancel(ctx context.Context) error
	// Release gives up everything held for the Turn. It returns when that is done.
	Release()
}

// Answerer is a Turn whose upstream takes answers while it is being read. Any other is called again with them once
// it has ended to wait.
type Answerer interface {
	// Answer hands one answer over. It does not wait for the upstream to act on it: the goroutine that reads the
	// upstream's output calls it. ErrCannotResume when the upstream must be called again instead.
	Answer(ctx context.Context, a approval.Delivery) error
}

// Call is what an Agent is called with.
//
// RunToken is the secret by which the Agent calls this server. Each Call with one has another, and of a Turn only the
// newest is good; "" leaves the Agent the token it has, where a Turn is taken up again.
type Call struct {
	SessionID string
	// InstanceID is what the Agent keeps anything for this Session under: the Session's id for the thread's own Agent,
	// another for each further one that is addressed in it.
	InstanceID  string
	ThreadID    string // the client's name of the Session
	TurnID      string
	AgentID     string
	UserID      string
	Traceparent string // W3C trace context: the span in which the Agent is called
	Tracestate  string
	RunToken    string
	// Messages is the transcript, the prompt last. Large parts that clients sent are data again here, but for an Agent
	// that is a PromptReader.
	Messages []agui.Message
	// Prompt are those of the user's that began this Turn. The messages of an earlier one,
	// and not answered, has been sent.
	Prompt         []agui.Message
	Tools          []agui.Tool
	State          json.RawMessage
	Context        []agui.Context
	ForwardedProps json.RawMessage
	// Cursor is the Cursor of the Session's newest Output that was kept, "" when none had one.
	Cursor string
	// Branched is set when Messages do not continue what the Session's Turn before was given: something was edited, or is to
	// be answered again. An Agent that keeps a conversation of its own must begin another.
	Branched bool
	// Acts is set when the user began this Turn without a message, by ForwardedProps or State.
	Acts bool
	// Unprompted is set when no prompt began this Turn: the Agent sent output by itself.
	Unprompted bool
}

// Input returns the prompt: the newest user message, or the newest tool result if it began the Turn. It returns an empty
// message if no message began the Turn.
func (c Call) Input() agui.Message {
	if n := len(c.Prompt); n > 0 && !slices.ContainsFunc(c.Prompt, func(m agui.Message) bool { return m.Role != agui.RoleTool }) {
		return c.Prompt[n-1]
	}
	for i := len(c.Messages) - 1; i >= 0 && !c.Acts; i-- {
		if c.Messages[i].Role == agui.RoleUser {
			return c.Messages[i]
		}
	}
	return agui.Message{Role: agui.RoleUser}
}

// Output is one thing a Turn gives. Exactly one of Event, Amended, Question, Withdrawn and End is
// set, or none of them and a Cursor.
type Output struct {
	Event     agui.Event
	Amended   *agui.Amendment // of a message that the Turn has streamed
	Question  *approval.Request
	Withdrawn string // the UpstreamID of a Question that the Agent no longer asks
	End       *End
	// Cursor names the position up to which the upstream's words are in the Outputs until
	// this one, itself among them. It is kept with them, in the same commit.
	Cursor string
}

// Acknowledger is a Turn whose upstream repeats what it does not know to be kept.
type Acknowledger interface {
	// Acked reports that every Output up to the one with this Cursor has been committed. It is
	// called by the committer and must be quick. Calls come in the order of the commits, so a later Cursor covers
	// those before it.
	Acked(cursor string)
}

// End is the upstream's last word.
type End struct {
	Usage   []agui.TokenUsage
	Result  json.RawMessage
	Pending []string     // upstream ids of Questions it waits for; nil when it did not say
	Failure *fault.Error // set when the Agent itself reports an error
	// Cancelled: the Agent was not called, because no person answered its question and it accepts nothing else.
	Cancelled bool `json:",omitempty"`
}
