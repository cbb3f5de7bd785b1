package acpgateway

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"aqueduct/acpgateway/acp"
	"aqueduct/bridge/redact"
	"aqueduct/store"
)

const (
	// mergeTime and mergeChars are when merged chunks are put on record where no setting says (contract §6).
	mergeTime  = 800 * time.Millisecond
	mergeChars = 16_000

	updateReceived = "acp.update.received"
	agentExited    = "sandbox.acp_exit"
)

// recorder puts on record what came, as it came; chunks of one message become one record.
type recorder struct {
	t *tunnel

	mu    sync.Mutex
	key   chunkKey
	text  strings.Builder
	chars int
	first acp.Update // whose members the merged one has
	said  chunks
	err   stderrLines
	log   redact.Stream // what passes from stderr
}

// chunkKey is what chunks have in common that are merged.
type chunkKey struct{ session, kind, message, prompt string }

func (r *recorder) update(ctx context.Context, m *acp.ACPUpdate) {
	u := acp.ReadUpdate(m.Update)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !isChunk(u) || m.Replay {
		r.flushLocked(ctx)
		r.add(ctx, store.SourceACP, word(m.PromptID), updateReceived, received(word(m.SessionID), m.Update))
		return
	}
	key := chunkKey{word(m.SessionID), u.Variant, u.MessageID, word(m.PromptID)}
	if key != r.said.key {
		r.endSaidLocked(ctx)
		r.said.key, r.said.first = key, u
	}
	if key != r.key {
		r.flushLocked(ctx)
	}
	r.addLocked(r.said.Push(r.t.g.cfg.Hash.Filter, u.Content.Text))
	if r.chars >= r.t.g.cfg.Limits.MergeChars {
		r.flushLocked(ctx)
	}
}

// chunks is a message that comes in chunks, also when several records hold it: a secret may be cut between two.
type chunks struct {
	redact.Stream
	key   chunkKey
	first acp.Update
}

// addLocked adds text of the message that comes.
func (r *recorder) addLocked(text string) {
	if text == "" {
		return
	}
	if r.chars == 0 {
		r.key, r.first = r.said.key, r.said.first
		r.t.g.keeper.due(r.t, time.Now().Add(r.t.g.cfg.Limits.MergeTime))
	}
	r.text.WriteString(text)
	r.chars += utf8.RuneCountInString(text)
}

// endSaidLocked adds what was held back of a message that is over.
func (r *recorder) endSaidLocked(ctx context.Context) {
	if !r.said.Holds() {
		r.said.End(r.t.g.cfg.Hash.Filter)
		return
	}
	if r.key != r.said.key {
		r.flushLocked(ctx)
	}
	r.addLocked(r.said.End(r.t.g.cfg.Hash.Filter))
	r.flushLocked(ctx)
}

func isChunk(u acp.Update) bool {
	switch u.Variant {
	case acp.AgentMessageChunk, acp.AgentThoughtChunk, acp.UserMessageChunk:
		return u.Content.Type == acp.BlockText && u.Content.Text != ""
	}
	return false
}

// flush puts on record what is being merged.
func (r *recorder) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endSaidLocked(context.Background())
	r.said.key = chunkKey{}
	r.flushLocked(context.Background()) // what is merged is bounded; it does not wait
	r.endStderrLocked()
	r.flushStderrLocked(context.Background())
}

// due puts on record what was merged long enough.
func (r *recorder) due() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flushLocked(context.Background())
	r.dueStderrLocked(context.Background())
}

func (r *recorder) flushLocked(ctx context.Context) {
	if r.chars == 0 {
		return
	}
	content := map[string]string{"type": acp.BlockText, "text": r.text.String()}
	merged := struct {
		SessionUpdate string            `json:"sessionUpdate"`
		MessageID     string            `json:"messageId,omitempty"`
		Content       map[string]string `json:"content"`
	}{r.first.Variant, r.first.MessageID, content}
	key := r.key
	r.key, r.chars, r.first = chunkKey{}, 0, acp.Update{}
	r.text.Reset()
	r.add(ctx, store.SourceACP, key.prompt, updateReceived, received(key.session, mustJSON(merged)))
}

// received is the contract's payload of an update.
func received(session string, update json.RawMessage) json.RawMessage {
	if !json.Valid(update) {
		update = mustJSON(string(update))
	}
	return mustJSON(struct {
		Type    string          `json:"type"`
		Session string          `json:"session"`
		Update  json.RawMessage `json:"update"`
	}{"session_update", session, update})
}

// signal records a signal of the proxy's, and tells the steps of an init script at once.
func (r *recorder) signal(ctx context.Context, m *acp.ProxyUpdate) {
	if !json.Valid(m.Content) {
		return
	}
	if words, ok := stderrWords(m.Content); ok {
		r.stderr(ctx, words)
		return
	}
	r.other(ctx, store.SourceProxy, "", updateReceived, m.Content)
}

func (r *recorder) result(ctx context.Context, m *acp.PromptResult) {
	r.other(ctx, store.SourceACP, m.PromptID, updateReceived, mustJSON(struct {
		Type       string  `json:"type"`
		OK         bool    `json:"ok"`
		StopReason *string `json:"stopReason"`
		Error      string  `json:"error,omitempty"`
	}{"prompt_result", m.OK, m.StopReason, m.Error}))
}

func (r *recorder) exit(ctx context.Context, m *acp.Exit) {
	r.other(ctx, store.SourceProxy, "", agentExited, mustJSON(m))
}

func (r *recorder) branch(ctx context.Context, m *acp.BranchCreated) {
	r.other(ctx, store.SourceProxy, "", m.Type(), mustJSON(m))
}

func (r *recorder) other(ctx context.Context, source store.RecordSource, prompt, kind string, payload json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flushLocked(ctx)
	r.flushStderrLocked(ctx)
	r.add(ctx, source, prompt, kind, payload)
}

// add hands a record to the keeper.
func (r *recorder) add(ctx context.Context, source store.RecordSource, prompt, kind string, payload json.RawMessage) {
	r.t.g.keeper.record(ctx, store.Record{
		ID: newID(), SessionID: r.t.owner, TurnID: r.t.turnOf(prompt), Source: source, Type: kind, TS: time.Now(), Payload: payload,
	})
}

// turnOf is the Turn that a record belongs to: the one whose prompt it names, if it is ours,
// else the one under way.
func (t *tunnel) turnOf(prompt string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if prompt != "" && (t.prompts[prompt] != nil || t.turns.has(prompt)) {
		return prompt
	}
	if t.turn != nil {
		return t.turn.call.TurnID
	}
	return ""
}
