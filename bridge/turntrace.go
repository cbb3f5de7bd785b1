package bridge

import (
	"encoding/json"
	"slices"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/inbox"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// What happens in a Turn is kept as Records in the commit of what it describes. Those of the Turn's life, its beginning,
// its end and the calls of its Agent, carry the position of the log that they stand behind.

// traceContext is the span of a Turn that is made for a request.
func (req ChatRequest) traceContext() trace.Context {
	return trace.Continue(req.Traceparent, req.Tracestate)
}

// span is the span of a Turn. One from before they were kept gets one for this process.
func (t *turn) span() trace.Context {
	if t.trace.TraceID == "" {
		c, ok := trace.Parse(t.row.Traceparent, t.row.Tracestate)
		if !ok {
			c = trace.Continue(t.input.Traceparent, "")
		}
		t.trace = c
	}
	return t.trace
}

// at has Records stand behind a position of the log. Of a Turn that is not traced nothing is kept twice: its rows tell.
func (t *turn) at(seq int64, records ...store.Record) []store.Record {
	if !t.row.Traced {
		return nil
	}
	for i := range records {
		records[i].AtSeq = seq
	}
	return records
}

// begunRecords are run_started and, with it, agent_invoke_started. They stand before the Run's first event.
func (t *turn) begunRecords(now time.Time, call *Call) []store.Record {
	c := t.span()
	started := trace.Record(trace.RunStarted, t.s.id, t.row.ID, now, trace.Started{
		AgentID: t.row.AgentID, UserID: t.row.Prompter(t.s.row), Unprompted: t.input.Unprompted, Traceparent: c.Traceparent(), Tracestate: c.State,
	})
	reason := trace.BecausePrompt
	if t.input.Unprompted {
		reason = trace.BecauseSpoke
	}
	at := t.run.row.FirstSeq - 1
	return append(t.at(at, started), t.invokeRecords(at, reason, now, call)...)
}

// invokeRecords are agent_invoke_started, and before it the end of a call that the Agent is not read from any more. The
// call gets a span of its own.
func (t *turn) invokeRecords(seq int64, reason string, now time.Time, call *Call) []store.Record {
	c := t.span().Child()
	call.Traceparent, call.Tracestate = c.Traceparent(), c.State
	before := t.invokeEnded(seq, trace.InvokeWaiting, "", now)
	t.invokedAt = now
	return append(before, t.at(seq, trace.Record(trace.AgentInvokeStarted, t.s.id, t.row.ID, now, trace.Invoked{
		AgentID: t.row.AgentID, Reason: reason, Traceparent: c.Traceparent(),
	}))...)
}

// invokeEnded is agent_invoke_done of the call that is open; none when none is.
func (t *turn) invokeEnded(seq int64, status, code string, now time.Time) []store.Record {
	if t.invokedAt.IsZero() {
		return nil
	}
	took := now.Sub(t.invokedAt)
	t.invokedAt = time.Time{}
	return t.at(seq, trace.Record(trace.AgentInvokeDone, t.s.id, t.row.ID, now, trace.InvokeEnded{
		AgentID: t.row.AgentID, Status: status, Code: code, DurationMS: max(0, took.Milliseconds()),
	}))
}

// endRecords are the end of the Agent's call and of the Turn. They stand behind its last event.
func (r *run) endRecords(e ending, usage json.RawMessage, now time.Time) []store.Record {
	t, seq := r.t, r.lastSeq()
	end := trace.TurnEnd{Status: string(e.turn), Code: e.code(), Usage: usage}
	kind, status := trace.RunFailed, trace.InvokeFailed
	switch e.turn {
	case store.TurnDone:
		kind, status = trace.RunDone, trace.InvokeDone
	case store.TurnCancelled:
		end.Code, status = "cancelled", trace.InvokeCancelled
	default:
		end.Message = e.failure.Message
	}
	total, paused := t.times(now)
	end.DurationMS, end.PausedMS = total.Milliseconds(), paused.Milliseconds()
	return append(t.invokeEnded(seq, status, e.code(), now), t.at(seq, trace.Record(kind, t.s.id, t.row.ID, now, end))...)
}

// lastSeq is the position of the Run's newest event once what was emitted is kept.
func (r *run) lastSeq() int64 { return r.t.s.log.Last() + int64(r.n) }

// times are how long the Turn took since its prompt, and how much of that a Question of it was open.
func (t *turn) times(now time.Time) (total, paused time.Duration) {
	return max(0, now.Sub(t.row.CreatedAt)), min(openFor(t.waits, now), max(0, now.Sub(t.row.CreatedAt)))
}

// openFor is for how long at least one of the Questions was open.
func openFor(all []inbox.Question, now time.Time) (sum time.Duration) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b inbox.Question) int { return a.Call.CreatedAt.Compare(b.Call.CreatedAt) })
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

// calledSince is when the Agent was called whose call was open when this process took the Turn up; zero when none was.
func calledSince(row store.Turn) time.Time {
	if row.Upstream == "" || row.Upstream == store.UpstreamWaits {
		return time.Time{}
	}
	return row.DispatchedAt
}

// inputRecord is user_input of a message that began a Turn, as it is kept.
func inputRecord(sessionID, turnID string, m agui.Message) store.Record {
	var of struct {
		Content json.RawMessage `json:"content"`
	}
	_ = json.Unmarshal(m.AppendJSON(nil), &of) // of our own writing
	return trace.Record(trace.UserInput, sessionID, turnID, time.Now(), trace.InputOf(m.ID, m.Role, m.Content.String(), of.Content))
}

// lastSeq is the position of the newest event once what was emitted is kept.
func (t *turn) lastSeq() int64 {
	if t.run != nil {
		return t.run.lastSeq()
	}
	return t.s.log.Last()
}

// decisionRecord is policy_decision of a permission.
func (t *turn) decisionRecord(payload []byte) store.Record {
	return trace.Record(trace.PolicyDecision, t.s.id, t.row.ID, time.Now(), json.RawMessage(payload))
}
