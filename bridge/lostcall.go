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
//	A crash in 3 or 4 leads to 1 again, where nothing is open: the Agent is called at once.

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

// lostCall has a Turn wait, or its Agent be called again, whose call was lost. It is false where the Agent cannot be called
// again, or waited for no Question: what it was doing is then lost with the call.
//
// An Agent that waits for another one's Question is not called again: its call of that agent has no Question that it could
// find by a key.
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

// isKnown reports whether a lost call of the Agent has had what became of a Question, as far as the rows show.
func isKnown(q approval.Question) bool {
	return !q.Call.DeliveredAt.IsZero() && q.Concluded() && q.Call.InTranscript
}

// resumeOf are the answers for an Agent whose call was lost: all that its Turn has had. A ToolCall whose result the Agent
// has had is left out, since it is found by its key.
//
// What a client runs for an approved call has no key of its own: the Agent knows the call that was approved.
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
