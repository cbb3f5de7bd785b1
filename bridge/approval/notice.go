package approval

import (
	"context"

	"aqueduct/store"
)

// Notices are for receivers outside, and for the owner of the other Question where one is relayed: a notice is a row of the
// outbox or a Command, kept in the same commit as its Question. The zero Notices notify no program outside.
type Notices struct {
	// Rows are those of a Question as it now stands.
	Rows func(q Question, s store.Session) []store.OutboxItem
	// Kick wakes the sender when some have been kept.
	Kick func()
	// Ring wakes the owners of Sessions, when Commands for them have been kept.
	Ring func(sessionIDs ...string)
}

// outside are the rows for receivers outside. A Question of a child has none: people are notified of the root's.
func (n Notices) outside(q Question, s store.Session) []store.OutboxItem {
	if n.Rows == nil || q.Approval.ID == "" || s.IsChild() {
		return nil
	}
	return n.Rows(q, s)
}

// Moves are the rows as an owner's Batch takes them.
func (n Notices) Moves(q Question, s store.Session) []store.Move {
	var moves []store.Move
	for _, row := range n.outside(q, s) {
		moves = append(moves, store.InsertOutbox{Item: row})
	}
	for _, c := range looks(q, s) {
		moves = append(moves, store.InsertCommand{Command: c})
	}
	return moves
}

// Insert keeps the rows in a transaction.
func (n Notices) Insert(ctx context.Context, tx store.Tx, q Question, s store.Session) error {
	for _, row := range n.outside(q, s) {
		if err := tx.InsertOutbox(ctx, row); err != nil {
			return err
		}
	}
	for _, c := range looks(q, s) {
		if err := tx.InsertCommand(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// Kept is called after the commit, with the Question and its Session.
func (n Notices) Kept(q Question, s store.Session) {
	if n.Kick != nil {
		n.Kick()
	}
	for _, c := range looks(q, s) {
		if n.Ring != nil {
			n.Ring(c.SessionID)
		}
	}
}
