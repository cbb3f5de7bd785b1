package tools

import (
	"context"
	"errors"

	"aqueduct/internal/fault"
	"aqueduct/store"
)

// earlier finds the call that was made with the same key, or under the agent's same id.
// The same key with other arguments is a mistake of the agent's and an error, never another call: a retry must not be
// able to change what it repeats.
func earlier(ctx context.Context, r store.Reader, call store.ToolCall) (before store.ToolCall, err error) {
	err = store.ErrNotFound
	if call.IdempotencyKey != "" {
		before, err = r.ToolCallByKey(ctx, store.System(), call.TurnID, call.IdempotencyKey)
	}
	if errors.Is(err, store.ErrNotFound) {
		before, err = r.ToolCall(ctx, store.System(), call.ID)
	}
	if err != nil {
		return before, err
	}
	same, err := sameArgs(ctx, r, before, call)
	if err == nil && (before.TurnID != call.TurnID || before.Name != call.Name || !same) {
		return store.ToolCall{}, fault.New(CodeKeyConflict, "The idempotency key, or the id of the call, was used for another call.")
	}
	return before, err
}

// sameArgs reports whether a repeated call has the arguments of the first. If a person edited those, the Agent repeats its own
// arguments. The Approval has their hash.
func sameArgs(ctx context.Context, r store.Reader, before, call store.ToolCall) (bool, error) {
	if before.ArgsSHA256 == call.ArgsSHA256 || !before.Edited {
		return before.ArgsSHA256 == call.ArgsSHA256, nil
	}
	asked, err := r.Approval(ctx, store.System(), before.ID)
	return asked.ArgsSHA256 == call.ArgsSHA256, err
}
