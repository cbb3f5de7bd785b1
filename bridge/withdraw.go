package bridge

import (
	"context"
	"slices"
	"time"

	"aqueduct/bridge/inbox"
	"aqueduct/store"
)

// withdraw takes back every open Question of the Turn, and puts into the open Run what became
// of those the chat has not been told of. One that outlives the Turn stays in the inbox.
func (t *turn) withdraw(ctx context.Context) ([]store.Move, error) {
	all, err := t.questions(ctx) // also those that came past us and were not noticed yet
	if err != nil {
		return nil, err
	}
	return t.withdrawAll(ctx, slices.DeleteFunc(all, func(q inbox.Question) bool { return !q.Open() }), inbox.Withdrawn())
}

// withdrawAll takes back these. Of one that outlives the Turn and was shown the chat is told
// that it is open elsewhere.
func (t *turn) withdrawAll(ctx context.Context, open []inbox.Question, d inbox.Decision) ([]store.Move, error) {
	var gone, stay []inbox.Question
	for _, q := range open {
		if q.Outlives() {
			stay = append(stay, q)
		} else {
			gone = append(gone, q)
		}
	}
	if err := t.takeBack(ctx, gone, d); err != nil || t.run == nil { // the next Run tells it
		return nil, err
	}
	moves, _, err := t.tell(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, q := range stay {
		if q.Call.RunID == "" {
			continue
		}
		q.Call.Result = []byte(`{"status":"open"}`)
		if err := t.run.emitResult(q); err != nil {
			return nil, err
		}
		moves = append(moves, store.ToolCallTold{ID: q.Call.ID})
	}
	return moves, nil
}

// takeBack settles Questions as the Decision says, each unless somebody else was first: what
// the chat hears of it is told afterwards, by what is kept. One that was never shown is not
// told of.
func (t *turn) takeBack(ctx context.Context, open []inbox.Question, d inbox.Decision) error {
	if len(open) == 0 {
		return nil
	}
	cfg := t.s.m.cfg
	err := patiently(ctx, func() error {
		return cfg.Store.InTx(ctx, func(tx store.Tx) error {
			session, err := tx.LockSession(ctx, store.System(), t.s.id)
			for i := 0; i < len(open) && err == nil; i++ {
				err = t.takeBackOne(ctx, tx, session, open[i].Call.ID, d)
			}
			return err
		})
	})
	cfg.Notices.Kept()
	return err
}

func (t *turn) takeBackOne(ctx context.Context, tx store.Tx, session store.Session, id string, d inbox.Decision) error {
	q, err := inbox.Load(ctx, tx, store.System(), id)
	if err != nil {
		return err
	}
	now := time.Now()
	d.Told = q.Call.RunID == ""
	settled, err := inbox.Settle(ctx, tx, q, d, now)
	if err != nil || !settled.Won {
		return err
	}
	if q.Proxied() && t.s.m.cfg.Tools != nil {
		if err := t.s.m.cfg.Tools.Settled(ctx, tx, settled.Question, now); err != nil {
			return err
		}
	}
	return t.s.m.cfg.Notices.Insert(ctx, tx, settled.Question, session)
}

// withdrawAllBut takes back the open Questions an Agent did not list as pending.
func (t *turn) withdrawAllBut(ctx context.Context, open []inbox.Question, pending []string) error {
	gone := slices.DeleteFunc(slices.Clone(open), func(q inbox.Question) bool { return slices.Contains(pending, q.Call.UpstreamID) })
	moves, err := t.withdrawAll(ctx, gone, inbox.WithdrawnByAgent())
	if err != nil || len(moves) == 0 {
		return err
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
	if err := t.takeBack(ctx, open[i:i+1], inbox.WithdrawnByAgent()); err != nil {
		return err
	}
	moves := []store.Move{store.ToolCallDelivered{ID: open[i].Call.ID, At: time.Now()}}
	if t.run != nil {
		if moves, _, err = t.tell(ctx, moves); err != nil {
			return err
		}
	}
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
