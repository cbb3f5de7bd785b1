package tools

import (
	"context"
	"errors"
	"log/slog"

	"aqueduct/internal/jsonequal"
	"aqueduct/store"
)

var (
	errNotApproved = &Error{CodeNotApproved, "Nobody has approved this call. It was not run."}
	errChanged     = &Error{CodeArgsChanged, "The arguments are not those that were approved. It was not run."}
)

// approval reads what was decided about a call that is to begin; nil where there is none.
func (s *Service) approval(ctx context.Context, r store.Reader, call store.ToolCall) (*store.Approval, error) {
	a, err := r.Approval(ctx, store.System(), call.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return &a, err
}

// asApproved compares the arguments that are about to run with what was approved. They are rows of two tables: who changes
// one of them by SQL changes what runs, and nobody has seen that. again is a call that had begun before, which may not have
// needed an approval.
func (s *Service) asApproved(ctx context.Context, call store.ToolCall, a *store.Approval, again bool) *Error {
	no := s.unlike(call, a, again)
	if no != nil {
		s.cfg.Logger.ErrorContext(ctx, "a tool call is not what was approved, and is not run", slog.String("tool_call_id", call.ID), slog.String("code", no.Code))
	}
	return no
}

// clientAsApproved is asApproved for a call that a client is given. The client gets masked arguments; what was approved is
// bound to their originals.
func (s *Service) clientAsApproved(ctx context.Context, tx store.Tx, call store.ToolCall) (*Error, error) {
	ctx = store.WithOriginals(ctx)
	original, err := tx.ToolCall(ctx, store.System(), call.ID)
	if err != nil {
		return nil, err
	}
	approval, err := s.approval(ctx, tx, original)
	if err != nil {
		return nil, err
	}
	return s.asApproved(ctx, original, approval, false), nil
}

func (s *Service) unlike(call store.ToolCall, a *store.Approval, again bool) *Error {
	switch {
	case a == nil && again:
	case a == nil || !again && a.Status != store.ApprovalApproved || a.Tool != call.Name:
		return errNotApproved
	case len(a.EditedArgs) > 0: // which are kept masked
		if !jsonequal.Texts(s.cfg.Hash.Filter.JSON(call.Args), s.cfg.Hash.Filter.JSON(a.EditedArgs)) {
			return errChanged
		}
	case !s.cfg.Hash.Matches(call.Args, a.ArgsSHA256):
		return errChanged
	}
	if !s.cfg.Hash.Matches(call.Args, call.ArgsSHA256) {
		return errChanged
	}
	return nil
}
