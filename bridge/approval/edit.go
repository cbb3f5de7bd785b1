package approval

import (
	"bytes"
	"context"
	"encoding/json"

	"aqueduct/bridge/redact"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// Unmasked restores the masked values that the approver saw, in changed arguments that keep them in place. It refuses a mask
// anywhere else, because such a mask represents no value.
func Unmasked(ctx context.Context, r store.Reader, q Question, edited json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(edited, []byte(redact.Mask)) {
		return edited, nil
	}
	original, err := r.ToolCall(store.WithOriginals(ctx), store.System(), q.Call.ID)
	if err != nil {
		return nil, err
	}
	whole, ok := redact.Restore(q.Call.Args, original.Args, edited)
	if !ok {
		return nil, fault.New(InvalidAnswer, "A masked value must stay in its place or be replaced.")
	}
	return whole, nil
}
