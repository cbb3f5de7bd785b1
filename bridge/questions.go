package bridge

import (
	"context"
	"fmt"
	"slices"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// questions are the Questions of a Turn as the store has them, with the calls of tools that no person was asked about. It
// reads and settles rows; what becomes of them in the log and at the Agent is the deliverer's.
//
// Rows are changed by others at any time, by people on other replicas too. So what is read here is a picture of a
// moment, and every change is a compare-and-set in its own transaction, with the Session locked.
type questions struct {
	cfg       *Config
	approvals *approval.Service
	quota     *quota
	log       *sessionLog
	row       *store.Turn
	calls     *shownCalls // learns which calls are ours
	trace     *turnTrace  // learns for how long Questions were open

	// ids are the Agent's ids of all that were asked; nil until they were read. With them a new Question need not read those
	// before it: asking n would read n² rows.
	ids  map[string]bool
	open int  // as far as they were read or asked
	any  bool // the Turn has ToolCalls, as far as was looked
}

// all are the Questions of this Turn, oldest first.
// It is read anew for each look, because a look without news costs one query and a stale one would miss an answer.
func (qs *questions) all(ctx context.Context) (all []approval.Question, err error) {
	all, err = questionsOf(ctx, qs.cfg.Store, qs.row.ID)
	qs.any, qs.trace.waits = len(all) > 0, slices.Clone(all)
	if err != nil {
		return all, err
	}
	qs.open = 0
	if qs.ids == nil {
		qs.ids = make(map[string]bool)
	}
	for _, q := range all {
		qs.ids[q.Call.UpstreamID] = true
		if q.Open() {
			qs.open++
		}
		switch {
		case q.Call.Kind == store.KindServer:
			qs.calls.know(q.Call)
		case q.Call.RunID != "":
			qs.calls.asked(q)
		}
	}
	return all, nil
}

// waiting are those that are still open.
func (qs *questions) waiting(ctx context.Context) ([]approval.Question, error) {
	all, err := qs.all(ctx)
	return slices.DeleteFunc(all, func(q approval.Question) bool { return !q.Open() }), err
}

// asked remembers one that was kept.
func (qs *questions) asked(upstreamID string) {
	qs.any = true
	if qs.ids != nil {
		qs.ids[upstreamID] = true
		qs.open++
	}
}

// isNew reports whether the Turn has certainly no Question of that id of the Agent's.
func (qs *questions) isNew(upstreamID string) bool { return qs.ids != nil && !qs.ids[upstreamID] }

// mayAsk checks the limits of open Questions. One too many ends the Turn: an agent cannot be refused a Question in any
// other way, and its Questions are cancelled with the Turn.
// The count is kept in memory and read again only when it reaches the limit: an Agent that asks a thousand times would
// otherwise read a million rows.
func (qs *questions) mayAsk(ctx context.Context) error {
	limits := qs.cfg.Limits
	if qs.ids == nil || qs.open >= limits.QuestionsPerTurn {
		if _, err := qs.all(ctx); err != nil { // some may have been settled
			return err
		}
	}
	if qs.open >= limits.QuestionsPerTurn {
		return qs.quota.refused("questions", fault.New(CodeTooManyQuestions, fmt.Sprintf("The agent asked more than %d questions at once.", limits.QuestionsPerTurn)))
	}
	ok, err := qs.quota.questions.add(ctx, qs.log.row.Tenant, qs.log.row.User)
	if err == nil && !ok {
		err = qs.quota.refused("questions", fault.New(CodeTooManyQuestions, fmt.Sprintf("More than %d questions of this user are open.", limits.QuestionsPerUser)))
	}
	return err
}

// settle settles Questions for the system, or for the person who cancelled the Turn.
func (qs *questions) settle(ctx context.Context, ids []string, d approval.Decision) error {
	if len(ids) == 0 {
		return nil
	}
	return qs.change(ctx, ids, func(tx store.Tx, session store.Session, q approval.Question) (approval.Settled, error) {
		one := d
		// What was never shown has no call in the log that a result could belong to.
		one.InTranscript = q.Call.RunID == ""
		return qs.approvals.Apply(ctx, tx, session, q, one, store.Principal{Tenant: session.Tenant, User: d.CancelledBy})
	})
}

// replace takes a Question back whose id the upstream uses for another one.
func (qs *questions) replace(ctx context.Context, known approval.Question, q *approval.Request) error {
	return qs.change(ctx, []string{known.Call.ID}, func(tx store.Tx, session store.Session, current approval.Question) (approval.Settled, error) {
		return qs.approvals.Replace(ctx, tx, session, current, q.Fingerprint(qs.cfg.Hash), qs.cfg.Hash.Sum(approval.Compact(q.Args)), time.Now())
	})
}

// change loads Questions in one transaction and settles each.
//
// The transaction may run again, so what it settled is begun anew each time; counting, notices and deadlines follow
// after it. A Question that was settled by another meanwhile makes Apply a no-op.
func (qs *questions) change(ctx context.Context, ids []string, settle func(store.Tx, store.Session, approval.Question) (approval.Settled, error)) error {
	var done []approval.Settled
	err := repeatable(ctx, qs.cfg.Store, func(tx store.Tx) error {
		done = done[:0]
		session, err := tx.LockSession(ctx, store.System(), qs.log.id)
		for i := 0; i < len(ids) && err == nil; i++ {
			var q approval.Question
			if q, err = approval.Load(ctx, tx, store.System(), ids[i]); err != nil {
				break
			}
			var settled approval.Settled
			settled, err = settle(tx, session, q)
			done = append(done, settled)
		}
		return err
	})
	if err == nil {
		qs.approvals.OwnerSettled(done...)
	}
	for _, id := range ids {
		// Also of a Question that another settlement was quicker for.
		qs.approvals.Deadlines.Disarm(id)
	}
	return err
}

// pendingFailure is the command of a ToolCall whose failure ends the Turn, when the Agent was quicker to end than we to
// read it.
func (qs *questions) pendingFailure(ctx context.Context) (*store.Command, error) {
	if !qs.any {
		return nil, nil
	}
	commands, err := qs.cfg.Store.PendingCommands(ctx, store.System(), qs.log.id)
	for _, c := range commands {
		if c.TurnID == qs.row.ID && c.Kind == store.CommandFail {
			return &c, err
		}
	}
	return nil, err
}

// questionsOf reads a Turn's Questions, and its other ToolCalls, in two looks, however many there are.
func questionsOf(ctx context.Context, r store.Reader, turnID string) (all []approval.Question, err error) {
	calls, err := r.ToolCallsOfTurn(ctx, store.System(), turnID)
	if err != nil || len(calls) == 0 {
		return nil, err
	}
	slices.SortStableFunc(calls, func(a, b store.ToolCall) int { return a.CreatedAt.Compare(b.CreatedAt) })
	approvals := make(map[string]store.Approval)
	page := store.Page{Limit: store.MaxPageLimit}
	for {
		some, err := r.Approvals(ctx, store.System(), store.ApprovalFilter{TurnID: turnID}, page)
		if err != nil {
			return nil, err
		}
		for _, a := range some {
			approvals[a.ID] = a
		}
		if len(some) < page.Size() {
			break
		}
		page.After = some[len(some)-1].ID
	}
	for _, call := range calls {
		q := approval.Question{Call: call, Approval: approvals[call.ID]}
		if call.Kind == store.KindQuestion && q.Approval.ID == "" {
			return nil, store.ErrNotFound
		}
		all = append(all, q)
	}
	return all, nil
}

// pausedBy is the status of a Turn with these open Questions: RUNNING with none.
func pausedBy(open []approval.Question) store.TurnStatus {
	status := store.TurnRunning
	for _, q := range open {
		if q.Call.Status == store.ToolWaitingApproval {
			return store.TurnPausedApproval
		}
		status = store.TurnPausedTool
	}
	return status
}
