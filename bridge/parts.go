package bridge

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"aqueduct/agui"
	"aqueduct/store"
)

const (
	// InlinePart is the size in bytes up to which a part stays in its message. Larger ones are kept once a Session, and
	// messages hold their URL: a snapshot of a thread with pictures would else be larger than clients can read.
	InlinePart = 64 << 10
	// agentParts bounds the bytes of stored parts that one call of an Agent gets, the newest first; of what is older it
	// gets the URLs. All of a call is in memory at once.
	agentParts = 64 << 20

	partsBefore, partsBehind = "/api/threads/", "/parts/"
)

// partPath is where the bytes of a part are served. It names the Session by our own id, which needs no escaping and stays.
func partPath(sessionID, sum string) string { return partsBefore + sessionID + partsBehind + sum }

// partOf reads a part's URL, of whatever host: pages make it absolute in their own way. thread is as the URL has it.
func partOf(value string) (thread, sum string, ok bool) {
	if !strings.Contains(value, partsBehind) {
		return "", "", false
	}
	u, err := url.Parse(value)
	if err != nil {
		return "", "", false
	}
	_, rest, found := strings.Cut(u.EscapedPath(), partsBefore)
	thread, sum, ok = strings.Cut(rest, partsBehind)
	if raw, err := hex.DecodeString(sum); !found || !ok || err != nil || len(raw) != sha256.Size {
		return "", "", false
	}
	thread, err = url.PathUnescape(thread)
	return thread, strings.ToLower(sum), err == nil && thread != ""
}

// external is a message with the URLs of its parts that are larger than least, and those parts.
func external(m agui.Message, sessionID string, least int) (out agui.Message, parts []store.MessagePart, changed bool) {
	out, changed = m.WithSources(func(p *agui.ContentPart) *agui.Source {
		if p.DataSize() <= least {
			return nil
		}
		data, ok := p.Data()
		if !ok || len(data) <= least {
			return nil
		}
		sum := sha256.Sum256(data)
		part := store.MessagePart{SessionID: sessionID, SHA256: hex.EncodeToString(sum[:]), MimeType: p.Source.MimeType, Data: data, CreatedAt: time.Now()}
		parts = append(parts, part)
		return &agui.Source{Type: agui.SourceURL, Value: partPath(sessionID, part.SHA256), MimeType: p.Source.MimeType}
	})
	return out, parts, changed
}

// keepParts stores what is large in a new message. A part that it names by its URL is one of this Session, or becomes one
// when the user has it in another: a page may carry a message over.
func (in *intake) keepParts(ctx context.Context, m agui.Message) (agui.Message, error) {
	m, parts, _ := external(m, in.session.ID, InlinePart)
	var failed error
	m, _ = m.WithSources(func(p *agui.ContentPart) *agui.Source {
		thread, sum, ok := partOf(p.Source.Value)
		if !ok || p.Source.Type != agui.SourceURL || failed != nil {
			return nil
		}
		own := &agui.Source{Type: agui.SourceURL, Value: partPath(in.session.ID, sum), MimeType: p.Source.MimeType}
		if thread == in.session.ID || thread == in.session.ExternalID {
			return own
		}
		part, err := in.partElsewhere(ctx, thread, sum)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		failed = err
		part.SessionID = in.session.ID
		parts = append(parts, part)
		return own
	})
	for _, p := range parts {
		if failed == nil {
			failed = in.tx.InsertMessagePart(ctx, p)
		}
	}
	return m, failed
}

// partElsewhere reads a part of another thread of the same user's.
func (in *intake) partElsewhere(ctx context.Context, thread, sum string) (store.MessagePart, error) {
	who := store.As(in.req.Principal)
	if s, err := in.tx.SessionByExternalID(ctx, who, thread); err == nil {
		thread = s.ID
	} else if !errors.Is(err, store.ErrNotFound) {
		return store.MessagePart{}, err
	}
	return in.tx.MessagePart(ctx, who, thread, sum)
}

// partLoader gives messages the bytes of their parts, each part once.
type partLoader struct {
	s         *Sessions
	sessionID string
	room      int // how many bytes may still be loaded
	loaded    map[string]*agui.Source
}

// fill gives messages with the bytes of the parts that they name by our URLs, as Agents take them. The newest get theirs
// first, as far as there is room.
func (l *partLoader) fill(ctx context.Context, messages []agui.Message) ([]agui.Message, error) {
	out := messages
	for i := len(messages) - 1; i >= 0; i-- {
		var failed error
		m, changed := messages[i].WithSources(func(p *agui.ContentPart) *agui.Source {
			_, sum, ok := partOf(p.Source.Value)
			if !ok || p.Source.Type != agui.SourceURL || failed != nil {
				return nil
			}
			var source *agui.Source
			source, failed = l.load(ctx, sum, p.Source.MimeType)
			return source
		})
		if failed != nil {
			return nil, failed
		}
		if !changed {
			continue
		}
		if &out[0] == &messages[0] {
			out = slices.Clone(messages)
		}
		out[i] = m
	}
	return out, nil
}

