// This file takes up a Turn whose Agent was called by a process that has ended, where the Agent can be called again
// (Resumable).
//
//	The server is killed while a call of a tool waits for a person. The Agent's stream breaks, and so does its :wait.
//	1. The next process finds the Turn (session.supervise, restore). It cannot take up the stream: lostCall.
//	2. Questions are open: the Turn becomes UpstreamLost. The run token is cleared, so an Agent that still waits by the lost
//	   call cannot act for the Turn. The Questions stay in every inbox.
//	3. The last one is decided. One commit marks the answers as delivered and makes the Turn UpstreamCalling; then the
//	   Agent is called with them.
//	4. The Agent answers: the replica holds its call (opened), and approved calls begin. If it does not, the Turn fails, and
//	   they end without having begun.
//	A crash in 3 or 4 leads to 1 again. No Question is open then, so the Agent is called at once.

package bridge

import (
	"context"
	"slices"
	"strings"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// lostCall takes up a Turn whose Agent's call was lost: the Turn waits, or its Agent is called again. It returns false if the
// Agent cannot be called again, or waited for no Question. The Agent's work is then lost with the call.
//
// An Agent that waits for another Agent's Question is not called again. Its call of that other Agent has no Question that it
// could find by a key.
func (d *deliverer) lostCall(ctx context.Context) (bool, error) {
	if !d.upstream.resumable {
		return false, nil
	}
	all, err := d.questions.all(ctx)
	if err != nil || slices.ContainsFunc(all, isOpenRelayed) {
		return false, err
	}
	switch {
	case slices.ContainsFunc(all, func(q approval.Question) bool { return q.Open() && ofAgent(q) }):
		records := d.writer.trace.invokeEnded(d.writer.lastSeq(), trace.InvokeWaiting, "", time.Now())
		err = d.writer.keep(ctx, records, store.TurnMove{ID: d.row.ID, Upstream: store.UpstreamLost, TokenHash: []byte{}})
	case slices.ContainsFunc(all, func(q approval.Question) bool { return ofAgent(q) && !isKnown(q) }):
		d.lost = true
	default:
		return false, nil
	}
	d.row.Upstream = store.UpstreamLost
	return err == nil, err
}

func isOpenRelayed(q approval.Question) bool {
	_, relayed := q.Relayed()
	return relayed && q.Open()
}

// ofAgent reports whether a Question is one that the Agent of its Turn asked, or has a person asked by calling a tool.
func ofAgent(q approval.Question) bool {
	_, relayed := q.Relayed()
	return !relayed && !q.NeverAsked() && !q.SurvivesTurn()
}

// isKnown reports whether a lost call of the Agent received the outcome of a Question, as far as the rows show.
func isKnown(q approval.Question) bool {
	return !q.Call.DeliveredAt.IsZero() && q.Concluded() && q.Call.InTranscript
}

// resumeOf returns the answers for an Agent whose call was lost: all that its Turn has had. It leaves out a ToolCall whose
// result the Agent has had, since the Agent finds that by its key.
//
// A call that a client executes for an approved call has no key of its own. The Agent gets its answer under the id and the key
// of the approved call, which it knows.
func resumeOf(all []approval.Question) (answers []approval.Delivery) {
	keys := make(map[string]string, len(all)) // by the id of a ToolCall
	for _, q := range all {
		keys[q.Call.ID] = q.Call.IdempotencyKey
		if q.Open() || !ofAgent(q) || q.IsToolCall() && isKnown(q) {
			continue
		}
		a := answerTo(q)
		if q.IsToolCall() {
			a.UpstreamID = q.Call.ID
			if approved, ok := strings.CutPrefix(q.Call.UpstreamID, approval.ApprovedPrefix); ok {
				a.UpstreamID, a.Key = approved, keys[approved]
			}
		}
		a.Repeated = isKnown(q)
		answers = append(answers, a)
	}
	return answers
}
