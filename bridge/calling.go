package bridge

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/tools"
	"aqueduct/store"
)

// calling gathers what the Agent of a Turn is called with: the transcript with the bytes of its parts, the tools that the
// client declared, the shared state, a span and a token.
type calling struct {
	cfg   *Config
	log   *sessionLog
	pasts *transcripts
	row   *store.Turn
	input turnInput
	trace *turnTrace
	// first is all messages there are, while the thread's first Run begins: they need not be read.
	first []agui.Message
}

// call is a Call for a Run, which need not be open, and which of its messages began that Run.
//
// Messages is the whole current branch, Prompt the part of it that the Agent has not got: which of the two an Agent
// reads is its own affair (PromptReader).
func (c *calling) call(ctx context.Context, state json.RawMessage, runID string, profile Profile) (call Call, fresh []agui.Message, err error) {
	call = Call{
		SessionID: c.log.id, InstanceID: InstanceID(c.log.row, c.row.AgentID), ThreadID: c.log.row.ExternalID, TurnID: c.row.ID, AgentID: c.row.AgentID, UserID: c.row.Prompter(c.log.row),
		Traceparent: c.trace.context.Traceparent(), Tracestate: c.trace.context.State, Context: c.input.Context, ForwardedProps: c.input.Props,
		State: state, Tools: profile.tools(),
		Unprompted: c.input.Unprompted, Acts: c.input.Acts, Branched: c.row.BranchedFrom != "",
	}
	if len(profile.Props) > 0 {
		call.ForwardedProps = profile.Props
	}
	if first := c.first; first != nil {
		c.first = nil
		call.Messages, call.Prompt, fresh = agui.OrderResults(slices.Clone(first)), promptOf(first), first
		c.add(&call, profile)
		err = c.loadParts(ctx, &call)
		return call, fresh, err
	}
	past, err := c.pasts.of(ctx, c.log.id, c.cfg.Limits.Transcript)
	if err != nil {
		return call, nil, err
	}
	waiting, err := c.waiting(ctx)
	if err != nil {
		return call, nil, err
	}
	fresh = call.gather(past, runID, c.row.ID, waiting)
	nameSpeakers(call.Messages, c.log.row.AgentID, c.row.AgentID)
	c.add(&call, profile)
	err = c.loadParts(ctx, &call) // not in the return itself, which may copy call before
	return call, fresh, err
}

// add gives the Agent the client's messages that are not part of the thread: those of the newest POST of the Turn that had
// any.
func (c *calling) add(call *Call, profile Profile) {
	added := profile.Added
	if len(added) == 0 {
		added = c.input.Added
	}
	if len(added) > 0 {
		call.Messages = withAdded(call.Messages, added, c.cfg.Agents.Protocol(c.log.row.Tenant, c.row.AgentID) == store.AgentAGUI)
	}
}

// waiting are the Runs of other Turns that wait, where the Turn's id does not tell which those are.
func (c *calling) waiting(ctx context.Context) (map[string]bool, error) {
	if !c.input.Task {
		return nil, nil
	}
	waiting := make(map[string]bool)
	runs, err := c.cfg.Store.ReservedRuns(ctx, store.System(), c.log.id)
	for _, r := range runs {
		waiting[r.ID] = r.TurnID != c.row.ID
	}
	return waiting, err
}

// loadParts gives a Call the bytes of its parts.
func (c *calling) loadParts(ctx context.Context, call *Call) (err error) {
	l := &partLoader{store: c.cfg.Store, entries: c.cfg.Contexts, base: c.cfg.AgentURL, sessionID: c.log.id, room: agentParts, loaded: make(map[string]*agui.Source)}
	if call.Prompt, err = l.fill(ctx, call.Prompt); err != nil {
		return err
	}
	if _, ok := c.cfg.Agents.serving(c.log.row, c.row.AgentID).(PromptReader); ok {
		return nil
	}
	call.Messages, err = l.fill(ctx, call.Messages)
	return err
}

// token gives a call a token of its own; the hash is kept.
// Each call has a token of its own, and the hash of the newest is kept: an Agent that was called before and still runs
// cannot act for the Turn any more.
func (c *calling) token(call *Call) (hash []byte) {
	call.RunToken, hash = newRunToken(c.row.ID)
	return hash
}

// callAgain gives a call that goes on with the Turn a token of its own, and the move by which this replica holds the Agent's
// call. The move comes after those of the status. After a call that was lost, this replica holds the next one when the
// Agent has answered (turn.opened).
func (c *calling) callAgain(call *Call) store.Move {
	hash, next := c.token(call), c.cfg.Replica
	if c.row.Upstream == store.UpstreamLost {
		next = store.UpstreamCalling
	}
	c.row.Upstream = next
	return store.TurnMove{ID: c.row.ID, DispatchedAt: time.Now(), TokenHash: hash, Upstream: next}
}

// caller is who calls tools with a call's token.
func (c *calling) caller(call Call) caller {
	from := tools.CallerOf(c.log.row, *c.row)
	// The entry stays in memory for as long as the Agent runs, and no rule about tools looks at the state, which may
	// be large.
	from.Session.State, from.Trace = nil, c.trace.context
	return caller{from, runTokenHash(call.RunToken)}
}

// placeInputs puts what began a queued Turn behind the output of the Turns before it, and leaves that out where
// this Turn began a branch without it.
// A message that was queued while an answer was written has an id before that answer's messages. It is given a new id,
// which puts it behind them, as its reader saw it.
func (c *calling) placeInputs(ctx context.Context) error {
	if !c.input.Queued && c.row.BranchedFrom == "" {
		return nil
	}
	c.pasts.drop(c.log.id)
	if !c.input.Queued {
		return nil
	}
	inputs, err := c.cfg.Store.InputsOfTurn(ctx, store.System(), c.log.id, c.row.ID)
	if err != nil {
		return err
	}
	var moves []store.Move
	if from := c.row.BranchedFrom; from != "" {
		if from == store.BranchedFromStart {
			from = ""
		}
		moves = append(moves, store.ReplaceMessages{SessionID: c.log.id, AfterTurn: from, BeforeTurn: c.row.ID})
	}
	for _, m := range inputs {
		moves = append(moves, store.MoveMessage{ID: m.ID, NewID: newID()})
	}
	if len(moves) == 0 {
		return nil
	}
	return c.log.keep(ctx, moves...)
}

func (p Profile) tools() []agui.Tool {
	tools := make([]agui.Tool, 0, len(p.Tools))
	for _, t := range p.Tools {
		if approval.ReservedTool(t.Name) {
			continue // a page may declare the cards that it draws; they are no tools of an agent's
		}
		tools = append(tools, agui.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return tools
}

// answerTo is a settled Question as its Agent gets the answer.
func answerTo(q approval.Question) approval.Delivery {
	status, payload := approval.DeliveryOf(q)
	a := approval.Delivery{UpstreamID: q.Call.UpstreamID, Key: q.Call.IdempotencyKey, CallID: q.Call.ID, Fingerprint: q.Fingerprint(), Kind: approval.AskPermission, Status: status, Payload: payload}
	a.Reason, a.Reject = approval.ExpiryOf(q)
	a.Args, a.Edited = q.Call.Args, len(q.Approval.EditedArgs) > 0
	a.Event, a.Schema, a.Words = q.Call.Event, q.Approval.ResponseSchema, q.Approval.Reason
	switch {
	case q.ClientTool():
		a.Kind = approval.AskClientTool
	case q.Approval.Kind == store.ApprovalInput:
		a.Kind = approval.AskInput
	}
	return a
}
