package bridge

import (
	"container/list"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/store"
)

const (
	// historyBudget bounds the transcripts of all Sessions together that are kept in memory.
	// The Session that was used longest ago leaves first, and is read again when it is used.
	historyBudget = 64 << 20
	// historyOverhead is about what a message takes beside its bytes, which are held twice: as
	// they are kept, and read.
	historyOverhead = 1024
	// historyOverlap is how far before the newest known message new ones are looked for. Ids are
	// made before they are committed, and by replicas whose clocks differ.
	historyOverlap = 2 * time.Minute
)

// pastMessage is one entry of a transcript: the row without its data, and the data read once.
type pastMessage struct {
	row     store.Message // Data is the message as it is kept
	message agui.Message
}

// transcripts keeps the newest messages of Sessions that are driven here, so that a prompt
// reads only what has come since the one before. Messages leave the current branch only for a
// Turn that begins another, which drops the transcript before it reads it; one that is replaced
// is the owner's own doing, of which replaced notifies it.
//
// take removes an entry and put returns it, so that two goroutines never hold the same one: of a Session only its
// owner asks, but deletion and the budget come from others.
type transcripts struct {
	store  pages
	budget int

	mu    sync.Mutex
	bytes int
	byID  map[string]*list.Element // of *transcript, by Session
	used  *list.List               // newest first
}

type transcript struct {
	sessionID string
	bytes     int
	past      []pastMessage   // in order
	ids       map[string]bool // of the clients' and agents' own naming
}

// pages is what transcripts are read from.
type pages interface {
	Messages(ctx context.Context, in store.Scope, sessionID string, page store.Page) ([]store.Message, error)
}

func newTranscripts(s pages, budget int) *transcripts {
	return &transcripts{store: s, budget: budget, byID: make(map[string]*list.Element), used: list.New()}
}

// of is the newest messages of a Session, oldest first. They are not to be changed, and good
// until the next call for the Session, which is the owner's goroutine's alone.
func (c *transcripts) of(ctx context.Context, sessionID string, limit int) ([]pastMessage, error) {
	t := c.take(sessionID)
	if t != nil {
		grown, err := c.grow(ctx, t, limit)
		if err != nil {
			return nil, err
		}
		if !grown {
			t = nil
		}
	}
	if t == nil {
		rows, err := c.store.Messages(ctx, store.System(), sessionID, store.Page{Limit: limit})
		if err != nil {
			return nil, err
		}
		t = &transcript{sessionID: sessionID, ids: make(map[string]bool, len(rows))}
		if err := t.add(rows); err != nil {
			return nil, err
		}
	}
	t.trim(limit)
	c.put(t)
	return t.past, nil
}

// grow adds what has come since; false when the Session has to be read anew.
// It reads a little of what it has again. Ids are UUIDv7, whose order is the clock's, and the clocks of two replicas
// may be apart.
func (c *transcripts) grow(ctx context.Context, t *transcript, limit int) (bool, error) {
	if len(t.past) == 0 {
		return false, nil
	}
	after, ok := idBefore(t.past[len(t.past)-1].row.ID, historyOverlap)
	if !ok {
		return false, nil
	}
	rows, err := c.store.Messages(ctx, store.System(), t.sessionID, store.Page{After: after, Limit: limit})
	// A full page may begin behind messages that are missing here.
	if err != nil || len(rows) >= limit {
		return false, err
	}
	return true, t.add(rows)
}

// add puts rows that are not known yet in their places.
func (t *transcript) add(rows []store.Message) error {
	past := t.past
	for _, row := range rows {
		at, known := slices.BinarySearchFunc(past, row.ID, func(p pastMessage, id string) int { return strings.Compare(p.row.ID, id) })
		if known {
			continue
		}
		p := pastMessage{row: row}
		if err := json.Unmarshal(row.Data, &p.message); err != nil {
			return err
		}
		p.message.Kept(row.Data)
		past = slices.Insert(past, at, p)
		t.ids[row.ExternalID] = true
		t.bytes += p.size()
	}
	t.past = past
	return nil
}

