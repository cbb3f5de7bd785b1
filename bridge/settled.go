package bridge

import (
	"context"
	"slices"
	"strings"
	"time"

	"aqueduct/bridge/inbox"
	"aqueduct/bridge/internal/failpoint"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// What was settled is told by the rows alone: who settles a Question only writes it and rings the bell. catchUp is the
// one place where the owner acts on it, and it is called whenever the owner looks: at a ring, before a Run ends, when
// an upstream has been opened, at every poll. So no answer can be missed, whatever happens between a Run's end and the
// settlement: the next look finds it.

// catchUp passes on what was settled: results go into the log, in the open Run or a further one, and answers to the
// Agent, each by itself, whatever else is open. The Turn's status follows. before are moves for the same commit; they
// come from whoever has just begun the Run that the results belong into.
func (t *turn) catchUp(ctx context.Context, before ...store.Move) error {
	all, err := t.questions(ctx)
	if err != nil {
		return err
	}
	p := t.toPassOn(all)
	if p.nothing() && len(before) == 0 {
		return nil
	}
	switch {
	case t.run != nil && len(before) == 0 && p.tells():
		due, err := t.reserved(ctx)
		if err != nil {
			return err
		}
		if due {
			return t.endForReserved(ctx)
		}
	case t.run == nil && (p.tells() || p.again || p.unshown):
		begun, ok, err := t.furtherRun(ctx)
		if err != nil || !ok {
			return err
		}
		before = append(before, begun...)
	case t.run == nil && p.quiet():
		return nil
	}
	moves, err := t.emitNews(before, p)
	if err != nil {
		return t.failOr(ctx, err, before...)
	}
	return t.answerAgent(ctx, p, moves)
}

// passing is what is to be passed on.
type passing struct {
	open    []inbox.Question
	untold  []inbox.Question // concluded, and the log does not have the result
	begun   []inbox.Question // calls that run here, and the log does not have the start
	unheard []inbox.Question // settled, and the Agent can be told now
	again   bool             // by calling it again
	unshown bool             // a Question is open that the next Run's end has to show
	owed    bool             // all are settled, and the upstream is read and cannot be told
	status  store.TurnStatus // that the open Questions make
	changed bool             // it is another than the row's
}

func (p passing) quiet() bool   { return !p.tells() && len(p.unheard) == 0 && !p.changed }
func (p passing) nothing() bool { return p.quiet() && !p.unshown }

// tells reports whether there is something for the log.
func (p passing) tells() bool {
	return len(p.untold) > 0 || len(p.begun) > 0 || slices.ContainsFunc(p.unheard, inbox.Question.RunsHere)
}

// toPassOn sorts the Turn's Questions.
func (t *turn) toPassOn(all []inbox.Question) passing {
	var p passing
	held := t.pump != nil && t.pump.takesAnswers()
	for _, q := range all {
		if q.Open() {
			p.open = append(p.open, q)
			continue
		}
		switch {
		case q.Concluded() && !q.Call.Told:
			p.untold = append(p.untold, q)
		case !q.Concluded() && q.NeverAsked() && !t.isShown(q.Call):
			p.begun = append(p.begun, q)
		}
	}
	waits := t.noWait() && len(p.open) == 0
	for _, q := range all {
		if q.Open() || q.NeverAsked() || !q.Call.DeliveredAt.IsZero() {
			continue
		}
		if q.Proxied() || held || waits { // of a ToolCall of ours the Agent learns by :wait
			p.unheard = append(p.unheard, q)
			p.again = p.again || waits && !q.Proxied()
		} else if t.pump != nil {
			p.owed = len(p.open) == 0 && t.pump.upstream() != nil
		}
	}
	p.status = pausedBy(p.open)
	p.changed = p.status != t.row.Status
	chosen, _ := choose(p.open, t.profile)
	p.unshown = slices.ContainsFunc(chosen, func(q inbox.Question) bool { return q.Call.RunID == "" })
	return p
}

// emitNews puts into the open Run what it has to tell: calls that began, approvals whose calls are about to run, results.
func (t *turn) emitNews(moves []store.Move, p passing) ([]store.Move, error) {
	for _, q := range p.begun {
		if err := t.showCall(q.Call); err != nil {
			return moves, err
		}
		moves = append(moves, store.ToolCallShown{ID: q.Call.ID, RunID: t.run.row.ID, Anyway: true})
	}
	for _, q := range p.unheard {
		if !q.RunsHere() {
			continue
		}
		if !t.isShown(q.Call) { // approved before it was shown
			if err := t.run.emitCall(q); err != nil {
				return moves, err
			}
			moves = append(moves, store.ToolCallShown{ID: q.Call.ID, RunID: t.run.row.ID, Anyway: true})
		}
		if err := t.emitSettled(q); err != nil {
			return moves, err
		}
	}
	return t.emitResults(moves, p.untold)
}

// emitResults puts what was settled into the open Run. A Question that was settled before it was shown is shown with it.
func (t *turn) emitResults(moves []store.Move, untold []inbox.Question) ([]store.Move, error) {
	for _, q := range untold {
		switch {
		case t.isShown(q.Call):
		case q.NeverAsked():
			if err := t.showCall(q.Call); err != nil {
				return moves, err
			}
			moves = append(moves, store.ToolCallShown{ID: q.Call.ID, RunID: t.run.row.ID, Anyway: true})
		default:
			if err := t.run.emitCall(q); err != nil {
				return moves, err
			}
		}
		if c := t.calls[q.Call.ID]; c == nil || !c.resulted {
			if err := t.run.emitResult(q); err != nil {
				return moves, err
			}
		}
		moves = append(moves, store.ToolCallTold{ID: q.Call.ID})
	}
	return moves, nil
}

// answerAgent tells the Agent what it has not been told. That it was told is kept first: a crash in between must not
// tell it twice.
func (t *turn) answerAgent(ctx context.Context, p passing, moves []store.Move) error {
	now := time.Now()
	stamps := make(map[int]inbox.Question, len(p.unheard)) // by the place of their moves
	for _, q := range p.unheard {
		stamps[len(moves)] = q
		if q.Call.Status != store.ToolDispatched || q.Proxied() {
			moves = append(moves, store.ToolCallDelivered{ID: q.Call.ID, At: now})
			continue
		}
		moves = append(moves, store.ToolCallDelivered{ID: q.Call.ID, At: now, While: store.ToolDispatched},
			store.ToolCallMove{ID: q.Call.ID, From: store.ToolDispatched, To: store.ToolSucceeded, EndedAt: now})
	}
	moves = append(moves, t.statusMoves(p.status)...)
	call := Call{}
	var records []store.Record
	if p.again {
		full, err := t.callIn(ctx, t.run.row.ID, t.run.profile)
		if err != nil {
			return err
		}
		call = full.Call
		moves = append(moves, t.calledMove(&call))
		records = t.invokeRecords(t.lastSeq(), trace.BecauseAnswers, now, &call)
	}
	lost, err := t.keepAll(ctx, records, moves...)
	if err != nil {
		return err
	}
	for _, i := range lost { // revoked meanwhile: the next look passes that on
		if _, stamp := stamps[i]; stamp {
			delete(stamps, i)
			t.s.more = true
		}
	}
	answers := t.answersTo(p.unheard, stamps)
	t.row.Status = p.status
	for _, q := range p.unheard {
		t.s.m.deadlines.Disarm(q.Call.ID)
	}
	if p.unshown {
		t.toShow()
	}
	if t.owed = p.owed; p.status == store.TurnRunning {
		t.asked = false
		t.quiet.Stop()
		if t.pump != nil {
			t.pump.pause(false)
		}
	}
	t.listenOn()
	if len(answers) > 0 {
		failpoint.Here("before_delivery")
	}
	switch {
	case p.again:
		return t.readAgain(ctx, call, answers)
	case t.pump != nil && len(answers) > 0:
		return t.tellUpstream(ctx, answers)
	}
	return nil
}

// answersTo are what the Agent is told of those Questions that were stamped. One about a ToolCall of ours it learns of
// by :wait; that call may begin.
func (t *turn) answersTo(unheard []inbox.Question, stamps map[int]inbox.Question) (answers []Answer) {
	stamped := make(map[string]bool, len(stamps))
	for _, q := range stamps {
		stamped[q.Call.ID] = true
	}
	for _, q := range unheard {
		switch {
		case !stamped[q.Call.ID]:
		case q.Proxied():
			t.s.runApproved(q)
		default:
			answers = append(answers, answerTo(q))
		}
	}
	return answers
}

// runApproved has a call begin that somebody approved, wherever that was.
func (s *session) runApproved(q inbox.Question) {
	if q.Call.Status == store.ToolDispatched && s.m.cfg.Tools != nil {
		s.m.cfg.Tools.Look()
	}
}

// statusMoves bring the Turn's row to a status. Between the two pauses lies RUNNING.
func (t *turn) statusMoves(to store.TurnStatus) []store.Move {
	from := t.row.Status
	if from == to || from.Terminal() {
		return nil
	}
	var moves []store.Move
	if from.Paused() && to.Paused() {
		moves = append(moves, store.TurnMove{ID: t.row.ID, From: []store.TurnStatus{from}, To: store.TurnRunning})
		from = store.TurnRunning
	}
	return append(moves, store.TurnMove{ID: t.row.ID, From: []store.TurnStatus{from}, To: to})
}

// tellUpstream hands answers to the upstream that is being read. One that cannot take them is called again.
func (t *turn) tellUpstream(ctx context.Context, answers []Answer) error {
	for _, a := range answers {
		switch err := t.pump.answer(ctx, a); {
		case err == nil:
		case cannotResume(err):
			return t.callWith(ctx, answers)
		default:
			return t.fail(ctx, asFailure(err))
		}
	}
	return nil
}

// callAgain calls an Agent whose upstream was lost, if it has not been told what was decided and is one that is told by
// a call. What it asked and is still open is cancelled: the call says so.
func (t *turn) callAgain(ctx context.Context) (bool, error) {
	held := t.pump != nil && t.pump.takesAnswers()
	all, err := t.questions(ctx)
	if err != nil || held {
		return false, err
	}
	decided := slices.ContainsFunc(all, func(q inbox.Question) bool {
		return !q.Open() && q.Call.DeliveredAt.IsZero() && !q.Proxied()
	})
	if !decided {
		return false, nil
	}
	t.release()
	if t.run == nil {
		moves, err := t.beginRunOfOurs(ctx)
		if err == nil {
			err = t.keep(ctx, nil, moves...)
		}
		if err != nil {
			return false, err
		}
	}
	moves, err := t.cancelQuestions(ctx, all, nil, inbox.AskerGone(), false)
	if err != nil {
		return false, err
	}
	return true, t.catchUp(ctx, moves...)
}

// callWith calls the Agent again with answers that its upstream could not take.
func (t *turn) callWith(ctx context.Context, answers []Answer) error {
	t.release()
	var moves []store.Move
	if t.run == nil { // of ours even if another is due: the answers count as delivered, and nothing would pass them on again
		var err error
		if moves, err = t.beginRunOfOurs(ctx); err != nil {
			return err
		}
	}
	call, err := t.callIn(ctx, t.run.row.ID, t.run.profile)
	if err != nil {
		return err
	}
	again := t.invokeRecords(t.lastSeq(), trace.BecauseAnswers, time.Now(), &call.Call)
	if err := t.keep(ctx, again, append(moves, t.calledMove(&call.Call))...); err != nil {
		return err
	}
	return t.readAgain(ctx, call.Call, answers)
}

// calledMove gives a call a token of its own, and notes that this replica holds the Agent's call. It comes after the
// moves of the status.
func (t *turn) calledMove(call *Call) store.Move {
	token, hash := newRunToken(t.row.ID)
	call.RunToken = token
	t.row.Upstream = t.s.m.cfg.Replica
	return store.TurnMove{ID: t.row.ID, DispatchedAt: time.Now(), TokenHash: hash, Upstream: t.s.m.cfg.Replica}
}

// cancelQuestions settles what is open of the Turn's Questions, but for those an Agent listed, as the Decision says,
// each unless somebody was first, and puts what became of them into the open Run. One that was never shown is not shown
// any more. One that outlives the Turn stays in the inbox, and the chat learns that it is open elsewhere. When the Turn is
// over with it, a call that still runs is shown as running: nothing can be told of it afterwards.
func (t *turn) cancelQuestions(ctx context.Context, all []inbox.Question, listed []string, d inbox.Decision, over bool) ([]store.Move, error) {
	if len(all) == 0 {
		return nil, nil
	}
	var gone, stay []string
	for _, q := range all {
		switch {
		case !q.Open() || q.Call.UpstreamID != "" && slices.Contains(listed, q.Call.UpstreamID):
		case q.Outlives():
			stay = append(stay, q.Call.ID)
		default:
			gone = append(gone, q.Call.ID)
		}
	}
	if len(gone) > 0 {
		if err := t.settleAll(ctx, gone, d); err != nil {
			return nil, err
		}
		var err error
		if all, err = t.questions(ctx); err != nil {
			return nil, err
		}
	}
	var untold []inbox.Question
	for _, q := range all {
		switch {
		case slices.Contains(stay, q.Call.ID) && q.Call.RunID != "":
			q.Call.Result = []byte(`{"status":"open"}`)
			untold = append(untold, q)
		case q.Concluded() && !q.Call.Told, over && !q.Open() && !q.Call.Told:
			untold = append(untold, q)
		}
	}
	if t.run == nil { // it ended before its upstream did: the next look opens a Run for them
		return nil, nil
	}
	return t.emitResults(nil, untold)
}

// settleAll settles Questions for the system, or for who cancelled the Turn.
func (t *turn) settleAll(ctx context.Context, ids []string, d inbox.Decision) error {
	if len(ids) == 0 {
		return nil
	}
	m := t.s.m
	var done []inbox.Settled
	err := patiently(ctx, func() error {
		done = done[:0]
		return m.cfg.Store.InTx(ctx, func(tx store.Tx) error {
			session, err := tx.LockSession(ctx, store.System(), t.s.id)
			for i := 0; i < len(ids) && err == nil; i++ {
				var q inbox.Question
				if q, err = inbox.Load(ctx, tx, store.System(), ids[i]); err != nil {
					break
				}
				one := d
				one.Told = q.Call.RunID == ""
				var settled inbox.Settled
				settled, err = m.settler.Apply(ctx, tx, session, q, one, store.Principal{Tenant: session.Tenant, User: d.CancelledBy})
				done = append(done, settled)
			}
			return err
		})
	})
	if err == nil {
		m.measure(done...)
	}
	m.cfg.Notices.Kept()
	for _, id := range ids {
		m.deadlines.Disarm(id)
	}
	return err
}

// unasked takes back the one Question that the Agent no longer asks. It counts as delivered: nobody waits for the
// answer, whoever may give one meanwhile.
func (t *turn) unasked(ctx context.Context, upstreamID string) error {
	open, err := t.open(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(open, func(q inbox.Question) bool { return q.Call.UpstreamID == upstreamID })
	if i < 0 {
		return nil // settled already, or never asked
	}
	if err := t.settleAll(ctx, []string{open[i].Call.ID}, inbox.WithdrawnByAgent()); err != nil {
		return err
	}
	if err := t.keep(ctx, nil, store.ToolCallDelivered{ID: open[i].Call.ID, At: time.Now()}); err != nil {
		return err
	}
	return t.catchUp(ctx)
}

// neverHeard ends the calls of permissions that were approved while their Agent was about to end: it was never told.
func neverHeard(all []inbox.Question, now time.Time) (moves []store.Move) {
	for _, q := range all {
		if q.Call.Status == store.ToolDispatched && !q.Proxied() && q.Call.DeliveredAt.IsZero() {
			moves = append(moves, store.ToolCallMove{ID: q.Call.ID, From: store.ToolDispatched, To: store.ToolFailed, ErrorCode: inbox.CodeAskerGone, EndedAt: now})
		}
	}
	return moves
}

// awaitedBy are the upstream ids that an Agent, which has ended, waits for: those it listed, or, when it listed nothing,
// all it asked and has not been told. unknown says that it listed only what it never asked.
func awaitedBy(end *End, all []inbox.Question) (ids []string, unknown bool) {
	listed := end.Pending != nil
	for _, q := range all {
		undelivered := q.Open() || q.Call.DeliveredAt.IsZero()
		if q.Proxied() || !undelivered || listed && !slices.Contains(end.Pending, q.Call.UpstreamID) {
			continue
		}
		ids = append(ids, q.Call.UpstreamID)
	}
	return ids, len(end.Pending) > 0 && len(ids) == 0
}

// executed says which tools ran, after somebody approved them, for an Agent that is gone: whoever approved must know.
func executed(all []inbox.Question) string {
	var ran []string
	for _, q := range all {
		if q.Call.Kind == store.KindServer && q.Approval.ID != "" && !q.Call.RunningAt.IsZero() {
			ran = append(ran, q.Call.Name+" ("+strings.ToLower(string(q.Call.Status))+")")
		}
	}
	if len(ran) == 0 {
		return ""
	}
	return "Executed before: " + strings.Join(ran, ", ") + "."
}
