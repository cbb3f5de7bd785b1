package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"aqueduct/acpgateway/wire"
)

func checkPrompt(f *wire.PromptSend) error {
	if f.PromptID == "" || f.Prompt == nil {
		return errors.New("a prompt needs prompt_id and prompt")
	}
	return nil
}

// prompt does it: an agent, a session, the prompt.
//
// The clock runs from here, over the start of the agent and its session too, and stands still while a person is asked.
func (r *run) prompt(ctx context.Context, f *wire.PromptSend, one *prompt, result *wire.PromptResult) error {
	timeout := promptTimeout
	if f.TimeoutMS > 0 {
		timeout = min(max(time.Duration(f.TimeoutMS)*time.Millisecond, promptShortest), promptLongest)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	clock := newClock(timeout, func() { cancel(fmt.Errorf("the prompt took longer than %s", timeout)) })
	defer clock.stop()
	r.prompts.timed(one, clock)
	a, err := r.ensure(ctx, start{cwd: f.Cwd, instance: f.InstanceName, ttl: f.KeepaliveTTLSeconds, init: f.Init})
	if err != nil {
		return err
	}
	for _, block := range f.Prompt {
		if kind := blockType(block); !a.info.AgentCapabilities.PromptCapabilities.Takes(kind) {
			return fmt.Errorf("the agent takes no content of type %q", kind)
		}
	}
	session, err := a.sessions.open(ctx, f, result)
	if err != nil {
		return err
	}
	answer, err := a.prompt(ctx, f, one, session, result)
	if err != nil {
		return err
	}
	result.OK, result.StopReason, result.Usage = true, &answer.StopReason, answer.Usage
	return nil
}

func blockType(block json.RawMessage) string {
	var b struct{ Type string }
	if json.Unmarshal(block, &b) != nil {
		return "?"
	}
	return b.Type
}

// prompt sends it, once more after logging in, and once more into a new session when the
// agent does not know the one it was for.
// The session is recreated at most once, and only for an error that names a lost session.
func (a *agent) prompt(ctx context.Context, f *wire.PromptSend, one *prompt, session string, result *wire.PromptResult) (wire.PromptAnswer, error) {
	answer, err := a.promptIn(ctx, f, one, session, result.SessionCreated)
	if wire.CodeOf(err) == wire.CodeAuthRequired {
		if failed := a.sessions.login.authenticate(ctx); failed != nil {
			return answer, loginFailed(err, failed)
		}
		answer, err = a.promptIn(ctx, f, one, session, result.SessionCreated)
	}
	if err != nil && !result.SessionCreated && sessionLost(err) {
		if session, err = a.sessions.recreate(ctx, session, result); err != nil {
			return answer, err
		}
		answer, err = a.promptIn(ctx, f, one, session, true)
	}
	return answer, err
}

// sessionLost is strict: repeating a prompt that the agent did work on would do it twice.
func sessionLost(err error) bool {
	var e *wire.Error
	if !errors.As(err, &e) {
		return false
	}
	text := strings.ToLower(e.Message + string(e.Data))
	if !strings.Contains(text, "session") {
		return false
	}
	for _, sign := range []string{"not found", "unknown", "no such", "does not exist", "invalid session", "no previous"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return e.Code == wire.CodeNotFound
}

// A cancel can come at any point. Before enter the prompt is never sent. Between enter and written the cancel has seen
// it unsent, so it is passed on here, after the write. Later the cancel goes to the agent directly.
func (a *agent) promptIn(ctx context.Context, f *wire.PromptSend, one *prompt, session string, fresh bool) (wire.PromptAnswer, error) {
	if a.prompts.enter(one, session) {
		return wire.PromptAnswer{StopReason: wire.StopCancelled}, nil
	}
	blocks := f.Prompt
	if f.Context != "" {
		a.context = f.Context // sent once, and of use again where the session is lost
	}
	if fresh && a.context != "" {
		blocks = append([]json.RawMessage{a.contextBlock(a.context)}, blocks...)
	}
	call, err := a.peer.begin(wire.MethodPrompt, wire.PromptParams{SessionID: session, Prompt: blocks, Meta: wire.MetaOf(f.Traceparent, f.Tracestate)}, func() { a.prompts.answered(one) })
	if err != nil {
		return wire.PromptAnswer{}, err
	}
	if a.prompts.written(one) {
		a.cancelSession(session)
	}
	return a.awaitAnswer(ctx, call, session)
}

// awaitAnswer waits for the answer. When time is over the agent is notified, and may still answer: the
// next prompt must not meet it at work.
// The agent gets a moment to end the prompt in order. If it does not, the prompt fails all the same, and the gateway
// closes the agent.
func (a *agent) awaitAnswer(ctx context.Context, call *call, session string) (wire.PromptAnswer, error) {
	select {
	case <-call.done:
	case <-ctx.Done():
		a.cancelSession(session)
		// From the run's context, for the prompt's own has ended.
		grace, cancel := context.WithTimeout(a.runCtx, cancelGrace)
		defer cancel()
		_, _ = call.wait(grace) // late either way
		return wire.PromptAnswer{}, context.Cause(ctx)
	}
	raw, err := call.raw, call.err
	var answer wire.PromptAnswer
	if err == nil {
		err = json.Unmarshal(raw, &answer)
	}
	return answer, err
}

func (a *agent) cancelSession(session string) {
	_ = a.peer.notify(wire.MethodCancel, wire.CancelParams{SessionID: session}) // a closed pipe is reported by the process's end
	a.asks.cancel(session)
}

// contextBlock is the gateway's context in the best form the agent takes.
func (a *agent) contextBlock(text string) json.RawMessage {
	var block any = map[string]string{"type": "text", "text": text}
	if a.info.AgentCapabilities.PromptCapabilities.EmbeddedContext {
		block = map[string]any{"type": "resource", "resource": map[string]string{
			"uri": "tuixiu://context", "mimeType": "text/plain", "text": text,
		}}
	}
	raw, err := json.Marshal(block)
	if err != nil {
		return nil // texts always can be written
	}
	return raw
}
