// This file is the Store that masks. It stands between everything above and the database, so no caller has to think
// of it; what it adds to a write is one call of rows.go, and the originals in the same transaction.

package redact

import (
	"context"
	"time"

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
	r, masked := rows{filter: w.filter, vault: w.vault}, *b
	masked.Records = make([]store.Record, len(b.Records))
	for i, e := range b.Records {
		masked.Records[i] = r.record(e)
	}
	session := func(id string) string { return w.sessionOf(ctx, b, id) }
	masked.Moves = make([]store.Move, len(b.Moves), len(b.Moves)+1)
	for i, m := range b.Moves {
		masked.Moves[i] = r.move(m, session)
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
		return fn(&wrappedTx{txBase: txBase{tx}, reading: reading{originals{tx, w.vault}}, filter: w.filter})
	})
}

type txBase struct{ store.Tx }

// wrappedTx is wrapped for one transaction; it lives as long as fn runs.
type wrappedTx struct {
	txBase
	reading
	filter *Filter
}

// masked writes one row by write, and the originals it sealed, in whichever order: both are one transaction.
func masked[T any](ctx context.Context, t *wrappedTx, row T, mask func(*rows, T) T, write func(context.Context, T) error) error {
	r := rows{filter: t.filter, vault: t.vault}
	if err := write(ctx, mask(&r, row)); err != nil {
		return err
	}
	return t.keep(ctx, r)
}

// keep writes what was sealed.
func (t *wrappedTx) keep(ctx context.Context, r rows) error {
	for _, s := range r.sealed {
		if err := t.Tx.KeepSealed(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// The methods below are those that write words. What is not here writes ids, times, numbers and hashes only.
func (t *wrappedTx) InsertSession(ctx context.Context, s store.Session) error {
	return masked(ctx, t, s, (*rows).session, t.Tx.InsertSession)
}

func (t *wrappedTx) SetSessionTitle(ctx context.Context, id, title string) error {
	return t.Tx.SetSessionTitle(ctx, id, t.filter.Text(title))
}

func (t *wrappedTx) InsertTurn(ctx context.Context, row store.Turn) error {
	return masked(ctx, t, row, (*rows).turn, t.Tx.InsertTurn)
}

func (t *wrappedTx) InsertRun(ctx context.Context, row store.Run) error {
	return masked(ctx, t, row, (*rows).run, t.Tx.InsertRun)
}

func (t *wrappedTx) InsertRecord(ctx context.Context, row store.Record) error {
	return masked(ctx, t, row, (*rows).record, t.Tx.InsertRecord)
}

func (t *wrappedTx) InsertMessage(ctx context.Context, row store.Message) error {
	return masked(ctx, t, row, (*rows).message, t.Tx.InsertMessage)
}

func (t *wrappedTx) InsertMessagePart(ctx context.Context, row store.MessagePart) error {
	return masked(ctx, t, row, (*rows).part, t.Tx.InsertMessagePart)
}

func (t *wrappedTx) InsertContextEntry(ctx context.Context, row store.ContextEntry) error {
	return masked(ctx, t, row, (*rows).context, t.Tx.InsertContextEntry)
}

func (t *wrappedTx) ReplaceMessageData(ctx context.Context, id string, data []byte) error {
	return t.Tx.ReplaceMessageData(ctx, id, t.filter.JSON(data))
}

func (t *wrappedTx) InsertToolCall(ctx context.Context, row store.ToolCall) error {
	return masked(ctx, t, row, (*rows).call, t.Tx.InsertToolCall)
}

// session finds the Session of a ToolCall; "" when there is none, and so nothing to move.
func (t *wrappedTx) session(ctx context.Context, callID string) func() string {
	return func() string {
		c, err := t.Tx.ToolCall(ctx, store.System(), callID)
		if err != nil {
			return ""
		}
		return c.SessionID
	}
}

// moved is masked for a move of the ToolCall, or its Approval, with the id. A move that did not happen (the row had
// another status by then) seals nothing: its words belong to no row.
func moved[M any](ctx context.Context, t *wrappedTx, id string, m M, mask func(*rows, M, func() string) M,
	move func(context.Context, M) (bool, error),
) (bool, error) {
	r := rows{filter: t.filter, vault: t.vault}
	made, err := move(ctx, mask(&r, m, t.session(ctx, id)))
	if err != nil || !made {
		return made, err
	}
	return true, t.keep(ctx, r)
}

func (t *wrappedTx) MoveToolCall(ctx context.Context, m store.ToolCallMove) (bool, error) {
	return moved(ctx, t, m.ID, m, (*rows).callMove, t.Tx.MoveToolCall)
}

func (t *wrappedTx) InsertApproval(ctx context.Context, row store.Approval) error {
	return masked(ctx, t, row, (*rows).approval, t.Tx.InsertApproval)
}

func (t *wrappedTx) ProposeEdit(ctx context.Context, p store.ApprovalProposal) (bool, error) {
	(&rows{filter: t.filter}).json(&p.Args)
	return t.Tx.ProposeEdit(ctx, p)
}

func (t *wrappedTx) MoveApproval(ctx context.Context, m store.ApprovalMove) (bool, error) {
	return moved(ctx, t, m.ID, m, (*rows).approvalMove, t.Tx.MoveApproval)
}

func (t *wrappedTx) InsertCommand(ctx context.Context, row store.Command) error {
	return masked(ctx, t, row, (*rows).command, t.Tx.InsertCommand)
}

func (t *wrappedTx) InsertOutbox(ctx context.Context, row store.OutboxItem) error {
	return masked(ctx, t, row, (*rows).outbox, t.Tx.InsertOutbox)
}

func (t *wrappedTx) UpsertProxy(ctx context.Context, row store.Proxy) error {
	return masked(ctx, t, row, (*rows).proxy, t.Tx.UpsertProxy)
}

func (t *wrappedTx) UpsertSandboxInstance(ctx context.Context, row store.SandboxInstance) error {
	return masked(ctx, t, row, (*rows).sandbox, t.Tx.UpsertSandboxInstance)
}

func (t *wrappedTx) UpsertTool(ctx context.Context, row store.Tool) error {
	return masked(ctx, t, row, (*rows).tool, t.Tx.UpsertTool)
}

func (t *wrappedTx) InsertGrant(ctx context.Context, row store.Grant) error {
	return masked(ctx, t, row, (*rows).grant, t.Tx.InsertGrant)
}

func (t *wrappedTx) InsertDelegation(ctx context.Context, row store.Delegation) error {
	return masked(ctx, t, row, (*rows).delegation, t.Tx.InsertDelegation)
}

func (t *wrappedTx) AppendAudit(ctx context.Context, e store.AuditEntry) (store.AuditEntry, error) {
	r := rows{filter: t.filter, vault: t.vault}
	return t.Tx.AppendAudit(ctx, r.audit(e))
}

func (t *wrappedTx) OutboxRetry(ctx context.Context, id string, next time.Time, reason string) error {
	return t.Tx.OutboxRetry(ctx, id, next, t.filter.Text(reason))
}
