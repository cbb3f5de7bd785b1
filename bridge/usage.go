package bridge

import (
	"cmp"
	"encoding/json"
	"slices"

	"aqueduct/agui"
)

// addUsage adds token counts to others, by provider and model.
func addUsage(own, more []agui.TokenUsage) []agui.TokenUsage {
	for _, u := range more {
		i := slices.IndexFunc(own, func(o agui.TokenUsage) bool { return o.Provider == u.Provider && o.Model == u.Model })
		if i < 0 {
			own = append(own, u)
			continue
		}
		sum := own[i]
		for _, part := range []struct {
			sum  **int64
			more *int64
		}{
			{&sum.InputTokens, u.InputTokens}, {&sum.OutputTokens, u.OutputTokens}, {&sum.TotalTokens, u.TotalTokens},
			{&sum.ReasoningTokens, u.ReasoningTokens}, {&sum.CachedInputTokens, u.CachedInputTokens}, {&sum.CacheWriteInputTokens, u.CacheWriteInputTokens},
		} {
			*part.sum = addCount(*part.sum, part.more)
		}
		own = slices.Clone(own) // the Agent's own list is not changed
		own[i] = sum
	}
	return own
}

// addCount adds two counts, of which nil is unknown.
func addCount(a, b *int64) *int64 {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	sum := *a + *b
	return &sum
}

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
