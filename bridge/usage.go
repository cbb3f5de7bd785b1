package bridge

import (
	"encoding/json"

	"aqueduct/agui"
)

// usageJSON is a Turn's token usage as kept: AG-UI's shape.
func usageJSON(usage []agui.TokenUsage) json.RawMessage {
	if len(usage) == 0 {
		return nil
	}
	raw := []byte{'['}
	for i, u := range usage {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = u.AppendJSON(raw)
	}
	return append(raw, ']')
}
