package translate

import (
	"encoding/json"

	"aqueduct/acpgateway/wire"
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
//
// stopReason is ACP's: end_turn, max_tokens, max_turn_requests, refusal, cancelled. The middle three end the Turn well
// and are shown by CUSTOM acp.stopped, since the answer is not whole.
func (t *Translator) PromptEnd(dst []Out, stopReason string, usage json.RawMessage) []Out {
	cancelled := stopReason == wire.StopCancelled
	text, status := resultNone, "ended"
	if cancelled {
		text, status = resultCancelled, wire.StatusCancelled
	}
	dst = t.calls.closeAll(dst, text, status)
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
	return t.host.closeSteps(t.calls.closeAll(dst, resultNone, "ended"))
}

// afterPrompt: what comes now belongs to no prompt, or to the next. Nothing is loaded
// outside of a first prompt, so nothing is repeated any more.
func (t *Translator) afterPrompt() {
	t.plans.prompts++
	t.speech.parent = ""
	t.ids.given = t.ids.given[:0]
	clear(t.plans.shown)
	t.host.errorContext = errorContext{}
	t.replay.live()
}

// closeAll ends the open message and gives every open call a result: what it has shown so far, and text for why nothing
// follows. status is what its activity shows from then on.
func (cs *calls) closeAll(dst []Out, text, status string) []Out {
	dst = cs.speech.close(dst)
	for len(cs.open) > 0 {
		c := cs.open[0]
		dst = cs.end(dst, c, c.resultSoFar(text))
		c.shown.status = status
		dst = cs.activities.patch(dst, c, []operation{{"replace", "/status", marshal(status)}})
		c.forget()
	}
	return dst
}

// result is what RUN_FINISHED shows of a prompt's end. A usage that is no object is left out.
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
// ACP counts thoughtTokens and cachedReadTokens; AG-UI calls them reasoningTokens and cachedInputTokens.
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

// Failed appends the end of a prompt that failed, or of an agent that never opened, with
// the whole chain of causes: its reader should see the reason, and what to do.
func (t *Translator) Failed(dst []Out, c Cause) []Out {
	if c.ExitCode != nil || c.Signal != "" {
		t.host.errorContext.exit(c.ExitCode, c.Signal)
	}
	dst = t.host.closeSteps(t.calls.closeAll(dst, resultFailed, "failed"))
	failure := t.host.errorContext.failure(c)
	sandbox := t.host.errorContext.sandbox
	t.afterPrompt()
	t.host.errorContext.sandbox = sandbox // it stands until the next status of the sandbox
	return append(dst, Out{End: &End{Failure: failure}})
}
