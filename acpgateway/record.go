package acpgateway

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"aqueduct/acpgateway/wire"
	"aqueduct/bridge/redact"
	"aqueduct/store"
)

const (
	// mergeTime and mergeChars are when merged chunks are put on record without a setting (contract §6).
	mergeTime  = 800 * time.Millisecond
	mergeChars = 16_000

	updateReceived = "acp.update.received"
	agentExited    = "sandbox.acp_exit"
)

// recorder puts on record what came, as it came; chunks of one message become one record.
//
// A record holds what the agent sent, before any translation, which is what a person needs who asks why the chat shows
// something. Chunks are merged because a record for each would make the trace unreadable.
//
// The link's goroutine writes, the keeper's flushes when the time is over; mu orders them. The names that end in
// Locked want it held.
type recorder struct {
	session string
	keeper  *keeper
	limits  Limits
	secrets *redact.Filter
	queue   *queue
	prompts *prompts

	mu    sync.Mutex
	id    string // of the record that is merged
	key   chunkKey
	text  strings.Builder
	chars int
	first wire.Update // whose members the merged one has
	said  chunks
	err   stderrLines
	log   redact.Stream // what passes from stderr
}

// chunkKey is what chunks have in common that are merged.
type chunkKey struct{ session, kind, message, prompt string }

func (rec *recorder) update(ctx context.Context, m *wire.ACPUpdate, u *wire.Update) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	// What is no chunk ends the merging, so that the records are in the order in which things happened.
	if !isChunk(u) || m.Replay {
		rec.flushLocked(ctx)
		rec.add(ctx, newID(), store.SourceACP, stringOf(m.PromptID), updateReceived, received(stringOf(m.SessionID), m.Update))
		return
	}
	key := chunkKey{stringOf(m.SessionID), u.Variant, u.MessageID, stringOf(m.PromptID)}
	if key != rec.said.key {
		rec.endSaidLocked(ctx)
		rec.said.key, rec.said.first = key, *u
	}
	if key != rec.key {
		rec.flushLocked(ctx)
	}
	rec.addLocked(rec.said.Push(rec.secrets, u.Content.Text))
	if rec.chars >= rec.limits.MergeChars {
		rec.flushLocked(ctx)
	}
}

// chunks is a message that comes in chunks, also when several records hold it: a secret may be cut between two.
// Masking runs over the whole message and merging over parts of it, so the two have different keys and ends.
type chunks struct {
	redact.Stream
	key   chunkKey
	first wire.Update
}

// addLocked adds text of the message that comes.
func (rec *recorder) addLocked(text string) {
	if text == "" {
		return
	}
	if rec.chars == 0 {
		// Records are ordered by id, so an id is made when a record begins. stderrLines makes its own id then too.
		rec.id, rec.key, rec.first = newID(), rec.said.key, rec.said.first
		rec.keeper.due(rec, time.Now().Add(rec.limits.MergeTime))
	}
	rec.text.WriteString(text)
	rec.chars += utf8.RuneCountInString(text)
}

// endSaidLocked adds what was held back of a message that is over.
func (rec *recorder) endSaidLocked(ctx context.Context) {
	if !rec.said.Holds() {
		rec.said.End(rec.secrets)
		return
	}
	if rec.key != rec.said.key {
		rec.flushLocked(ctx)
	}
	rec.addLocked(rec.said.End(rec.secrets))
	rec.flushLocked(ctx)
}

func isChunk(u *wire.Update) bool {
	switch u.Variant {
	case wire.AgentMessageChunk, wire.AgentThoughtChunk, wire.UserMessageChunk:
		return u.Content.Type == wire.BlockText && u.Content.Text != ""
	}
	return false
}

// flush puts on record what is being merged.
// The context is not a request's: what was gathered is put on record also when the link is gone.
func (rec *recorder) flush() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.endSaidLocked(context.Background())
	rec.said.key = chunkKey{}
	rec.flushLocked(context.Background()) // what is merged is bounded; it does not wait
	rec.endStderrLocked()
	rec.flushStderrLocked(context.Background())
}

// due puts on record what was merged long enough.
func (rec *recorder) due() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.flushLocked(context.Background())
	rec.dueStderrLocked(context.Background())
}

func (rec *recorder) flushLocked(ctx context.Context) {
	if rec.chars == 0 {
		return
	}
	content := map[string]string{"type": wire.BlockText, "text": rec.text.String()}
	merged := struct {
		SessionUpdate string            `json:"sessionUpdate"`
		MessageID     string            `json:"messageId,omitempty"`
		Content       map[string]string `json:"content"`
	}{rec.first.Variant, rec.first.MessageID, content}
	id, key := rec.id, rec.key
	rec.key, rec.chars, rec.first = chunkKey{}, 0, wire.Update{}
	rec.text.Reset()
	rec.add(ctx, id, store.SourceACP, key.prompt, updateReceived, received(key.session, mustJSON(merged)))
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

// signal records a signal of the proxy's; lines of stderr are gathered.
func (rec *recorder) signal(ctx context.Context, m *wire.ProxyUpdate, signal wire.Signal) {
	if !json.Valid(m.Content) {
		return
	}
	if words, ok := stderrWords(signal); ok {
		rec.stderr(ctx, words)
		return
	}
	rec.other(ctx, store.SourceProxy, "", updateReceived, m.Content)
}

func (rec *recorder) result(ctx context.Context, m *wire.PromptResult) {
	rec.other(ctx, store.SourceACP, m.PromptID, updateReceived, mustJSON(struct {
		Type       string  `json:"type"`
		OK         bool    `json:"ok"`
		StopReason *string `json:"stopReason"`
		Error      string  `json:"error,omitempty"`
	}{"prompt_result", m.OK, m.StopReason, m.Error}))
}

func (rec *recorder) exit(ctx context.Context, m *wire.Exit) {
	rec.other(ctx, store.SourceProxy, "", agentExited, mustJSON(m))
}

func (rec *recorder) branch(ctx context.Context, m *wire.BranchCreated) {
	rec.other(ctx, store.SourceProxy, "", m.Type(), mustJSON(m))
}

func (rec *recorder) other(ctx context.Context, source store.RecordSource, prompt, kind string, payload json.RawMessage) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.flushLocked(ctx)
	rec.flushStderrLocked(ctx)
	rec.add(ctx, newID(), source, prompt, kind, payload)
}

// add hands a record to the keeper.
func (rec *recorder) add(ctx context.Context, id string, source store.RecordSource, prompt, kind string, payload json.RawMessage) {
	rec.keeper.record(ctx, store.Record{
		ID: id, SessionID: rec.session, TurnID: rec.turnOf(prompt), Source: source, Type: kind, TS: time.Now(), Payload: payload,
	}, false)
}

// turnOf is the Turn that a record belongs to: the one whose prompt it names, if a Turn sent that, else the one that reads.
// Agents that do not name the prompt in their updates are those of old proxies; the reading Turn is then the best
// guess.
func (rec *recorder) turnOf(prompt string) string {
	if prompt != "" && rec.prompts.isKnown(prompt) {
		return prompt
	}
	if t := rec.queue.turn(); t != nil {
		return t.call.TurnID
	}
	return ""
}
