package tools

import (
	"context"
	"errors"
	"log/slog"

	"aqueduct/bridge/redact"
	"aqueduct/internal/fault"
	"aqueduct/internal/jsonequal"
	"aqueduct/store"
)

// approvedCheck compares what is about to be executed with what was approved. Call and Approval are rows of two tables: a
// change of one of them by SQL would otherwise execute arguments that no approver saw.
type approvedCheck struct {
	hash   redact.Hasher
	logger *slog.Logger
}

// approvalRow reads the decision about a call that is to begin; nil where it needed none.
func approvalRow(ctx context.Context, r store.Reader, call store.ToolCall) (*store.Approval, error) {
	a, err := r.Approval(ctx, store.System(), call.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return &a, err
}

// refusal is why a call may not be executed, nil when it may. again is set for a call that had begun before: that one may
// not have needed an approval. tool is what would be executed, nil for a tool of the client.
func (c *approvedCheck) refusal(ctx context.Context, call store.ToolCall, a *store.Approval, tool *store.Tool, again bool) *fault.Error {
	no := c.compare(call, a, again)
	if no == nil && a != nil && tool != nil && changedSince(*a, *tool) {
		no = fault.New(CodeToolChanged, changedReason)
	}
	if no != nil {
		c.logger.ErrorContext(ctx, "a tool call is not what was approved, and is not run", slog.String("tool_call_id", call.ID), slog.String("code", no.Code))
	}
	return no
}

// clientRefusal is refusal for a call that the client executes. The client gets masked arguments, and the approval is
// bound to the originals, so those are read here.
func (c *approvedCheck) clientRefusal(ctx context.Context, tx store.Tx, call store.ToolCall) (*fault.Error, error) {
	ctx = store.WithOriginals(ctx)
	original, err := tx.ToolCall(ctx, store.System(), call.ID)
	if err != nil {
		return nil, err
	}
	row, err := approvalRow(ctx, tx, original)
	if err != nil {
		return nil, err
	}
	return c.refusal(ctx, original, row, nil, false), nil
}

// Edited arguments are kept masked, so they are compared as they are shown; all others by the keyed hash that the
// approval was bound to. The last comparison binds the row to its own hash, for calls that needed no approval.
func (c *approvedCheck) compare(call store.ToolCall, a *store.Approval, again bool) *fault.Error {
	changed := fault.New(CodeArgsChanged, "The arguments are not those that were approved. It was not run.")
	switch {
	case a == nil && again:
	case a == nil || !again && a.Status != store.ApprovalApproved || a.Tool != call.Name:
		return fault.New(CodeNotApproved, "Nobody has approved this call. It was not run.")
	case len(a.EditedArgs) > 0: // kept masked
		if !jsonequal.Texts(c.hash.Filter.JSON(call.Args), c.hash.Filter.JSON(a.EditedArgs)) {
			return changed
		}
	case !c.hash.Matches(call.Args, a.ArgsSHA256):
		return changed
	}
	if !c.hash.Matches(call.Args, call.ArgsSHA256) {
		return changed
	}
	return nil
}