// load is a part as a source that holds its bytes; nil when there is no such part, or no room for it.
func (l *partLoader) load(ctx context.Context, sum, mimeType string) (*agui.Source, error) {
	source, seen := l.loaded[sum]
	if seen || l.room <= 0 {
		return source, nil
	}
	var part store.MessagePart
	err := patiently(ctx, func() (err error) {
		part, err = l.s.cfg.Store.MessagePart(ctx, store.System(), l.sessionID, sum)
		return err
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if err == nil {
		l.room -= len(part.Data)
		source = agui.DataSource(part.Data, cmp.Or(mimeType, part.MimeType))
	}
	l.loaded[sum] = source
	return source, nil
}

// PromptReader is an Agent that reads the parts of its prompt only: those of the messages before are not loaded for it.
type PromptReader interface{ ReadsPromptOnly() }

// loadParts gives a Call the bytes of its parts.
func (t *turn) loadParts(ctx context.Context, c *Call) (err error) {
	l := &partLoader{s: t.s.m, sessionID: t.s.id, room: agentParts, loaded: make(map[string]*agui.Source)}
	if c.Prompt, err = l.fill(ctx, c.Prompt); err != nil {
		return err
	}
	if _, ok := t.s.m.cfg.Agents.agent(t.row.AgentID).(PromptReader); ok {
		return nil
	}
	c.Messages, err = l.fill(ctx, c.Messages)
	return err
}

// shown is a message as clients are given it: the URLs of its parts begin with the address that people reach us at, where
// that is known.
func (s *Sessions) shown(m agui.Message) (agui.Message, bool) {
	if s.cfg.PublicURL == "" {
		return m, false
	}
	return m.WithSources(func(p *agui.ContentPart) *agui.Source {
		if p.Source.Type != agui.SourceURL || !strings.HasPrefix(p.Source.Value, partsBefore) {
			return nil
		}
		absolute := *p.Source
		absolute.Value = strings.TrimSuffix(s.cfg.PublicURL, "/") + absolute.Value
		return &absolute
	})
}

func (s *Sessions) shownAll(messages []agui.Message) []agui.Message {
	out := make([]agui.Message, len(messages))
	for i, m := range messages {
		out[i], _ = s.shown(m)
	}
	return out
}

// History is a page of a transcript, oldest first, as clients are given it: without the bytes of parts larger than least.
// Rows of earlier versions, which hold them, are replaced on the way. whole: there are none before these.
// The branch is the one that ends with a Turn, "" for the current one.
func (s *Sessions) History(ctx context.Context, in store.Scope, sessionID, turnID string, page store.Page, least int) (rows []store.Message, whole bool, err error) {
	if turnID == "" {
		rows, err = s.cfg.Store.Messages(ctx, in, sessionID, page)
	} else {
		rows, err = s.cfg.Store.BranchMessages(ctx, in, sessionID, turnID, page)
	}
	if err != nil {
		return nil, false, err
	}
	size := 0
	for i := range rows {
		size += len(rows[i].Data)
		if err := s.externalize(ctx, &rows[i], least); err != nil {
			return nil, false, err
		}
		if s.cfg.PublicURL == "" || !bytes.Contains(rows[i].Data, []byte(partsBehind)) {
			continue
		}
		m, err := decodeMessage(rows[i])
		if err != nil {
			return nil, false, err
		}
		if m, changed := s.shown(m); changed {
			rows[i].Data = m.AppendJSON(nil)
		}
	}
	return rows, len(rows) < page.Size() && (page.MaxBytes == 0 || size < page.MaxBytes), nil
}

// dataMark is in every message that holds a part's bytes.
var dataMark = []byte(`"type":"data"`)

// externalize moves large parts out of a row that holds them.
func (s *Sessions) externalize(ctx context.Context, row *store.Message, least int) error {
	if len(row.Data) <= least || !bytes.Contains(row.Data, dataMark) {
		return nil
	}
	m, err := decodeMessage(*row)
	if err != nil {
		return err
	}
	if _, _, changed := external(m, row.SessionID, least); !changed {
		return nil
	}
	return s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		// Under the Session's lock, and read anew: its owner may have replaced the message meanwhile.
		if _, err := tx.LockSession(ctx, store.System(), row.SessionID); err != nil {
			return err
		}
		now, err := tx.Message(ctx, store.System(), row.ID)
		if err != nil {
			return err
		}
		if m, err = decodeMessage(now); err != nil {
			return err
		}
		m, parts, changed := external(m, row.SessionID, least)
		*row = now
		if !changed {
			return nil
		}
		for _, p := range parts {
			if err := tx.InsertMessagePart(ctx, p); err != nil {
				return err
			}
		}
		row.Data = m.AppendJSON(nil)
		return tx.ReplaceMessageData(ctx, row.ID, row.Data)
	})
}

// messageMoves are the rows of a message that a Run's events fold to.
func (r *run) messageMoves(m agui.Message, now time.Time) []store.Move {
	m, parts, _ := external(m, r.t.s.id, InlinePart)
	moves := make([]store.Move, 0, len(parts)+1)
	for _, p := range parts {
		moves = append(moves, store.InsertPart{Part: p})
	}
	return append(moves, store.UpsertMessage{Message: store.Message{
		ID: newID(), SessionID: r.t.s.id, RunID: r.row.ID, ExternalID: m.ID, Role: m.Role, Output: true,
		Data: m.AppendJSON(nil), CreatedAt: now,
	}})
}

// olderNote tells a client that a snapshot is not all there is, and where the rest can be read.
type olderNote struct {
	Before string   `json:"before,omitempty"` // the oldest message given, for ?before=
	URL    string   `json:"url,omitempty"`    // of the page before it
	Cut    []string `json:"cut,omitempty"`    // ids of messages that are not given whole
}

func (s *Sessions) older(sessionID, before string, cut []string) []agui.Event {
	if before == "" && len(cut) == 0 {
		return nil
	}
	note := olderNote{Cut: cut}
	if before != "" {
		q := url.Values{"format": {"agui"}, "before": {before}}
		note.Before, note.URL = before, strings.TrimSuffix(s.cfg.PublicURL, "/")+partsBefore+sessionID+"/messages?"+q.Encode()
	}
	value, _ := json.Marshal(note) // strings
	return []agui.Event{&agui.Custom{Name: HistoryCut, Value: value}}
}
