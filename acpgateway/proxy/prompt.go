package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"aqueduct/acpgateway/acp"
)

// prompt is one prompt_send on its way. All members but id belong to the run's mutex.
type prompt struct {
	id        string
	session   string // empty until it is known
	sent      bool   // the agent has it
	answered  bool   // the agent has ended it
	cancelled bool
	clock     *clock // nil before it begins
}

// remembered is how many results a run keeps for prompts that are sent twice.
const remembered = 32

// prompt queues a prompt. One whose id is known is not given to the agent again: a gateway
// that lost its link cannot know whether it arrived.
func (p *Proxy) prompt(f *acp.PromptSend) {
	if err := errors.Join(checkRunID(f.RunID), checkPrompt(f)); err != nil {
		p.send(f.RunID, &acp.PromptResult{RunID: f.RunID, PromptID: f.PromptID, Error: asText(err)})
		return
	}
	r := p.run(f.RunID)
	one := &prompt{id: f.PromptID}
	switch result, known := r.admit(one); {
	case result != nil:
		p.send(f.RunID, result)
		return
	case known:
		return
	}
	finish := func(result *acp.PromptResult, err error) {
		if err != nil {
			r.text(acp.PrefixError + err.Error())
			result.OK, result.Error = false, asText(err)
		}
		r.finish(one, result)
		p.send(r.id, result)
	}
	r.enqueue(func(ctx context.Context) {
		r.begin(one)
		result := &acp.PromptResult{RunID: r.id, PromptID: f.PromptID}
		finish(result, r.prompt(ctx, f, one, result))
	}, func(err error) { finish(&acp.PromptResult{RunID: r.id, PromptID: f.PromptID}, err) })
}

func checkPrompt(f *acp.PromptSend) error {
	if f.PromptID == "" || f.Prompt == nil {
		return errors.New("a prompt needs prompt_id and prompt")
	}
	return nil
}

// admit notes a prompt, or says what is known of it.
func (r *run) admit(one *prompt) (*acp.PromptResult, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, result := range r.results {
		if result.PromptID == one.id {
			return result, true
		}
	}
	if r.active != nil && r.active.id == one.id {
		return nil, true
	}
	for _, w := range r.waiting {
		if w.id == one.id {
			return nil, true
		}
	}
	r.waiting = append(r.waiting, one)
	return nil, false
}

func (r *run) begin(one *prompt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unwait(one)
	r.active = one
}

func (r *run) unwait(one *prompt) {
	for i, w := range r.waiting {
		if w == one {
			r.waiting = append(r.waiting[:i:i], r.waiting[i+1:]...)
			return
		}
	}
}

func (r *run) finish(one *prompt, result *acp.PromptResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unwait(one)
	if r.active == one {
		r.active = nil
	}
	if r.results = append(r.results, result); len(r.results) > remembered {
		r.results = append([]*acp.PromptResult(nil), r.results[1:]...)
	}
}

// prompt does it: an agent, a session, the prompt.
func (r *run) prompt(ctx context.Context, f *acp.PromptSend, one *prompt, result *acp.PromptResult) error {
	timeout := promptTimeout
	if f.TimeoutMS > 0 {
		timeout = min(max(time.Duration(f.TimeoutMS)*time.Millisecond, promptShortest), promptLongest)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	clock := newClock(timeout, func() { cancel(fmt.Errorf("the prompt took longer than %s", timeout)) })
	defer clock.stop()
	r.mu.Lock()
	one.clock = clock
	r.mu.Unlock()
	a, err := r.ensure(ctx, start{cwd: f.Cwd, instance: f.InstanceName, ttl: f.KeepaliveTTLSeconds, init: f.Init})
	if err != nil {
		return err
	}
	for _, block := range f.Prompt {
		if kind := blockType(block); !a.info.AgentCapabilities.PromptCapabilities.Takes(kind) {
			return fmt.Errorf("the agent takes no content of type %q", kind)
		}
	}
	session, err := a.session(ctx, f, result)
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
func (a *agent) prompt(ctx context.Context, f *acp.PromptSend, one *prompt, session string, result *acp.PromptResult) (acp.PromptAnswer, error) {
	answer, err := a.promptIn(ctx, f, one, session, result.SessionCreated)
	if acp.CodeOf(err) == acp.CodeAuthRequired {
		if failed := a.authenticate(ctx); failed != nil {
			return answer, loginFailed(err, failed)
		}
		answer, err = a.promptIn(ctx, f, one, session, result.SessionCreated)
	}
	if err != nil && !result.SessionCreated && sessionLost(err) {
		if session, err = a.recreate(ctx, session, result); err != nil {
			return answer, err
		}
		answer, err = a.promptIn(ctx, f, one, session, true)
	}
	return answer, err
}

// sessionLost is strict: repeating a prompt that the agent did work on would do it twice.
func sessionLost(err error) bool {
	var e *acp.Error
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
	return e.Code == acp.CodeNotFound
}

func (a *agent) promptIn(ctx context.Context, f *acp.PromptSend, one *prompt, session string, fresh bool) (acp.PromptAnswer, error) {
	r := a.run
	r.mu.Lock()
	one.session, one.answered = session, false
	cancelled := one.cancelled
	r.mu.Unlock()
	if cancelled {
		return acp.PromptAnswer{StopReason: acp.StopCancelled}, nil
	}
	blocks := f.Prompt
	if f.Context != "" {
		a.context = f.Context // sent once, and of use again where the session is lost
	}
	if fresh && a.context != "" {
		blocks = append([]json.RawMessage{a.contextBlock(a.context)}, blocks...)
	}
	call, err := a.peer.begin(acp.MethodPrompt, acp.PromptParams{SessionID: session, Prompt: blocks, Meta: acp.MetaOf(f.Traceparent, f.Tracestate)}, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		one.answered = true // what comes after it belongs to no prompt
	})
	if err != nil {
		return acp.PromptAnswer{}, err
	}
	r.mu.Lock()
	one.sent = true
	cancelled = one.cancelled // while it was written, when nobody could tell the agent
	r.mu.Unlock()
	if cancelled {
		a.cancelSession(session)
	}
	return a.ended(ctx, call, session)
}

// ended waits for the answer. When time is over the agent is told, and may still answer: the
// next prompt must not meet it at work.
func (a *agent) ended(ctx context.Context, call *call, session string) (acp.PromptAnswer, error) {
	select {
	case <-call.done:
	case <-ctx.Done():
		a.cancelSession(session)
		grace, cancel := context.WithTimeout(a.run.ctx, cancelGrace)
		defer cancel()
		_, _ = call.wait(grace) // late either way
		return acp.PromptAnswer{}, context.Cause(ctx)
	}
	raw, err := call.raw, call.err
	var answer acp.PromptAnswer
	if err == nil {
		err = json.Unmarshal(raw, &answer)
	}
	return answer, err
}

func (a *agent) cancelSession(session string) {
	_ = a.peer.notify(acp.MethodCancel, acp.CancelParams{SessionID: session}) // a closed pipe is told by the process's end
	a.cancelAsks(session)
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
