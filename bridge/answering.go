// This file is how an Agent gets the answers to its Questions: into the upstream that is being read, by a call when it
// has ended to wait, or by a call in the place of an upstream that cannot take them. deliverer.go decides which.

package bridge

import (
	"context"
	"slices"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/internal/failpoint"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// answer gives the Agent the answers it has not got. That they were delivered is kept first: a crash in between must not
// deliver one twice.
//
// So of the two faults of a crash, an answer that is lost and one that is given twice, the first is chosen, and
// repaired: the Agent asks again and gets the same answer (asker.repeated). Doing something twice could not be
// repaired.
func (d *deliverer) answer(ctx context.Context, n news) error {
	now := time.Now()
	var moves []store.Move
	stamps := make(map[int]string, len(n.undelivered)) // by the place of its move, the id of a Question
	for _, q := range n.undelivered {
		stamps[len(moves)] = q.Call.ID
		moves = append(moves, deliveredMoves(q, now)...)
	}
	moves = append(moves, statusMoves(d.row, n.status)...)
	var call Call
	var records []store.Record
	if n.again {
		var err error
		if call, _, err = d.calling.call(ctx, d.writer.state(), d.writer.run.row.ID, d.writer.run.profile); err != nil {
			return err
		}
		moves = append(moves, d.calling.callAgain(&call))
		records = d.writer.trace.invoked(d.writer.lastSeq(), trace.BecauseAnswers, now, &call)
	}
	// A revoke that came before this commit makes its move lost, and the answer is not given. One that comes after it
	// is refused, since the answer is on its way.
	lost, err := d.writer.tryKeep(ctx, records, moves...)
	if err != nil {
		return err
	}
	var missed []string
	for _, i := range lost {
		if id, stamp := stamps[i]; stamp {
			missed = append(missed, id)
		}
	}
	revoked, err := d.revoked(ctx, missed, now)
	if err != nil {
		return err
	}
	answers := d.answers(n.undelivered, revoked)
	if n.resume != nil {
		answers = slices.DeleteFunc(n.resume, func(a approval.Delivery) bool { return revoked[a.CallID] })
	}
	d.row.Status, d.lost = n.status, false
	d.settle(n)
	if len(answers) > 0 {
		failpoint.Here("before_delivery")
	}
	switch {
	case n.again:
		return d.upstream.resume(ctx, call, d.calling.caller(call), answers)
	case d.upstream.reader != nil && len(answers) > 0:
		return d.answerUpstream(ctx, answers)
	}
	return nil
}

// revoked returns those of the Questions whose stamp of a time was lost because the answer was revoked; the next look passes
// that on. A stamp also counts as lost when the commit landed and its result did not arrive (eventlog.Writer.Keep). Then
// the row has the stamp.
func (d *deliverer) revoked(ctx context.Context, missed []string, stamp time.Time) (map[string]bool, error) {
	revoked := make(map[string]bool)
	for _, id := range missed {
		call, err := d.cfg.Store.ToolCall(ctx, store.System(), id)
		if err != nil {
			return nil, err
		}
		if !call.DeliveredAt.Equal(stamp.Truncate(time.Millisecond)) {
			revoked[id], d.log.again = true, true
		}
	}
	return revoked, nil
}

// deliveredMoves keep that an answer is on its way. A permission that was approved ends with that; a call of ours goes on.
func deliveredMoves(q approval.Question, now time.Time) []store.Move {
	if q.Call.Status != store.ToolDispatched || q.IsToolCall() {
		return []store.Move{store.ToolCallDelivered{ID: q.Call.ID, At: now}}
	}
	return []store.Move{
		// While is what a revocation competes with: of the two compare-and-sets one is lost.
		store.ToolCallDelivered{ID: q.Call.ID, At: now, While: store.ToolDispatched},
		store.ToolCallMove{ID: q.Call.ID, From: store.ToolDispatched, To: store.ToolSucceeded, EndedAt: now},
	}
}

// settle has deadlines, the quiet timer and the upstream follow the status that was kept.
func (d *deliverer) settle(n news) {
	for _, q := range n.undelivered {
		d.deadlines.Disarm(q.Call.ID)
	}
	if n.unshown && d.writer.run != nil {
		d.quiet.ask()
	}
	if d.quiet.calls = n.owed; n.status == store.TurnRunning {
		d.quiet.asking = false
		d.quiet.stop()
		d.upstream.pause(d.children.busy())
	}
	d.quiet.putOff(d.upstream.idle(), d.row.Status.Paused())
}

// answers are those to the Questions that were not revoked. The result of a ToolCall of ours the Agent learns by :wait;
// that call may begin.
func (d *deliverer) answers(undelivered []approval.Question, revoked map[string]bool) (answers []approval.Delivery) {
	for _, q := range undelivered {
		switch {
		case revoked[q.Call.ID]:
		case !q.IsToolCall():
			answers = append(answers, answerTo(q))
		case q.Call.Status == store.ToolDispatched && d.cfg.Tools != nil:
			d.cfg.Tools.Look() // it was approved, wherever that was
		}
	}
	return answers
}

// answerUpstream gives answers to the upstream that is being read. One that cannot take them is called again.
func (d *deliverer) answerUpstream(ctx context.Context, answers []approval.Delivery) error {
	for _, a := range answers {
		switch err := d.upstream.reader.answer(ctx, a); {
		case err == nil:
		// All are given again, also those that this upstream has taken: the call takes its place, and what it did
		// with them is lost.
		case cannotResume(err):
			return d.callWith(ctx, answers)
		default:
			return asFailure(err)
		}
	}
	return nil
}

// callWith calls the Agent again with answers that its upstream could not take.
// A Run of its own is begun although another may be reserved: what is decided here is committed as delivered and would
// not be looked at again.
func (d *deliverer) callWith(ctx context.Context, answers []approval.Delivery) error {
	d.release()
	if d.writer.run == nil { // even if another Run is due: the answers count as delivered, and would not be passed on again
		if err := d.writer.beginUnreserved(ctx); err != nil {
			return err
		}
	}
	call, _, err := d.calling.call(ctx, d.writer.state(), d.writer.run.row.ID, d.writer.run.profile)
	if err != nil {
		return err
	}
	records := d.writer.trace.invoked(d.writer.lastSeq(), trace.BecauseAnswers, time.Now(), &call)
	if err := d.writer.keep(ctx, records, d.calling.callAgain(&call)); err != nil {
		return err
	}
	return d.upstream.resume(ctx, call, d.calling.caller(call), answers)
}

// callAgain calls an Agent whose upstream was lost, if it has not got what was decided and is one that gets answers by a
// call. What it asked and is still open is cancelled, and the call's transcript shows that.
// Only an Agent that gets answers by a call can be called again; one that held a connection has lost what it was
// doing.
func (d *deliverer) callAgain(ctx context.Context) (bool, error) {
	held := d.upstream.takesAnswers()
	all, err := d.questions.all(ctx)
	if err != nil || held {
		return false, err
	}
	decided := slices.ContainsFunc(all, func(q approval.Question) bool {
		return !q.Open() && q.Call.DeliveredAt.IsZero() && !q.IsToolCall()
	})
	if !decided {
		return false, nil
	}
	d.release()
	if d.writer.run == nil {
		err := d.writer.beginUnreserved(ctx)
		if err == nil {
			err = d.writer.keep(ctx, nil)
		}
		if err != nil {
			return false, err
		}
	}
	if err := d.cancel(ctx, all, nil, approval.AskerGone(), false); err != nil {
		return false, err
	}
	return true, d.deliver(ctx)
}

// endUnanswered ends a Turn whose Agent takes only a person's answer, when no person gave one. The Turn is cancelled.
func (d *deliverer) endUnanswered(ctx context.Context) error {
	d.release()
	all, err := d.questions.all(ctx)
	if err != nil {
		return err
	}
	if d.writer.run == nil {
		if err := d.writer.beginUnreserved(ctx); err != nil {
			return err
		}
	}
	if err := d.cancel(ctx, all, nil, approval.WithdrawnByAgent(), true); err != nil {
		return err
	}
	_, err = d.writer.end(ctx, ending{
		turn: store.TurnCancelled, outcome: &agui.Outcome{Type: agui.OutcomeCancelled}, moves: undeliveredEnds(all, time.Now()),
	})
	return err
}
