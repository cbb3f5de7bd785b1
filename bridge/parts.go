// This file keeps large parts of messages (pictures, files) apart from them. On the way in their bytes become rows or
// blobs of the Session (keepParts), and the message holds a URL; on the way to an Agent the bytes come back (partLoader).
// The hash of the bytes is a part's name, so the same picture is kept once in a Session. Parts are copied between threads
// and never shared, because each is deleted with its thread.

package bridge

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/contextstore"
	"aqueduct/internal/fault"
	"aqueduct/internal/retry"
	"aqueduct/store"
)

const (
	// InlinePart is the size in bytes up to which a part stays in its message. Larger ones are kept once a Session, and
	// messages hold their URL: a snapshot of a thread with pictures would else be larger than clients can read.
	InlinePart = 64 << 10
	// agentParts bounds the bytes of stored parts that one call of an Agent gets, the newest first; of what is older it
	// gets the URLs. All of a call is in memory at once.
	agentParts = 64 << 20

	// agentPart is the size up to which a part is in an Agent's call. A larger one is a URL there, which the Agent reads with its
	// token: it stays in memory for as long as the call lasts, and base64 makes it a third larger.
	agentPart = 4 << 20

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
		// The size by the length of the text is never too small, and spares most parts the decoding.
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
func (th *thread) keepParts(ctx context.Context, m agui.Message) (agui.Message, error) {
	m, err := th.attach(ctx, m)
	if err != nil {
		return m, err
	}
	m, parts, _ := external(m, th.session.ID, InlinePart)
	var failed error
	m, _ = m.WithSources(func(p *agui.ContentPart) *agui.Source {
		thread, sum, ok := partOf(p.Source.Value)
		if !ok || p.Source.Type != agui.SourceURL || failed != nil {
			return nil
		}
		own := &agui.Source{Type: agui.SourceURL, Value: partPath(th.session.ID, sum), MimeType: p.Source.MimeType}
		if thread == th.session.ID || thread == th.session.ExternalID {
			return own
		}
		part, err := th.partElsewhere(ctx, thread, sum)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err == nil && part.BlobID != "" {
			failed = th.copyBlob(ctx, part)
			return own
		}
		failed = err
		part.SessionID = th.session.ID
		parts = append(parts, part)
		return own
	})
	for _, p := range parts {
		if failed == nil {
			failed = th.tx.InsertMessagePart(ctx, p)
		}
	}
	if failed == nil && slices.ContainsFunc(m.Content.Parts, func(p agui.ContentPart) bool { return !p.Followed() }) {
		failed = fault.New(RefusedPartURL, "A part of the message has an address that is not http or https, or has a user, a control character or a backslash in it.")
	}
	return m, failed
}

// RefusedPartURL: a part of a message has an address that no reader may follow.
const RefusedPartURL = "part_url_refused"

// attach gives a new message the parts that its attachments become. An agent's message for the agent that it calls keeps
// what it names: the user's entries are not the agent's to hand on.
func (th *thread) attach(ctx context.Context, m agui.Message) (agui.Message, error) {
	if th.req.parent != nil {
		return m, nil
	}
	var missing unattached
	var failed error
	m, _ = m.WithSources(func(p *agui.ContentPart) *agui.Source {
		key, _, ok := attachmentOf(p.Source)
		if !ok || failed != nil {
			return nil
		}
		a, read := th.req.attached[key]
		if !read {
			missing.keys = append(missing.keys, key)
			return nil
		}
		if a == nil { // a handle of a provider's that looks like one of ours
			return nil
		}
		part, err := a.Keep(ctx, th.tx, th.session.ID)
		if failed = err; err != nil {
			return nil
		}
		source := &agui.Source{Type: agui.SourceURL, Value: partPath(th.session.ID, part.SHA256), MimeType: p.Source.MimeType}
		if source.MimeType == "" {
			source.MimeType = part.MimeType
		}
		return source
	})
	if failed == nil && len(missing.keys) > 0 {
		failed = &missing
	}
	return m, failed
}

// copyBlob gives the thread a part of another thread, with a blob of its own: each is deleted with its thread.
func (th *thread) copyBlob(ctx context.Context, part store.MessagePart) error {
	a := th.req.attached[part.SHA256]
	if a == nil {
		return &unattached{parts: []store.MessagePart{part}}
	}
	_, err := a.Keep(ctx, th.tx, th.session.ID)
	return err
}

// partElsewhere reads a part of another thread of the same user's.
// The scope is the caller's: by the System scope a message could name any user's part and have it copied. An agent that calls
// another one hands on what its own thread has, and nothing else of its user's.
func (th *thread) partElsewhere(ctx context.Context, thread, sum string) (store.MessagePart, error) {
	who := store.As(th.req.Principal)
	if s, err := th.tx.SessionByExternalID(ctx, who, thread); err == nil {
		thread = s.ID
	} else if !errors.Is(err, store.ErrNotFound) {
		return store.MessagePart{}, err
	}
	if p := th.req.parent; p != nil {
		if thread != p.session.ID {
			return store.MessagePart{}, store.ErrNotFound
		}
		if err := readsPart(ctx, th.tx, p.turn, sum, p.transcript); err != nil {
			return store.MessagePart{}, err
		}
	}
	return th.tx.MessagePart(ctx, who, thread, sum)
}

// partsPage is how many messages are read at a time to find the one that names a part: mostly it is the newest.
const partsPage = 64

// readsPart returns nil for an Agent whose Turn was called with a message that names the part, store.ErrNotFound for any other.
// The messages are those of gather: the newest ones of the Turn's branch, without the prompts that wait for another Turn.
// So a token of another Turn of the same thread does not read a file that came later, or for another branch.
func readsPart(ctx context.Context, from store.Reader, turn store.Turn, sum string, transcript int) error {
	reserved, err := from.ReservedRuns(ctx, store.System(), turn.SessionID)
	if err != nil {
		return err
	}
	name := []byte(partsBehind + sum)
	for before, left := "", transcript; left > 0; left -= partsPage {
		page, err := from.BranchMessages(ctx, store.System(), turn.SessionID, turn.ID, store.Page{Before: before, Limit: min(left, partsPage)})
		if err != nil {
			return err
		}
		for _, m := range slices.Backward(page) {
			waits := func(r store.Run) bool { return r.ID == m.RunID && r.TurnID != turn.ID }
			if bytes.Contains(m.Data, name) && !slices.ContainsFunc(reserved, waits) {
				return nil
			}
		}
		if len(page) < partsPage {
			break
		}
		before = page[0].ID
	}
	return store.ErrNotFound
}

// partLoader gives messages the bytes of their parts, each part once.
type partLoader struct {
	store     store.Store
	entries   *contextstore.Service // nil without a context store: then no part lies in a blob
	base      string                // where the Agent reaches us; "" leaves URLs as paths
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

// load is a part as a source that holds its bytes, or as the URL by which the Agent reads it when it is large or there is no room for it;
// nil when there is no such part.
func (l *partLoader) load(ctx context.Context, sum, mimeType string) (*agui.Source, error) {
	source, seen := l.loaded[sum]
	if seen {
		return source, nil
	}
	linked := &agui.Source{Type: agui.SourceURL, Value: l.base + partPath(l.sessionID, sum), MimeType: mimeType}
	if l.room <= 0 {
		return linked, nil
	}
	var part store.MessagePart
	err := retry.While(ctx, isAway, func() (err error) {
		if part, err = l.store.MessagePart(ctx, store.System(), l.sessionID, sum); err == nil && part.BlobID != "" && part.BlobSize <= agentPart {
			part.Data, err = l.blob(ctx, part)
		}
		return err
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	switch {
	case err != nil:
	case part.BlobSize > agentPart:
		linked.MimeType = cmp.Or(mimeType, part.MimeType)
		source = linked
	default:
		// How long a part is shows only when it was read, so the room may be passed by one part.
		l.room -= len(part.Data)
		source = agui.DataSource(part.Data, cmp.Or(mimeType, part.MimeType))
	}
	l.loaded[sum] = source
	return source, nil
}

// blob reads a part that lies in a blob.
func (l *partLoader) blob(ctx context.Context, part store.MessagePart) ([]byte, error) {
	from, err := l.entries.Part(ctx, part, true)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(from)
	return data, errors.Join(err, from.Close())
}

// PromptReader is an Agent that reads the parts of its prompt only: those of the messages before are not loaded for it.
type PromptReader interface{ ReadsPromptOnly() }

// messageMoves are the rows of a message that a Run's events fold to.
func messageMoves(run store.Run, m agui.Message, now time.Time) []store.Move {
	m, parts, _ := external(m, run.SessionID, InlinePart)
	moves := make([]store.Move, 0, len(parts)+1)
	for _, p := range parts {
		moves = append(moves, store.InsertPart{Part: p})
	}
	return append(moves, store.UpsertMessage{Message: store.Message{
		ID: newID(), SessionID: run.SessionID, RunID: run.ID, ExternalID: m.ID, Role: m.Role, Output: true,
		Data: m.AppendJSON(nil), CreatedAt: now,
	}})
}
