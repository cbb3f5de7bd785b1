package bridge

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// turnTrace makes the Records of a Turn's life: its beginning, its end, the calls of its Agent, what the policy decided.
// A Record is kept in the commit of what it describes and carries the position of the log that it stands behind.
//
// Records and events share positions: a reader of the trace sees for each Record after which event it happened.
type turnTrace struct {
	row        *store.Turn
	prompter   string
	unprompted bool
	parent     string              // the span that the request came from; "" of a trace that begins here
	context    trace.Context       // the span of the Turn
	invokedAt  time.Time           // when the Agent was called whose call is open; zero when none is
	waits      []approval.Question // of the Turn, as they were last read
}

// newTurnTrace makes the trace of a Turn. A Turn from before spans were kept gets one for this process.
func newTurnTrace(row *store.Turn, prompter string, input turnInput) turnTrace {
	c, ok := trace.Parse(row.Traceparent, row.Tracestate)
	if !ok {
		c = trace.Continue(input.Traceparent, "")
	}
	return turnTrace{row: row, prompter: prompter, unprompted: input.Unprompted, parent: input.ParentSpan, context: c, invokedAt: calledSince(*row)}
}

// calledSince is when the Agent was called whose call was open when this process took the Turn up; zero when none was.
func calledSince(row store.Turn) time.Time {
	if row.Upstream == "" || row.Waiting() {
		return time.Time{}
	}
	return row.DispatchedAt
}

func (t *turnTrace) record(kind string, now time.Time, payload any) store.Record {
	return trace.Record(kind, t.row.SessionID, t.row.ID, now, payload)
}

// at has Records stand behind a position of the log. The trace of a Turn that is not marked as traced is read from its
// rows, so a Record of it would be shown twice.
func (t *turnTrace) at(seq int64, records ...store.Record) []store.Record {
	if !t.row.Traced {
		return nil
	}
	for i := range records {
		records[i].AtSeq = seq
	}
	return records
}

// begun are run_started and agent_invoke_started. They stand before the Run's first event.
func (t *turnTrace) begun(firstSeq int64, now time.Time, call *Call) []store.Record {
	started := t.record(trace.RunStarted, now, trace.Started{
		AgentID: t.row.AgentID, UserID: t.prompter, Unprompted: t.unprompted, Traceparent: t.context.Traceparent(), Tracestate: t.context.State,
		ParentSpan: t.parent,
	})
	reason := trace.BecausePrompt
	if t.unprompted {
		reason = trace.BecauseSpoke
	}
	return append(t.at(firstSeq-1, started), t.invoked(firstSeq-1, reason, now, call)...)
}

// invoked are agent_invoke_started and, before it, the end of a call that the Agent is not read from any more. The call
// gets a span of its own.
func (t *turnTrace) invoked(seq int64, reason string, now time.Time, call *Call) []store.Record {
	c := t.context.Child()
	call.Traceparent, call.Tracestate = c.Traceparent(), c.State
	before := t.invokeEnded(seq, trace.InvokeWaiting, "", now)
	t.invokedAt = now
	return append(before, t.at(seq, t.record(trace.AgentInvokeStarted, now, trace.Invoked{
		AgentID: t.row.AgentID, Reason: reason, Traceparent: c.Traceparent(),
	}))...)
}

// invokeEnded is agent_invoke_done of the call that is open; none when none is.
func (t *turnTrace) invokeEnded(seq int64, status, code string, now time.Time) []store.Record {
	if t.invokedAt.IsZero() {
		return nil
	}
	took := now.Sub(t.invokedAt)
	t.invokedAt = time.Time{}
	return t.at(seq, t.record(trace.AgentInvokeDone, now, trace.InvokeEnded{
		AgentID: t.row.AgentID, Status: status, Code: code, DurationMS: max(0, took.Milliseconds()),
	}))
}

// ended are the end of the Agent's call and of the Turn. They stand behind its last event.
func (t *turnTrace) ended(seq int64, e ending, usage json.RawMessage, now time.Time) []store.Record {
	end := trace.TurnEnd{Status: string(e.turn), Code: e.code(), Usage: usage}
	kind, status := trace.RunFailed, trace.InvokeFailed
	switch e.turn {
	case store.TurnDone:
		kind, status = trace.RunDone, trace.InvokeDone
	case store.TurnCancelled:
		end.Code, status = "cancelled", trace.InvokeCancelled
	default:
		// What is left is FAILED, and no Turn fails without a failure.
		end.Message = e.failure.Message
		end.Frame, _ = errors.AsType[*trace.FrameError](e.failure)
	}
	total, paused := t.times(now)
	end.DurationMS, end.PausedMS = total.Milliseconds(), paused.Milliseconds()
	return append(t.invokeEnded(seq, status, e.code(), now), t.at(seq, t.record(kind, now, end))...)
}

// decided is policy_decision of a permission.
func (t *turnTrace) decided(payload []byte) store.Record {
	return t.record(trace.PolicyDecision, time.Now(), json.RawMessage(payload))
}

// times are how long the Turn took since its prompt, and for how much of that one of its Questions was open.
func (t *turnTrace) times(now time.Time) (total, paused time.Duration) {
	total = max(0, now.Sub(t.row.CreatedAt))
	return total, min(openFor(t.waits, now), total)
}

// openFor is for how long at least one of the Questions was open.
// Questions overlap, so their times are merged and not added.
func openFor(all []approval.Question, now time.Time) (sum time.Duration) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b approval.Question) int { return a.Call.CreatedAt.Compare(b.Call.CreatedAt) })
	var until time.Time
	for _, q := range all {
		from, to := q.Call.CreatedAt, q.Call.EndedAt
		if q.Approval.ID != "" {
			to = q.Approval.DecidedAt
		}
		if q.NeverAsked() {
			continue
		}
		if to.IsZero() {
			to = now
		}
		if from.Before(until) {
			from = until
		}
		if to.After(from) {
			sum, until = sum+to.Sub(from), to
		}
	}
	return sum
}

// traceContext is the span of a Turn that is made for a request, and the id of the span that made the request.
func (req ChatRequest) traceContext() (span trace.Context, parent string) {
	if from, ok := trace.Parse(req.Traceparent, ""); ok {
		parent = from.SpanID
	}
	return trace.Continue(req.Traceparent, req.Tracestate), parent
}

// inputRecord is user_input of a message that began a Turn, as it is kept.
func inputRecord(sessionID, turnID string, m agui.Message) store.Record {
	var of struct {
		Content json.RawMessage `json:"content"`
	}
	_ = json.Unmarshal(m.AppendJSON(nil), &of) // of our own writing
	return trace.Record(trace.UserInput, sessionID, turnID, time.Now(), trace.InputOf(m.ID, m.Role, m.Content.String(), of.Content))
}
