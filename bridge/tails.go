package bridge

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"aqueduct/agui"
	"aqueduct/internal/retry"
	"aqueduct/store"
)

const (
	// tailsKept bounds for how many Runs it is remembered what was delivered of them; the oldest leaves first. Only an
	// open tail keeps its Run beyond that.
	tailsKept = 4096
	// tailAgain is the pause before it is written again which replicas tail a Run, after it failed.
	tailAgain = time.Second
)

// tails counts the responses of this replica that tail each Run: those of a POST or a connect, and the tail of one Run.
// Who only watches a thread, a page's hints or a channel, is not among them: closing the response is how every client
// asks for "Stop", and a watcher stays.
//
// The other replicas read Run.Tails. It is written with the Run for the response of the POST that named it, so that the
// store is written to again only when the last tail here leaves before the Run's end, or a first one comes.
type tails struct {
	store   store.Store
	replica string
	start   func(func(ctx context.Context)) bool // runs what outlives a response; false when this replica is stopping

	mu      sync.Mutex
	runs    map[string]*tailed
	order   []string // of runs, oldest first
	waiting map[string][]chan struct{}
}

// tailed is what is known here of one Run.
// stated and writing belong to the row: stated is what it names, writing that a goroutine is about to change that.
type tailed struct {
	sessionID string
	turnID    string
	n         int  // open tails
	stated    bool // Run.Tails names this replica
	writing   bool
	ended     bool // the Run is over
	spoke     bool // a message of the Run's was delivered
	over      bool // its terminal event was delivered
	giving    int  // responses that are writing one of these
}

func newTails(st store.Store, replica string, start func(func(ctx context.Context)) bool) *tails {
	return &tails{store: st, replica: replica, start: start, runs: make(map[string]*tailed), waiting: make(map[string][]chan struct{})}
}

// enter counts one more tail of the Run.
func (l *tails) enter(run store.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.runs[run.ID]
	if r == nil {
		// The row may name this replica already: it is written with the Run, for the response of the POST that made
		// it.
		r = &tailed{sessionID: run.SessionID, turnID: run.TurnID, stated: strings.Contains(run.Tails, l.replica+" ")}
		l.runs[run.ID] = r
		l.order = append(l.order, run.ID)
		l.trim()
	}
	r.n++
	l.state(run.ID, r)
}

// leave counts one tail less. ended is set when it was there to the Run's end.
// A Run that has ended needs no correction of its row: it is not looked at any more.
func (l *tails) leave(runID string, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.runs[runID]
	if r == nil {
		return
	}
	r.ended = r.ended || ended
	if r.n--; r.n > 0 {
		return
	}
	for _, ch := range l.waiting[r.sessionID] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
	l.state(runID, r)
}

// state has Run.Tails say what is so, by one goroutine a Run: two writes at once could land in the wrong order.
func (l *tails) state(runID string, r *tailed) {
	if r.writing || r.ended || r.stated == (r.n > 0) || l.start == nil {
		return
	}
	r.writing = l.start(func(ctx context.Context) { l.keepStating(ctx, runID, r) })
}

