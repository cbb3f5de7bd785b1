// This file has the methods of a Tx that write words. TestS60 walks all others and fails on one with a word.

package redact

import (
	"context"
	"time"

	"aqueduct/store"
)

// writing masks the rows of one transaction before tx writes them, and seals the originals of those that run.
type writing struct {
	tx     store.Tx
	filter *Filter
	vault  *Vault
}

// masked writes one row by write, and the originals it sealed, in whichever order: both are one transaction.
func masked[T any](ctx context.Context, w *writing, row T, mask func(*rows, T) T, write func(context.Context, T) error) error {
	r := rows{filter: w.filter, vault: w.vault}
	if err := write(ctx, mask(&r, row)); err != nil {
		return err
	}
	return w.keep(ctx, r)
}

// keep writes what was sealed.
func (w *writing) keep(ctx context.Context, r rows) error {
	for _, s := range r.sealed {
		if err := w.tx.KeepSealed(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (w *writing) InsertSession(ctx context.Context, s store.Session) error {
	return masked(ctx, w, s, (*rows).session, w.tx.InsertSession)
}

func (w *writing) SetSessionTitle(ctx context.Context, id, title string) error {
	return w.tx.SetSessionTitle(ctx, id, w.filter.Text(title))
}

func (w *writing) InsertTurn(ctx context.Context, row store.Turn) error {
	return masked(ctx, w, row, (*rows).turn, w.tx.InsertTurn)
}

func (w *writing) InsertRun(ctx context.Context, row store.Run) error {
	return masked(ctx, w, row, (*rows).run, w.tx.InsertRun)
}

func (w *writing) InsertRecord(ctx context.Context, row store.Record) error {
	return masked(ctx, w, row, (*rows).record, w.tx.InsertRecord)
}

func (w *writing) InsertMessage(ctx context.Context, row store.Message) error {
	return masked(ctx, w, row, (*rows).message, w.tx.InsertMessage)
}

func (w *writing) InsertMessagePart(ctx context.Context, row store.MessagePart) error {
	return masked(ctx, w, row, (*rows).part, w.tx.InsertMessagePart)
}

func (w *writing) InsertContextEntry(ctx context.Context, row store.ContextEntry) error {
	return masked(ctx, w, row, (*rows).context, w.tx.InsertContextEntry)
}

func (w *writing) ReplaceMessageData(ctx context.Context, id string, data []byte) error {
	return w.tx.ReplaceMessageData(ctx, id, w.filter.JSON(data))
}

func (w *writing) InsertToolCall(ctx context.Context, row store.ToolCall) error {
	return masked(ctx, w, row, (*rows).call, w.tx.InsertToolCall)
}

// session finds the Session of a ToolCall; "" when there is none, and so nothing to move.
func (w *writing) session(ctx context.Context, callID string) func() string {
	return func() string {
		c, err := w.tx.ToolCall(ctx, store.System(), callID)
		if err != nil {
			return ""
		}
		return c.SessionID
	}
}

// moved is masked for a move of the ToolCall, or its Approval, with the id. A move that did not happen (the row had
// another status by then) seals nothing: its words belong to no row.
func moved[M any](ctx context.Context, w *writing, id string, m M, mask func(*rows, M, func() string) M,
	move func(context.Context, M) (bool, error),
) (bool, error) {
	r := rows{filter: w.filter, vault: w.vault}
	made, err := move(ctx, mask(&r, m, w.session(ctx, id)))
	if err != nil || !made {
		return made, err
	}
	return true, w.keep(ctx, r)
}

func (w *writing) MoveToolCall(ctx context.Context, m store.ToolCallMove) (bool, error) {
	return moved(ctx, w, m.ID, m, (*rows).callMove, w.tx.MoveToolCall)
}

func (w *writing) InsertApproval(ctx context.Context, row store.Approval) error {
	return masked(ctx, w, row, (*rows).approval, w.tx.InsertApproval)
}

func (w *writing) MoveApproval(ctx context.Context, m store.ApprovalMove) (bool, error) {
	return moved(ctx, w, m.ID, m, (*rows).approvalMove, w.tx.MoveApproval)
}

func (w *writing) InsertCommand(ctx context.Context, row store.Command) error {
	return masked(ctx, w, row, (*rows).command, w.tx.InsertCommand)
}

func (w *writing) InsertOutbox(ctx context.Context, row store.OutboxItem) error {
	return masked(ctx, w, row, (*rows).outbox, w.tx.InsertOutbox)
}

func (w *writing) UpsertProxy(ctx context.Context, row store.Proxy) error {
	return masked(ctx, w, row, (*rows).proxy, w.tx.UpsertProxy)
}

func (w *writing) UpsertSandboxInstance(ctx context.Context, row store.SandboxInstance) error {
	return masked(ctx, w, row, (*rows).sandbox, w.tx.UpsertSandboxInstance)
}

func (w *writing) UpsertTool(ctx context.Context, row store.Tool) error {
	return masked(ctx, w, row, (*rows).tool, w.tx.UpsertTool)
}

func (w *writing) InsertGrant(ctx context.Context, row store.Grant) error {
	return masked(ctx, w, row, (*rows).grant, w.tx.InsertGrant)
}

func (w *writing) InsertDelegation(ctx context.Context, row store.Delegation) error {
	return masked(ctx, w, row, (*rows).delegation, w.tx.InsertDelegation)
}

// written is masked for a write that reports whether it happened. It is for rows of which nothing is sealed.
func written[T any](ctx context.Context, w *writing, row T, mask func(*rows, T) T, write func(context.Context, T) (bool, error)) (bool, error) {
	r := rows{filter: w.filter, vault: w.vault}
	return write(ctx, mask(&r, row))
}

func (w *writing) ClaimAgent(ctx context.Context, row store.Agent) (bool, error) {
	return written(ctx, w, row, (*rows).agent, w.tx.ClaimAgent)
}

func (w *writing) UpdateAgent(ctx context.Context, row store.Agent) (bool, error) {
	return written(ctx, w, row, (*rows).agent, w.tx.UpdateAgent)
}

func (w *writing) InsertProxy(ctx context.Context, row store.Proxy) (bool, error) {
	return written(ctx, w, row, (*rows).proxy, w.tx.InsertProxy)
}

func (w *writing) InsertTask(ctx context.Context, row store.Task) error {
	return masked(ctx, w, row, (*rows).task, w.tx.InsertTask)
}

func (w *writing) MoveTask(ctx context.Context, m store.TaskMove) (bool, error) {
	return written(ctx, w, m, (*rows).taskMove, w.tx.MoveTask)
}

func (w *writing) AppendAudit(ctx context.Context, e store.AuditEntry) (store.AuditEntry, error) {
	r := rows{filter: w.filter, vault: w.vault}
	return w.tx.AppendAudit(ctx, r.audit(e))
}

func (w *writing) OutboxRetry(ctx context.Context, id string, next time.Time, reason string) error {
	return w.tx.OutboxRetry(ctx, id, next, w.filter.Text(reason))
}
