package bridge

import (
	"cmp"
	"context"
	"time"

	"aqueduct/bridge/inbox"
	"aqueduct/store"
)

// Fingerprint is inbox.Fingerprint of the rows that the Question will be.
func (q *Question) Fingerprint() string {
	args := hashOf(compact(q.Args))
	if q.Kind == AskClientTool {
		return inbox.Fingerprint(cmp.Or(q.ToolName, "request_input"), "", "", args)
	}
	return inbox.Fingerprint(plainName(q.tool()), q.ToolKind, plainTitle(q.Title), args)
}

// replace takes a Question back whose id the upstream uses for another one. It counts as delivered, whoever may have
// answered it meanwhile: an answer under this id would now be taken for the new Question's.
func (t *turn) replace(ctx context.Context, known inbox.Question, q *Question) error {
	m := t.s.m
	var settled inbox.Settled
	err := patiently(ctx, func() error {
		return m.cfg.Store.InTx(ctx, func(tx store.Tx) error {
			session, err := tx.LockSession(ctx, store.System(), t.s.id)
			if err != nil {
				return err
			}
			current, err := inbox.Load(ctx, tx, store.System(), known.Call.ID)
			if err != nil {
				return err
			}
			settled, err = m.settler.Replace(ctx, tx, session, current, q.Fingerprint(), hashOf(compact(q.Args)), time.Now())
			return err
		})
	})
	if err != nil {
		return err
	}
	m.measure(settled)
	m.cfg.Notices.Kept()
	m.deadlines.Disarm(known.Call.ID)
	if !known.Call.DeliveredAt.IsZero() {
		return nil
	}
	if err := t.keep(ctx, nil, store.ToolCallDelivered{ID: known.Call.ID, At: time.Now()}); err != nil {
		return err
	}
	return t.catchUp(ctx)
}