func (l *tails) keepStating(ctx context.Context, runID string, r *tailed) {
	for {
		l.mu.Lock()
		there := r.n > 0
		// writing is cleared under the lock under which nothing was found to write: a tail that comes or leaves after
		// this starts another goroutine, one that came before was seen.
		if r.stated == there || r.ended || ctx.Err() != nil {
			r.writing = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		if err := l.write(ctx, runID, there); err != nil {
			_ = retry.Sleep(ctx, tailAgain) // the loop ends with ctx
			continue
		}
		l.mu.Lock()
		r.stated = there
		l.mu.Unlock()
	}
}

// trim forgets the oldest Runs that nothing tails. Of those that are tailed the oldest moves to the end.
func (l *tails) trim() {
	for range len(l.order) - tailsKept {
		id := l.order[0]
		l.order = l.order[1:]
		if r := l.runs[id]; r.n > 0 || r.writing {
			l.order = append(l.order, id)
			continue
		}
		delete(l.runs, id)
	}
}

// delivery is what a response gives of a Run: its first message, or its terminal event.
type delivery struct {
	runID string
	over  bool
}

// beginDelivery notes what a response is about to write. A client may have read it, and asked again, before the response knows
// that it was written.
// It is noted before the write and corrected after it. A quick client can have read the last event, and posted again,
// while the response has yet to learn that its write succeeded; a regenerate would be taken for a lost connection.
func (l *tails) beginDelivery(giving []delivery) {
	if len(giving) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range giving {
		if r := l.runs[d.runID]; r != nil {
			r.giving++
		}
	}
}

// endDelivery notes whether what beginDelivery announced was written.
func (l *tails) endDelivery(given []delivery, delivered bool) {
	if len(given) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range given {
		if r := l.runs[d.runID]; r != nil {
			r.giving--
			r.spoke, r.over = r.spoke || delivered && !d.over, r.over || delivered && d.over
		}
	}
}

// sent is what was delivered here of a Turn, or is being written: known is false when no response here was ever at it.
func (l *tails) sent(turnID string) (spoke, over, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.runs {
		if r.turnID == turnID {
			spoke, over, known = spoke || r.spoke || r.giving > 0, over || r.over, true
		}
	}
	return spoke, over, known
}

// tailing reports whether a response here tails the Run. known is false for a Run that none has ever tailed: the POST
// that made it may be about to.
func (l *tails) tailing(runID string) (is, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.runs[runID]
	return r != nil && r.n > 0, r != nil
}

// changes gives a channel that is rung when a Run of the Session has lost its last tail here.
// The channel has one place and may ring for nothing; its receiver looks at the rows.
func (l *tails) changes(sessionID string) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[sessionID] = append(l.waiting[sessionID], ch)
	return ch, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		rest := slices.DeleteFunc(l.waiting[sessionID], func(c chan struct{}) bool { return c == ch })
		if l.waiting[sessionID] = rest; len(rest) == 0 {
			delete(l.waiting, sessionID)
		}
	}
}

// write keeps whether this replica has a tail of the Run.
func (l *tails) write(ctx context.Context, runID string, there bool) error {
	return l.store.InTx(ctx, func(tx store.Tx) error { return tx.SetRunTail(ctx, runID, l.replica, there) })
}

// of is the Tails of a Run that a request makes: its response is about to tail it.
func (l *tails) of(req ChatRequest) string {
	if req.Channel || req.Callback {
		return store.TailedByChannel
	}
	return l.replica + " "
}

// joinTails counts the Feed among the tails of a Run that is not over.
func (f *Feed) joinTails(run store.Run) {
	if run.ID == "" || run.LastSeq > 0 {
		return
	}
	f.tailed = append(f.tailed, run.ID)
	f.from.tails.enter(run)
}

// leaveTails ends that, for the Run the Feed is at or for all.
func (f *Feed) leaveTails(runID string, ended bool) {
	f.tailed = slices.DeleteFunc(f.tailed, func(id string) bool {
		if runID != "" && id != runID {
			return false
		}
		f.from.tails.leave(id, ended)
		return true
	})
}

// joinTailsOfNext is joinTails for a further Run of the Turn that is followed, which its RUN_STARTED names.
func (f *Feed) joinTailsOfNext(ctx context.Context, started []byte) error {
	ev, err := agui.Decode(started)
	if err != nil {
		return err
	}
	return retry.While(ctx, isAway, func() error {
		run, err := f.from.store.RunByExternalID(ctx, f.in, f.session.ID, ev.(*agui.RunStarted).RunID)
		if errors.Is(err, store.ErrNotFound) {
			return nil // the thread was deleted
		}
		if err == nil {
			f.at, f.spoke = run.ID, false
			f.joinTails(run)
		}
		return err
	})
}

// observe notes what of its Run the Feed is about to give: it is delivered when the next is asked for.
func (f *Feed) observe(event []byte) {
	if f.spoke || f.at == "" {
		return
	}
	switch agui.TypeOf(event) {
	case agui.TypeTextMessageStart, agui.TypeToolCallStart:
		f.spoke = true
		f.giving = append(f.giving, delivery{runID: f.at})
	}
}

// leaveRun is called with the terminal event of the Run the Feed is at.
func (f *Feed) leaveRun() {
	if f.at != "" {
		f.giving = append(f.giving, delivery{runID: f.at, over: true})
		f.leaveTails(f.at, true)
		f.at = ""
	}
}
