package eventlog

import (
	"context"
	"slices"

	"aqueduct/store"
)

// maxNoteBytes is how much all Notes together may have waiting for a commit. Past it Note
// blocks: the store stalls.
const maxNoteBytes = 4 << 20

// notes are the Records that wait for the next commit beside what Writers append.
type notes struct {
	parts []*part
	bytes int
	room  chan struct{} // closed when they are taken; nil until a sender waits
}

// take hands them over and wakes who waited for room.
func (n *notes) take() []*part {
	parts := n.parts
	if n.room != nil {
		close(n.room)
	}
	*n = notes{}
	return parts
}

// Note has the next commit keep Records of any Sessions, also of those that another replica writes. One without
// an AtSeq gets the end of its Session's log where that is known. It blocks while too much
// waits. kept, unless nil, is called by the committer after the commit and must be quick;
// Records that the store refuses are dropped, and kept is then not called.
func (l *Log) Note(ctx context.Context, records []store.Record, kept func()) error {
	p := &part{records: l.placed(records)}
	if kept != nil {
		p.kept = []func(){kept}
	}
	for {
		room, err := l.tryNote(p)
		if room == nil {
			return err
		}
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Keep has a commit keep Moves and Records of a Session, also one that another replica writes, and waits for
// it: the next one, which is then not put off. It tells which Moves were lost as
// Writer.Keep does. One that ctx ended may be kept all the same. No tail is woken: nothing
// came into the log.
func (l *Log) Keep(ctx context.Context, sessionID string, moves []store.Move, records []store.Record) (lost []int, err error) {
	p := &part{row: store.EventRow{SessionID: sessionID}, moves: moves, records: l.placed(records), done: make(chan struct{})}
	if err := l.urge(p); err != nil {
		return nil, err
	}
	return Submitted{p, 0, len(moves)}.Wait(ctx)
}

// urge queues a part that a caller waits for. It is not counted: its sender sends no other
// meanwhile.
func (l *Log) urge(p *part) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal != nil {
		return l.fatal
	}
	l.notes.parts = append(l.notes.parts, p)
	l.urgent.Ring()
	l.wake.Ring()
	return nil
}

// tryNote queues a part, or gives what to wait for.
func (l *Log) tryNote(p *part) (room <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal != nil {
		return nil, l.fatal
	}
	if l.notes.bytes > maxNoteBytes {
		if l.notes.room == nil {
			l.notes.room = make(chan struct{})
		}
		return l.notes.room, nil
	}
	l.notes.parts = append(l.notes.parts, p)
	l.notes.bytes += p.recordBytes()
	l.wake.Ring()
	return nil, nil
}

// placed is a copy of the Records with the positions filled in: of those of Sessions that are written here. The position
// is the newest that is committed, so a Record never points at an event that may be lost.
func (l *Log) placed(records []store.Record) []store.Record {
	placed := slices.Clone(records)
	for i := range placed {
		if placed[i].AtSeq == 0 {
			placed[i].AtSeq = l.ring.end(placed[i].SessionID)
		}
	}
	return placed
}

// recordBytes is about what the part holds in memory.
func (p *part) recordBytes() int {
	n := 0
	for _, r := range p.records {
		n += len(r.ID) + len(r.SessionID) + len(r.TurnID) + len(r.Type) + len(r.Payload)
	}
	return n
}

// sessionID is whose the part is, for the log.
func (p *part) sessionID() string {
	if p.row.SessionID == "" && len(p.records) > 0 {
		return p.records[0].SessionID
	}
	return p.row.SessionID
}
