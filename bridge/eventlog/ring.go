package eventlog

import (
	"slices"
	"sync"

	"aqueduct/store"
)

// ringBudget bounds the newest rows of all Sessions together that are held in memory
// for live tails. Who is further behind reads the store.
const ringBudget = 64 << 20

// ringOverhead is about the memory of a row without its data: itself, its places in rows and order with the room that those
// keep to grow, and its part of a Session's entry. Rows of a few words are most rows, and take more than their data.
const ringOverhead = 320

// held returns the bytes that a row counts for.
func held(row store.EventRow) int { return cap(row.Data) + ringOverhead }

// ring holds the newest committed rows of each Session. Rows leave in the order they
// came, whatever Session they are of, so one budget serves all.
type ring struct {
	mu     sync.Mutex
	budget int
	bytes  int
	rows   map[string][]store.EventRow
	heads  map[string]int64 // newest committed position of Sessions that are written here
	order  []string         // the Session of each held row, oldest first
	head   int              // of order
}

func newRing(budget int) *ring {
	return &ring{budget: budget, rows: make(map[string][]store.EventRow), heads: make(map[string]int64)}
}

// publish adds a committed row. It leaves heads alone where the Writer was closed while the commit was in flight:
// another replica may write the Session by now.
func (r *ring) publish(row store.EventRow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, here := r.heads[row.SessionID]; here {
		r.heads[row.SessionID] = row.LastSeq
	}
	r.rows[row.SessionID] = append(r.rows[row.SessionID], row)
	r.order = append(r.order, row.SessionID)
	r.bytes += held(row)
	for r.bytes > r.budget && r.head < len(r.order) {
		r.dropOldest()
	}
	// What has left order is cut off now and then: each time half of it, so a row is copied once on average.
	if r.head > len(r.order)/2 && r.head > 1024 {
		r.order = slices.Clone(r.order[r.head:])
		r.head = 0
	}
}

func (r *ring) dropOldest() {
	session := r.order[r.head]
	r.head++
	rows := r.rows[session]
	r.bytes -= held(rows[0])
	rows[0] = store.EventRow{} // the array stays; its data must not
	if len(rows) == 1 {
		delete(r.rows, session)
		return
	}
	r.rows[session] = rows[1:]
}

// forget drops what is held of a Session that was deleted.
func (r *ring) forget(session string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := r.rows[session]
	if len(gone) == 0 {
		return
	}
	for _, row := range gone {
		r.bytes -= held(row)
	}
	delete(r.rows, session)
	r.order = slices.DeleteFunc(r.order[r.head:], func(s string) bool { return s == session })
	r.head = 0
}

// written notes that the Session is written here from now on, and where its log ends;
// unwritten, that it no longer is.
func (r *ring) written(session string, head int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heads[session] = head
}

func (r *ring) unwritten(session string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.heads, session)
}

// end is where the committed part of the Session's log ends, 0 when that is not known here.
func (r *ring) end(session string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heads[session]
}

// after returns the held rows with events past the position if they join it without a
// hole. known is false when the ring cannot tell whether there are any.
func (r *ring) after(session string, pos int64) (rows []store.EventRow, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Without heads each poll of an idle tail would be a query of the store.
	if head, here := r.heads[session]; here && head <= pos {
		return nil, true
	}
	held := r.rows[session]
	if len(held) == 0 || held[0].FirstSeq() > pos+1 {
		return nil, false
	}
	i := len(held)
	for i > 0 && held[i-1].LastSeq > pos {
		i--
	}
	if i == len(held) {
		return nil, true
	}
	return slices.Clone(held[i:]), true // its caller cuts rows; the data is shared and never changed
}
