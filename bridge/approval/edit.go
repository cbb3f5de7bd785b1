package approval

import (
	"bytes"
	"context"
	"encoding/json"

	"aqueduct/bridge/redact"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// Unmasked restores, in changed arguments, the values that the approver was shown masked and left in their places. A mask
// anywhere else is refused: it stands for no value.
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
		return nil, fault.New(InvalidAnswer, "A masked value can only be left where it is, or be replaced.")
	}
	return whole, nil
}
