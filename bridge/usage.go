package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"

	"aqueduct/agui"
	"aqueduct/store"
)

// usage is what the Turn used when it ends, however that is, with what the agents used that it led to. own is what its Agent
// reports itself.
func (c *children) usage(ctx context.Context, own []agui.TokenUsage) ([]agui.TokenUsage, error) {
	own = usageOf(ctx, c.cfg, c.row.ID, own)
	if !c.unread && len(c.known) == 0 {
		return own, nil
	}
	all, err := c.read(ctx)
	return c.addUnder(ctx, own, c.row.ID, all), err
}

// addUnder adds what the agents used that a Turn's Agent called. One that has ended has that of its own children in its sum.
// One that is at work ends with this Turn and a moment later: of it counts what its calls of models have used so far.
func (c *children) addUnder(ctx context.Context, own []agui.TokenUsage, turnID string, all []store.ChildTurn) []agui.TokenUsage {
	for _, t := range all {
		var theirs []agui.TokenUsage
		switch {
		case t.ParentTurnID != turnID:
		case !t.Status.Terminal():
			own = c.addUnder(ctx, addUsage(own, usageOf(ctx, c.cfg, t.ID, nil)), t.ID, all)
		case json.Unmarshal(t.Usage, &theirs) == nil:
			own = addUsage(own, theirs)
		}
	}
	return own
}

// MostUsage bounds the counts of one Turn, of which each is of another model, or of another call where an Agent counts so.
const MostUsage = 1000

// addUsage adds token counts to others, by provider, model and source. It does not change the Agent's own list.
func addUsage(own, more []agui.TokenUsage) []agui.TokenUsage {
	type counted struct{ provider, model, by string }
	own = slices.Clone(own)
	at := make(map[counted]int, len(own))
	for i, u := range slices.Backward(own) { // the first of several stands
		at[counted{u.Provider, u.Model, u.CountedBy}] = i
	}
	for _, u := range more {
		i, known := at[counted{u.Provider, u.Model, u.CountedBy}]
		if !known {
			if len(own) < MostUsage {
				at[counted{u.Provider, u.Model, u.CountedBy}] = len(own)
				own = append(own, u)
			}
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
		own[i] = sum
	}
	return own
}

// mostCount is the largest whole number that a JavaScript client holds exactly. Agents count themselves, and a sum must not
// become negative.
const mostCount = 1 << 53

// addCount adds two counts, of which nil is unknown.
func addCount(a, b *int64) *int64 {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	sum := min(*a, mostCount) + min(*b, mostCount)
	sum = min(sum, mostCount)
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

// usageOf returns a Turn's usage in AG-UI's form: the Agent's own report, and the model proxy's counts of its calls. If there
// are both, it returns both, each with its source. The Agent may have called models past this server, and it may report less
// than it used. They are not added, because the same tokens may be in both.
//
// The rows are added up when the Turn ends, and not counted in memory: the calls of one Turn may come to several replicas,
// and a restart in the middle of a Turn would lose a counter. A call that is still open then is not in the sum.
func usageOf(ctx context.Context, cfg *Config, turnID string, own []agui.TokenUsage) []agui.TokenUsage {
	own = slices.Clone(own)
	for i := range own {
		own[i].CountedBy = "" // the Agent must not set it
	}
	if !cfg.Models {
		return own
	}
	rows, err := cfg.Store.UsageOfTurn(ctx, store.System(), turnID)
	if err != nil {
		cfg.Logger.Warn("the usage of a Turn was not read", slog.String("turn_id", turnID), slog.Any("error", err))
	}
	counted := make([]agui.TokenUsage, len(rows))
	for i, row := range rows {
		total := row.Tokens.Input + row.Tokens.Output
		counted[i] = agui.TokenUsage{
			Provider: row.Upstream, Model: row.Model, InputTokens: &row.Tokens.Input, OutputTokens: &row.Tokens.Output, TotalTokens: &total,
			ReasoningTokens: positive(row.Tokens.Reasoning), CachedInputTokens: positive(row.Tokens.Cached),
		}
	}
	if len(own) == 0 || len(counted) == 0 {
		return append(own, counted...)
	}
	for i := range own {
		own[i].CountedBy = agui.CountedByAgent
	}
	for i := range counted {
		counted[i].CountedBy = agui.CountedByProxy
	}
	return append(own, counted...)
}

// countedBy returns usage in the form of an event, and the event's metadata with the source of each element.
func countedBy(usage []agui.TokenUsage, metadata json.RawMessage) ([]agui.TokenUsage, json.RawMessage) {
	if !slices.ContainsFunc(usage, func(u agui.TokenUsage) bool { return u.CountedBy != "" }) {
		return usage, metadata
	}
	usage = slices.Clone(usage)
	by := make([]string, len(usage))
	for i := range usage {
		by[i], usage[i].CountedBy = usage[i].CountedBy, ""
	}
	members := make(map[string]json.RawMessage)
	_ = json.Unmarshal(metadata, &members) // of our own writing, or nothing
	members[agui.CountedByKey] = mustJSON(by)
	return usage, mustJSON(members)
}

// positive is nil for 0, which AG-UI takes for a count that is known.
func positive(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}
