package bridge

import (
	"context"
	"slices"
	"time"

	"aqueduct/bridge/inbox"
	"aqueduct/store"
)

// withdraw takes back every open Question of the Turn: its moves, and the results for
// those that were shown. One that outlives the Turn stays in the inbox.
func (t *turn) withdraw(ctx context.Context) ([]store.Move, error) {
	all, err := t.questions(ctx) // also those that came past us and were not noticed yet
	if err != nil {
		return nil, err
	}
	var moves []store.Move
	for _, q := range all {
		if !q.Open() {
			continue
		}
		m, err := t.leaveOrWithdraw(q, inbox.Withdrawn())
		if err != nil {
			return nil, err
		}
		moves = append(moves, m...)
	}
	return moves, nil
}

// leaveOrWithdraw takes back one, unless it outlives the Turn: of that the chat is told that
// it is open elsewhere.
func (t *turn) leaveOrWithdraw(q inbox.Question, d inbox.Decision) ([]store.Move, error) {
	switch {
	case !q.Outlives():
		return t.withdrawOne(q, d)
	case q.Call.RunID == "" || t.run == nil:
		return nil, nil
	}
	q.Call.Result = []byte(`{"status":"open"}`)
	return []store.Move{store.ToolCallTold{ID: q.Call.ID}}, t.run.emitResult(q)
}

// withdrawOne takes back one. With no Run open its result is told by the next, unless
// nobody was shown it.
func (t *turn) withdrawOne(q inbox.Question, d inbox.Decision) ([]store.Move, error) {
	now := time.Now()
	q.Call.Result = d.Result
	if q.Call.RunID != "" && t.run != nil {
		if err := t.run.emitResult(q); err != nil {
			return nil, err
		}
	}
	moves := []store.Move{store.ToolCallMove{
		ID: q.Call.ID, From: q.Call.Status, To: store.ToolFailed, ErrorCode: d.ErrorCode, Result: d.Result, Told: t.run != nil || q.Call.RunID == "", EndedAt: now,
	}}
	if !q.ClientTool() {
		moves = append(moves, store.ApprovalMove{
			ID: q.Call.ID, To: store.ApprovalCancelled, DecidedAt: now, DecidedBy: d.By, DecidedVia: d.Via,
		})
		q.Approval.Status, q.Approval.DecidedAt, q.Approval.DecidedBy = store.ApprovalCancelled, now, d.By
		moves = append(moves, t.s.m.cfg.Notices.Moves(q, t.s.row)...)
	}
	return moves, nil
}

// withdrawAllBut takes back the open Questions an Agent did not list as pending.
func (t *turn) withdrawAllBut(ctx context.Context, open []inbox.Question, pending []string) error {
	var moves []store.Move
	for _, q := range open {
		if slices.Contains(pending, q.Call.UpstreamID) {
			continue
		}
		m, err := t.leaveOrWithdraw(q, inbox.WithdrawnByAgent())
		if err != nil {
			return err
		}
		moves = append(moves, m...)
	}
	if len(moves) == 0 {
		return nil
	}
	return t.keep(ctx, nil, moves...)
}

// unasked takes back the one Question that the Agent no longer asks. It is marked as
// delivered, because nobody waits for the answer, whoever may give one meanwhile.
func (t *turn) unasked(ctx context.Context, upstreamID string) error {
	open, err := t.open(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(open, func(q inbox.Question) bool { return q.Call.UpstreamID == upstreamID })
	if i < 0 {
		return nil // settled already, or never asked
	}
	moves, err := t.withdrawOne(open[i], inbox.WithdrawnByAgent())
	if err != nil {
		return err
	}
	moves = append(moves, store.ToolCallDelivered{ID: open[i].Call.ID, At: time.Now()})
	if err := t.keep(ctx, nil, moves...); err != nil {
		return err
	}
	t.s.m.deadlines.Disarm(open[i].Call.ID)
	switch {
	case t.run == nil:
		t.s.more = true
		return t.s.m.reserveAfter(ctx, t.row)
	case len(open) == 1:
		return t.park(ctx) // which goes on in this Run, nothing being open
	}
	return nil
}
