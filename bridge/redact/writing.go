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

// ofThreads writes the rows of a thread, and ofOthers all others.
type (
	ofThreads struct{ writing }
	ofOthers  struct{ writing }
)

// masked writes one row by write, and the originals it sealed, in whichever order: both are one transaction.
func masked[T any](ctx context.Context, w *writing, row T, mask func(*rows, T) T, write func(context.Context, T) error) error {
	r := rows{shown: shown{w.filter}, vault: w.vault}
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

func (w *ofThreads) InsertSession(ctx context.Context, s store.Session) error {
	return masked(ctx, &w.writing, s, (*rows).session, w.tx.InsertSession)
}

func (w *ofThreads) SetSessionTitle(ctx context.Context, id, title string) error {
	return w.tx.SetSessionTitle(ctx, id, w.filter.Text(title))
}

func (w *ofThreads) InsertTurn(ctx context.Context, row store.Turn) error {
	return masked(ctx, &w.writing, row, (*rows).turn, w.tx.InsertTurn)
}

func (w *ofThreads) InsertRun(ctx context.Context, row store.Run) error {
	return masked(ctx, &w.writing, row, (*rows).run, w.tx.InsertRun)
}

func (w *ofThreads) InsertRecord(ctx context.Context, row store.Record) error {
	return masked(ctx, &w.writing, row, (*rows).record, w.tx.InsertRecord)
}

func (w *ofThreads) InsertMessage(ctx context.Context, row store.Message) error {
	return masked(ctx, &w.writing, row, (*rows).message, w.tx.InsertMessage)
}

func (w *ofThreads) InsertMessagePart(ctx context.Context, row store.MessagePart) error {
	return masked(ctx, &w.writing, row, (*rows).part, w.tx.InsertMessagePart)
}

func (w *ofThreads) InsertContextEntry(ctx context.Context, row store.ContextEntry) error {
	return masked(ctx, &w.writing, row, (*rows).context, w.tx.InsertContextEntry)
}

func (w *ofThreads) ReplaceMessageData(ctx context.Context, id string, data []byte) error {
	return w.tx.ReplaceMessageData(ctx, id, w.filter.JSON(data))
}

func (w *ofThreads) InsertToolCall(ctx context.Context, row store.ToolCall) error {
	return masked(ctx, &w.writing, row, (*rows).call, w.tx.InsertToolCall)
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
	r := rows{shown: shown{w.filter}, vault: w.vault}
	made, err := move(ctx, mask(&r, m, w.session(ctx, id)))
	if err != nil || !made {
		return made, err
	}
	return true, w.keep(ctx, r)
}

func (w *ofThreads) MoveToolCall(ctx context.Context, m store.ToolCallMove) (bool, error) {
	return moved(ctx, &w.writing, m.ID, m, (*rows).callMove, w.tx.MoveToolCall)
}

func (w *ofThreads) InsertApproval(ctx context.Context, row store.Approval) error {
	return masked(ctx, &w.writing, row, (*rows).approval, w.tx.InsertApproval)
}

func (w *ofThreads) ProposeEdit(ctx context.Context, p store.ApprovalProposal) (bool, error) {
	return written(ctx, &w.writing, p, (*rows).proposal, w.tx.ProposeEdit)
}

func (w *ofThreads) MoveApproval(ctx context.Context, m store.ApprovalMove) (bool, error) {
	return moved(ctx, &w.writing, m.ID, m, (*rows).approvalMove, w.tx.MoveApproval)
}

func (w *ofThreads) InsertCommand(ctx context.Context, row store.Command) error {
	return masked(ctx, &w.writing, row, (*rows).command, w.tx.InsertCommand)
}

func (w *ofOthers) InsertOutbox(ctx context.Context, row store.OutboxItem) error {
	return masked(ctx, &w.writing, row, (*rows).outbox, w.tx.InsertOutbox)
}

func (w *ofOthers) UpsertProxy(ctx context.Context, row store.Proxy) error {
	return masked(ctx, &w.writing, row, (*rows).proxy, w.tx.UpsertProxy)
}

func (w *ofOthers) UpsertSandboxInstance(ctx context.Context, row store.SandboxInstance) error {
	return masked(ctx, &w.writing, row, (*rows).sandbox, w.tx.UpsertSandboxInstance)
}

func (w *ofOthers) UpsertTool(ctx context.Context, row store.Tool) error {
	return masked(ctx, &w.writing, row, (*rows).tool, w.tx.UpsertTool)
}

func (w *ofOthers) InsertGrant(ctx context.Context, row store.Grant) error {
	return masked(ctx, &w.writing, row, (*rows).grant, w.tx.InsertGrant)
}

func (w *ofOthers) InsertDelegation(ctx context.Context, row store.Delegation) error {
	return masked(ctx, &w.writing, row, (*rows).delegation, w.tx.InsertDelegation)
}

// written is masked for a write that reports whether it happened. It is for rows of which nothing is sealed.
func written[T any](ctx context.Context, w *writing, row T, mask func(*rows, T) T, write func(context.Context, T) (bool, error)) (bool, error) {
	r := rows{shown: shown{w.filter}, vault: w.vault}
	return write(ctx, mask(&r, row))
}

func (w *ofOthers) ClaimAgent(ctx context.Context, row store.Agent) (bool, error) {
	return written(ctx, &w.writing, row, (*rows).agent, w.tx.ClaimAgent)
}

func (w *ofOthers) UpdateAgent(ctx context.Context, row store.Agent) (bool, error) {
	return written(ctx, &w.writing, row, (*rows).agent, w.tx.UpdateAgent)
}

func (w *ofOthers) InsertProxy(ctx context.Context, row store.Proxy) (bool, error) {
	return written(ctx, &w.writing, row, (*rows).proxy, w.tx.InsertProxy)
}

func (w *ofOthers) InsertTask(ctx context.Context, row store.Task) error {
	return masked(ctx, &w.writing, row, (*rows).task, w.tx.InsertTask)
}

func (w *ofOthers) MoveTask(ctx context.Context, m store.TaskMove) (bool, error) {
	return written(ctx, &w.writing, m, (*rows).taskMove, w.tx.MoveTask)
}

func (w *ofOthers) AppendAudit(ctx context.Context, e store.AuditEntry) (store.AuditEntry, error) {
	r := rows{shown: shown{w.filter}, vault: w.vault}
	return w.tx.AppendAudit(ctx, r.audit(e))
}

func (w *ofOthers) OutboxRetry(ctx context.Context, id string, next time.Time, reason string) error {
	return w.tx.OutboxRetry(ctx, id, next, w.filter.Text(reason))
}
