// This file is the Store that masks. It stands between everything above and the database, so no caller has to think
// of it; what it adds to a write is one call of rows.go, and the originals in the same transaction.

package redact

import (
	"context"

	"aqueduct/store"
)

// Wrap is a Store that masks what is written. Of what runs (messages and parts that clients sent, what a Turn's Agent is
// called with, arguments, results, decisions) it seals the original in the same transaction, and gives it to reads that
// are marked by store.WithOriginals. Events are masked before they are encoded and pass as they are.
func Wrap(s store.Store, f *Filter, v *Vault) store.Store {
	return &wrapped{base: base{s}, reading: reading{originals{s, v}}, filter: f}
}

// base puts the methods of a Store one level deeper, so that those of reading are found first.
type base struct{ store.Store }

type wrapped struct {
	base
	reading
	filter *Filter
}

// Commit masks Records and moves. The Batch itself stays as it is: its maker goes on with it.
// The Batch's events are not touched: they were masked before they were encoded, when their text was still in pieces.
func (w *wrapped) Commit(ctx context.Context, b *store.Batch) (store.Result, error) {
	r, masked := rows{shown: shown{w.filter}, vault: w.vault}, *b
	masked.Records = make([]store.Record, len(b.Records))
	for i, e := range b.Records {
		masked.Records[i] = r.record(e)
	}
	session := func(id string) string { return w.sessionOf(ctx, b, id) }
	masked.Moves = make([]store.Move, len(b.Moves), len(b.Moves)+1)
	for i, m := range b.Moves {
		var err error
		if masked.Moves[i], err = r.move(m, session); err != nil {
			return store.Result{}, err
		}
	}
	for _, s := range r.sealed { // behind the others, whose places the Result names
		masked.Moves = append(masked.Moves, store.KeepSealed{Sealed: s})
	}
	return w.Store.Commit(ctx, &masked)
}

// sessionOf finds the Session of a ToolCall in the Batch or in the store; "" when it is in neither.
func (w *wrapped) sessionOf(ctx context.Context, b *store.Batch, callID string) string {
	for _, m := range b.Moves {
		switch m := m.(type) {
		case store.InsertToolCall:
			if m.ToolCall.ID == callID {
				return m.ToolCall.SessionID
			}
		case store.TakeToolCall:
			if m.ToolCall.ID == callID {
				return m.ToolCall.SessionID
			}
		}
	}
	c, err := w.Store.ToolCall(ctx, store.System(), callID)
	if err != nil {
		return "" // its move is lost, or fails with the same error
	}
	return c.SessionID
}

// InTx gives fn a Tx that masks.
// The database may run fn again; each run has its own rows, so an original is never written for a run that failed.
func (w *wrapped) InTx(ctx context.Context, fn func(store.Tx) error) error {
	return w.Store.InTx(ctx, func(tx store.Tx) error {
		to := writing{tx, w.filter, w.vault}
		return fn(&wrappedTx{txBase{tx}, reading{originals{tx, w.vault}}, ofThreads{to}, ofOthers{to}})
	})
}

type txBase struct{ store.Tx }

// wrappedTx is wrapped for one transaction; it lives as long as fn runs.
type wrappedTx struct {
	txBase
	reading
	ofThreads
	ofOthers
}
