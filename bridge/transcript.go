package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"aqueduct/agui"
	"aqueduct/bridge/contextstore"
	"aqueduct/store"
)

// Transcript reads the messages of threads as clients get them.
type Transcript struct {
	store   store.Store
	entries *contextstore.Service // of parts that lie in blobs
	// publicURL is the server's address for people, which URLs of parts begin with, and agentURL that for agents; ""
	// leaves them relative.
	publicURL, agentURL string
}

// newest are the newest messages of a transcript, as many as fit into one frame, or as they were before a Run, with the
// messages that began that Run. The events name what is left out: a MESSAGES_SNAPSHOT replaces what a client has, so a
// second one cannot carry the rest.
// The newest go in first, until the frame is full: what a client needs to go on is at the end.
func (t *Transcript) newest(ctx context.Context, in store.Scope, sessionID string, end until) ([]agui.Message, []agui.Event, error) {
	h := &snapshot{shown: t.shown}
	page := store.Page{Limit: historyLimit, MaxBytes: snapshotBytes}
	for more := true; more; {
		rows, whole, err := t.History(ctx, in, sessionID, "", page, InlinePart)
		if err != nil {
			return nil, nil, err
		}
		for i := len(rows) - 1; i >= 0 && more; i-- {
			row := rows[i]
			if !end.has(&row) {
				continue
			}
			if more, err = h.add(row); err != nil {
				return nil, nil, err
			}
		}
		if whole {
			break
		}
		page.Before = rows[0].ID
	}
	h.dropResults()
	slices.Reverse(h.messages)
	return agui.OrderResults(h.messages), t.older(sessionID, h.before(), h.cut), nil
}

// shown is a message as clients get it: the URLs of its parts begin with the server's public address, where that is known.
// It returns false when nothing changed.
func (t *Transcript) shown(m agui.Message) (agui.Message, bool) {
	if t.publicURL == "" {
		return m, false
	}
	return m.WithSources(func(p *agui.ContentPart) *agui.Source {
		if p.Source.Type != agui.SourceURL || !strings.HasPrefix(p.Source.Value, partsBefore) {
			return nil
		}
		absolute := *p.Source
		absolute.Value = strings.TrimSuffix(t.publicURL, "/") + absolute.Value
		return &absolute
	})
}

// shownAll is shown for a whole transcript; a message that does not change is not copied.
func (t *Transcript) shownAll(messages []agui.Message) []agui.Message {
	out := make([]agui.Message, len(messages))
	for i, m := range messages {
		out[i], _ = t.shown(m)
	}
	return out
}

// History is a page of a transcript, oldest first, as clients get it: without the bytes of parts larger than least. Rows of
// earlier versions, which hold them, are replaced on the way. whole is set when there are no older messages.
// The branch is the one that ends with a Turn, "" for the current one.
// Whether a page is the last is decided by its size and not by a second query: a page that is not full by either bound
// has nothing before it.
func (t *Transcript) History(ctx context.Context, in store.Scope, sessionID, turnID string, page store.Page, least int) (rows []store.Message, whole bool, err error) {
	if turnID == "" {
		rows, err = t.store.Messages(ctx, in, sessionID, page)
	} else {
		rows, err = t.store.BranchMessages(ctx, in, sessionID, turnID, page)
	}
	if err != nil {
		return nil, false, err
	}
	size := 0
	for i := range rows {
		size += len(rows[i].Data)
		if err := t.externalize(ctx, &rows[i], least); err != nil {
			return nil, false, err
		}
		if !bytes.Contains(rows[i].Data, urlMark) {
			continue
		}
		m, err := decodeMessage(rows[i])
		if err != nil {
			return nil, false, err
		}
		m, _ = t.shown(m)
		rows[i].Data = m.AppendJSON(nil) // rows of earlier versions have addresses that no reader may follow
	}
	return rows, len(rows) < page.Size() && (page.MaxBytes == 0 || size < page.MaxBytes), nil
}

// transcriptParts bounds the bytes of stored parts that an Agent gets with one page, the newest first. It is less than a
// call's, because pages can be asked for as often as wanted.
const transcriptParts = 16 << 20

// WithParts gives messages with the bytes of the parts that they name by our URLs, as Agents take them. What is large, or does not
// fit, is a URL that the Agent's token opens.
func (t *Transcript) WithParts(ctx context.Context, sessionID string, messages []agui.Message) ([]agui.Message, error) {
	l := &partLoader{store: t.store, entries: t.entries, base: t.agentURL, sessionID: sessionID, room: transcriptParts, loaded: make(map[string]*agui.Source)}
	return l.fill(ctx, messages)
}

// dataMark is in every message that holds a part's bytes.
var dataMark = []byte(`"type":"data"`)

// urlMark is in every message that names a part by an address.
var urlMark = []byte(`"type":"url"`)

// externalize moves large parts out of a row that holds them.
// Versions before parts had rows of their own kept everything in the message. Each such row is replaced the first time
// it is read, so that no migration has to rewrite a whole table at a start.
func (t *Transcript) externalize(ctx context.Context, row *store.Message, least int) error {
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
	return t.store.InTx(ctx, func(tx store.Tx) error {
		// The row is read again under the Session's lock: its owner may have replaced the message meanwhile.
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

// olderNote is the value of the CUSTOM event for a snapshot that leaves messages out, and names where they can be read.
type olderNote struct {
	Before string   `json:"before,omitempty"` // the oldest message given, for ?before=
	URL    string   `json:"url,omitempty"`    // of the page before it
	Cut    []string `json:"cut,omitempty"`    // ids of messages that are not given whole
}

// older are the events that name what a snapshot leaves out; none when it is whole.
func (t *Transcript) older(sessionID, before string, cut []string) []agui.Event {
	if before == "" && len(cut) == 0 {
		return nil
	}
	note := olderNote{Cut: cut}
	if before != "" {
		q := url.Values{"format": {"agui"}, "before": {before}}
		note.Before, note.URL = before, strings.TrimSuffix(t.publicURL, "/")+partsBefore+sessionID+"/messages?"+q.Encode()
	}
	value, _ := json.Marshal(note) // strings
	return []agui.Event{&agui.Custom{Name: HistoryCut, Value: value}}
}
