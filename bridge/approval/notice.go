package approval

import (
	"context"

	"aqueduct/store"
)

// Notices are for receivers outside: a notice is a row of the outbox,
// kept in the same commit as its Question. The zero Notices notify none.
type Notices struct {
	// Rows are those of a Question as it now stands.
	Rows func(q Question, s store.Session) []store.OutboxItem
	// Kick wakes the sender when some have been kept.
	Kick func()
}

// Moves are the rows as an owner's Batch takes them.
func (n Notices) Moves(q Question, s store.Session) []store.Move {
	if n.Rows == nil || q.Approval.ID == "" {
		return nil
	}
	var moves []store.Move
	for _, row := range n.Rows(q, s) {
		moves = append(moves, store.InsertOutbox{Item: row})
	}
	return moves
}

// Insert keeps the rows in a transaction.
func (n Notices) Insert(ctx context.Context, tx store.Tx, q Question, s store.Session) error {
	if n.Rows == nil || q.Approval.ID == "" {
		return nil
	}
	for _, row := range n.Rows(q, s) {
		if err := tx.InsertOutbox(ctx, row); err != nil {
			return err
		}
	}
	return nil
}

// Kept is called after the commit.
func (n Notices) Kept() {
	if n.Kick != nil {
		n.Kick()
	}
}