func (p *pastMessage) size() int { return 2*len(p.row.Data) + historyOverhead }

// trim keeps the newest.
func (t *transcript) trim(limit int) {
	for len(t.past) > limit {
		t.bytes -= t.past[0].size()
		delete(t.ids, t.past[0].row.ExternalID)
		t.past = t.past[1:]
	}
}

// take gives up a transcript to its Session's owner, nil when there is none.
func (c *transcripts) take(sessionID string) *transcript {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byID[sessionID]
	if e == nil {
		return nil
	}
	return c.remove(e)
}

func (c *transcripts) remove(e *list.Element) *transcript {
	t := c.used.Remove(e).(*transcript)
	delete(c.byID, t.sessionID)
	c.bytes -= t.bytes
	return t
}

// put keeps a transcript, and lets go of those used longest ago.
func (c *transcripts) put(t *transcript) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byID[t.sessionID]; e != nil {
		c.remove(e)
	}
	c.byID[t.sessionID] = c.used.PushFront(t)
	c.bytes += t.bytes
	// One that is larger than the whole budget leaves at once, and is read anew each time.
	for c.bytes > c.budget {
		c.remove(c.used.Back())
	}
}

// lacks reports whether a Session's transcript is in memory and does not contain the message of an external id.
func (c *transcripts) lacks(sessionID, externalID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byID[sessionID]
	return e != nil && !e.Value.(*transcript).ids[externalID]
}

// drop forgets a Session: another replica may have written to it.
func (c *transcripts) drop(sessionID string) { c.take(sessionID) }

// replaced is called with everything that a Session's owner is about to commit. A message of a new
// name is found by the next read; one whose name is known is replaced, and read anew.
func (c *transcripts) replaced(sessionID string, moves []store.Move) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byID[sessionID]
	if e == nil {
		return
	}
	for _, m := range moves {
		if u, ok := m.(store.UpsertMessage); ok && e.Value.(*transcript).ids[u.Message.ExternalID] {
			c.remove(e)
			return
		}
	}
}

// idBefore is the lowest id that is made a span before another was; false when the id does
// not tell when it was made.
func idBefore(id string, span time.Duration) (string, bool) {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 {
		return "", false
	}
	// A UUIDv7 begins with 48 bits of Unix milliseconds, the most significant first. The other bits of the result
	// stay zero, so that it sorts before every id of its millisecond.
	var ms int64
	for _, b := range u[:6] {
		ms = ms<<8 | int64(b)
	}
	ms = max(0, ms-span.Milliseconds())
	var before uuid.UUID
	for i := range 6 {
		before[5-i] = byte(ms >> (8 * i))
	}
	return before.String(), true
}

// gather takes from a transcript what the Agent of a Turn is given, and which of it began the
// Run and the Turn.
//
// Ids grow with time and a Turn has the id of its first Run, so a greater one is that of a Turn made later. waiting are
// the Runs of Turns that wait, for a Turn whose id is older than its beginning; nil for any other.
func (c *Call) gather(past []pastMessage, runID, turnID string, waiting map[string]bool) (fresh []agui.Message) {
	c.Messages = make([]agui.Message, 0, len(past))
	for i := range past {
		row, m := &past[i].row, past[i].message
		later := waiting[row.RunID] || waiting == nil && row.RunID > turnID
		if row.Role == agui.RoleUser && !row.Output && later {
			continue // waits for a later Turn, though it may have come before this Run
		}
		c.Messages = append(c.Messages, m)
		if !row.Output && row.RunID == runID {
			fresh = append(fresh, m)
		}
		if !row.Output && row.RunID == turnID { // a Turn's id is its first Run's
			c.Prompt = append(c.Prompt, m)
		}
	}
	c.Prompt = promptOf(c.Prompt)
	c.Messages = agui.OrderResults(c.Messages)
	return fresh
}
