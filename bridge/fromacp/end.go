package fromacp

import (
	"encoding/json"

	"aqueduct/acpgateway/acp"
	"aqueduct/agui"
)

// Results of calls that got none from the agent.
const (
	resultCancelled = "Cancelled."
	resultFailed    = "The agent failed before this ended."
	resultNone      = "The agent ended without a result."
)

// PromptEnd appends what the answer to a prompt means. A stop reason that is missing, as
// some proxies have it, is an end like any other.
func (t *Translator) PromptEnd(dst []Out, stopReason string, usage json.RawMessage) []Out {
	cancelled := stopReason == acp.StopCancelled
	text, status := resultNone, "ended"
	if cancelled {
		text, status = resultCancelled, acp.StatusCancelled
	}
	dst = t.closeAll(dst, text, status)
	switch stopReason {
	case "refusal", "max_tokens", "max_turn_requests":
		dst = event(dst, &agui.Custom{Name: "acp.stopped", Value: marshal(struct {
			StopReason string `json:"stopReason"`
		}{stopReason})})
	}
	end := &End{StopReason: stopReason, Cancelled: cancelled, Usage: tokens(usage), Result: result(stopReason, usage)}
	t.afterPrompt()
	return append(dst, Out{End: end})
}

// Close appends the end of all that is open: the agent is gone, or is to be.
func (t *Translator) Close(dst []Out) []Out {
	return t.closeSteps(t.closeAll(dst, resultNone, "ended"))
}

// afterPrompt: what comes now belongs to no prompt, or to the next. Nothing is loaded
// outside of a first prompt, so nothing is repeated any more.
func (t *Translator) afterPrompt() {
	t.prompts++
	t.speech.parent = ""
	t.given = t.given[:0]
	clear(t.plans)
	t.trail = trail{}
	t.replay.live()
}

// closeAll ends what is being said and gives every open call a result.
func (t *Translator) closeAll(dst []Out, text, status string) []Out {
	dst = t.closeSpeech(dst)
	for len(t.open) > 0 {
		c := t.open[0]
		dst = t.endCall(dst, c, t.resultSoFar(c, text))
		c.shown.status = status
		dst = t.redraw(dst, c, []operation{{"replace", "/status", marshal(status)}})
		c.forget()
	}
	return dst
}

// resultSoFar is what a call has shown, else why it shows nothing.
func (t *Translator) resultSoFar(c *call, otherwise string) string {
	seen := c.seen
	seen.Status = otherwise
	if so := resultText(seen, c.outputs); so != otherwise {
		return so + "\n" + otherwise
	}
	return otherwise
}

func result(stopReason string, usage json.RawMessage) json.RawMessage {
	r := struct {
		StopReason string          `json:"stopReason,omitempty"`
		Usage      json.RawMessage `json:"usage,omitempty"`
	}{StopReason: stopReason}
	if u := compact(usage); len(u) > 0 && u[0] == '{' {
		r.Usage = u
	}
	return marshal(r)
}

// maxTokens is 2^53-1: what the clients' number type holds exactly.
const maxTokens = 1<<53 - 1

// tokens reads a prompt's usage, whose members may each be wrong or absent.
func tokens(usage json.RawMessage) []agui.TokenUsage {
	var counts map[string]json.RawMessage
	if json.Unmarshal(usage, &counts) != nil {
		return nil
	}
	count := func(name string) *int64 {
		var n float64
		if raw, there := counts[name]; !there || string(raw) == "null" || json.Unmarshal(raw, &n) != nil || n < 0 || n > maxTokens {
			return nil
		}
		whole := int64(n)
		return &whole
	}
	u := agui.TokenUsage{
		InputTokens: count("inputTokens"), OutputTokens: count("outputTokens"), TotalTokens: count("totalTokens"),
		ReasoningTokens: count("thoughtTokens"), CachedInputTokens: count("cachedReadTokens"), CacheWriteInputTokens: count("cachedWriteTokens"),
	}
	if u == (agui.TokenUsage{}) {
		return nil
	}
	return []agui.TokenUsage{u}
}
