package channelfeed

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aqueduct/internal/bubbletest"
	"aqueduct/store"
)

// fakeStore is an outbox in memory; nothing else of the store is called.
type fakeStore struct {
	store.Store
	rows    []store.OutboxItem
	done    map[string]bool
	retried []string // the reasons
	claimed bool     // another replica has the row
}

// fakeTx is a transaction of it.
type fakeTx struct {
	store.Tx
	out *fakeStore
}

func (f *fakeStore) InTx(_ context.Context, fn func(store.Tx) error) error {
	before := len(f.rows)
	err := fn(fakeTx{out: f})
	if err != nil {
		f.rows = f.rows[:before]
	}
	return err
}

func (f fakeTx) InsertOutbox(_ context.Context, row store.OutboxItem) error {
	for _, r := range f.out.rows {
		if r.ID == row.ID {
			return store.ErrConflict
		}
	}
	f.out.rows = append(f.out.rows, row)
	return nil
}

func (f *fakeStore) OutboxLanes(context.Context, store.Scope, string) ([]store.OutboxLane, error) {
	return []store.OutboxLane{{Kind: cursorKind, Target: "hook"}}, nil
}

func (f *fakeStore) OutboxDue(_ context.Context, _ store.Scope, lane store.OutboxLane, _ time.Time, _ int) (due []store.OutboxItem, err error) {
	for _, r := range f.rows {
		if !f.done[r.ID] && r.Kind == lane.Kind {
			due = append(due, r)
		}
	}
	return due, nil
}

func (f *fakeStore) OutboxOf(_ context.Context, _ store.Scope, sessionID string) (open []store.OutboxItem, err error) {
	for _, r := range f.rows {
		if !f.done[r.ID] && r.SessionID == sessionID {
			open = append(open, r)
		}
	}
	return open, nil
}

// delivered marks every delivery as done.
func (f *fakeStore) delivered() {
	for _, r := range f.rows {
		if r.Kind == "delivery" {
			f.done[r.ID] = true
		}
	}
}

// cursorOf is a row as session reads it.
func cursorOf(row store.OutboxItem) cursorRow {
	c := cursorRow{row: row}
	c.broken = json.Unmarshal(row.Payload, &c.Cursor) != nil
	return c
}

func (f fakeTx) ClaimOutbox(context.Context, store.OutboxItem, time.Time, time.Time) (bool, error) {
	return !f.out.claimed, nil
}

func (f fakeTx) OutboxDone(_ context.Context, id string, _ time.Time) error {
	f.out.done[id] = true
	return nil
}

func (f fakeTx) OutboxRetry(_ context.Context, _ string, _ time.Time, why string) error {
	f.out.retried = append(f.out.retried, why)
	return nil
}

// open lists what is not done: a cursor by its position, a delivery by its payload.
func (f *fakeStore) open() string {
	var all []string
	for _, r := range f.rows {
		var c Cursor
		switch {
		case f.done[r.ID]:
		case r.Kind == "delivery":
			all = append(all, string(r.Payload))
		case json.Unmarshal(r.Payload, &c) == nil:
			all = append(all, "cursor"+string(rune('0'+c.Seq)))
		}
	}
	return strings.Join(all, " ")
}

// position gives what a test wrote into it, and counts how often it was opened.
type position struct {
	batch Batch
	err   error
	opens int
	at    []int64 // the cursors it was read at
}

func (p *position) Read(_ context.Context, cur Cursor) (Batch, error) {
	p.at = append(p.at, cur.Seq)
	return p.batch, p.err
}

func newRelay(p *position) (*Relay, *fakeStore) {
	f := &fakeStore{done: make(map[string]bool)}
	return New(Config{Store: f, Log: slog.New(slog.DiscardHandler), Kind: "delivery", Open: func(context.Context, Cursor) (Position, error) {
		p.opens++
		return p, nil
	}}), f
}

// If this fails, a webhook gets a part of an answer twice or never, or goes on to be asked for a Turn that is over.
func TestARoundMovesTheCursorWithItsDelivery(t *testing.T) {
	t.Parallel()
	failed := errors.New("the log is away")
	for name, c := range map[string]struct {
		batch     Batch
		err       error
		claimed   bool
		want      string
		retried   int
		forgotten bool // what the position remembers is given up
	}{
		"something to send":        {batch: Batch{Payload: []byte(`"a"`), Seq: 3}, want: `"a" cursor3`},
		"the last of it":           {batch: Batch{Payload: []byte(`"a"`), Seq: 3, Over: true}, want: `"a"`, forgotten: true},
		"an end without a message": {batch: Batch{Over: true}, want: ``, forgotten: true},
		"nothing yet":              {want: `cursor1`, retried: 1},
		"the thread was deleted":   {err: store.ErrNotFound, want: ``, forgotten: true},
		"the log cannot be read":   {err: failed, want: `cursor1`, retried: 1, forgotten: true},
		"another replica has it":   {claimed: true, want: `cursor1`, forgotten: true},
	} {
		p := &position{batch: c.batch, err: c.err}
		r, f := newRelay(p)
		if err := r.Add(t.Context(), "request", Cursor{Channel: "hook", SessionID: "S", TurnID: "t", Seq: 1}); err != nil {
			t.Fatal(err)
		}
		f.claimed = c.claimed
		if err := r.round(t.Context()); (err != nil) != errors.Is(c.err, failed) {
			t.Errorf("%s: %v", name, err)
		}
		if got := f.open(); got != c.want || len(f.retried) != c.retried {
			t.Errorf("%s: the outbox has %q, want %q; given back %q", name, got, c.want, f.retried)
		}
		if (len(r.positions) == 0) != c.forgotten {
			t.Errorf("%s: %d positions are remembered", name, len(r.positions))
		}
	}
}

// If this fails, the log of a Turn is read from its beginning for every half second of an answer.
func TestAPositionIsKeptFromRoundToRound(t *testing.T) {
	t.Parallel()
	p := &position{batch: Batch{Payload: []byte(`"a"`), Seq: 3}}
	r, f := newRelay(p)
	if err := r.Add(t.Context(), "request", Cursor{Channel: "hook", SessionID: "S", Seq: 1}); err != nil {
		t.Fatal(err)
	}
	for seq := range int64(3) {
		p.batch.Seq = 3 + seq
		if err := r.round(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.delivered()
	}
	if p.opens != 1 || len(p.at) != 3 || p.at[0] != 1 || p.at[1] != 3 || p.at[2] != 4 {
		t.Errorf("opened %d times, read at %v", p.opens, p.at)
	}
	if got := f.open(); got != `cursor5` {
		t.Errorf("the outbox has %q", got)
	}
}

// If this fails, a request that a channel repeats makes every message of its answer arrive twice.
func TestAddIsDoneOnce(t *testing.T) {
	t.Parallel()
	r, f := newRelay(&position{})
	for _, add := range []struct{ channel, name string }{{"hook", "a"}, {"hook", "a"}, {"hook", "b"}, {"other", "a"}} {
		if err := r.Add(t.Context(), add.name, Cursor{Channel: add.channel}); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.rows) != 3 || f.rows[0].Kind != cursorKind || f.rows[0].Target != "hook" {
		t.Errorf("the outbox has %+v", f.rows)
	}
}

// If this fails, two replicas of which one was suspended both deliver the same part of an answer.
func TestASlowReplicaWritesNothing(t *testing.T) {
	t.Parallel()
	p := &position{batch: Batch{Payload: []byte(`"a"`), Seq: 3}}
	r, f := newRelay(p)
	if err := r.Add(t.Context(), "request", Cursor{Channel: "hook", SessionID: "S", Seq: 1}); err != nil {
		t.Fatal(err)
	}
	row := f.rows[0]
	if err := r.advance(t.Context(), cursorOf(row)); err != nil {
		t.Fatal(err)
	}
	before := len(f.rows)
	if err := r.advance(t.Context(), cursorOf(row)); err != nil || len(f.rows) != before {
		t.Errorf("a second one wrote %d rows, %v", len(f.rows)-before, err)
	}
}

// If this fails, one broken row of the outbox fails every round for all channels.
func TestACursorThatCannotBeReadIsDropped(t *testing.T) {
	t.Parallel()
	p := &position{}
	r, f := newRelay(p)
	f.rows = []store.OutboxItem{{ID: "broken", Kind: cursorKind, Payload: []byte(`{`)}, {ID: "mail", Kind: "other", Payload: []byte(`{`)}}
	if err := r.round(t.Context()); err != nil || !f.done["broken"] || f.done["mail"] || p.opens != 0 {
		t.Errorf("%v; done are %v", err, f.done)
	}
}

// If this fails, a webhook gets the end of an answer twice when a replica is suspended while it sends it.
func TestTheLastBatchIsWrittenOnce(t *testing.T) {
	t.Parallel()
	r, f := newRelay(&position{batch: Batch{Payload: []byte(`"a"`), Seq: 3, Over: true}})
	if err := r.Add(t.Context(), "request", Cursor{Channel: "hook", SessionID: "S", Seq: 1}); err != nil {
		t.Fatal(err)
	}
	row := f.rows[0]
	for range 2 { // the second as a replica that read the row before the first was done
		if err := r.advance(t.Context(), cursorOf(row)); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.open(); got != `"a"` {
		t.Errorf("the outbox has %q", got)
	}
}

// If this fails, a replica keeps a reader for every batch that another one moved on.
func TestAPositionOfAnotherReplicaIsGivenUp(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		r, f := newRelay(&position{batch: Batch{Payload: []byte(`"a"`), Seq: 3}})
		if err := r.Add(t.Context(), "request", Cursor{Channel: "hook", SessionID: "S", Seq: 1}); err != nil {
			t.Fatal(err)
		}
		if err := r.round(t.Context()); err != nil || len(r.positions) != 1 {
			t.Fatal(len(r.positions), err)
		}
		for _, row := range f.rows {
			f.done[row.ID] = true
		}
		time.Sleep(claimFor + time.Second)
		if err := r.round(t.Context()); err != nil || len(r.positions) != 0 {
			t.Errorf("%d positions are remembered, %v", len(r.positions), err)
		}
	})
}

// If this fails, a receiver gets the end of an answer before its beginning: of two deliveries under way the second may
// arrive first.
func TestOneDeliveryOfASessionIsUnderWay(t *testing.T) {
	t.Parallel()
	p := &position{batch: Batch{Payload: []byte(`"a"`), Seq: 3}}
	r, f := newRelay(p)
	kicked := 0
	r.cfg.Kick = func() { kicked++ }
	for _, c := range []Cursor{{Channel: "hook", SessionID: "S", TurnID: "2", Seq: 1}, {Channel: "hook", SessionID: "S", TurnID: "1", Seq: 1}, {Channel: "hook", SessionID: "T", TurnID: "3", Seq: 1}} {
		if err := r.Add(t.Context(), c.TurnID, c); err != nil {
			t.Fatal(err)
		}
	}
	moved := func() (at []int64) { // the seq of each Turn's cursor
		at = make([]int64, 4)
		for _, row := range f.rows {
			if c := cursorOf(row); row.Kind == cursorKind && !f.done[row.ID] {
				at[c.TurnID[0]-'0'] = c.Seq
			}
		}
		return at[1:]
	}
	look := func(want ...int64) {
		t.Helper()
		if err := r.round(t.Context()); err != nil || !slices.Equal(moved(), want) {
			t.Errorf("the cursors are at %v, want %v; %v", moved(), want, err)
		}
	}
	look(3, 1, 3) // of S the first Turn's alone
	p.batch.Seq = 4
	look(3, 1, 3) // both Sessions have a delivery under way
	f.delivered()
	look(4, 1, 4)
	p.batch.Seq, p.batch.Over = 5, true
	f.delivered()
	look(0, 1, 0) // both are over
	f.delivered()
	p.batch.Over = false
	look(0, 5, 0)
	if kicked != 7 {
		t.Errorf("the outbox was kicked %d times", kicked)
	}
	for i := range f.rows {
		f.rows[i].NextAt = store.NeverDue() // a delivery that was given up blocks no other
	}
	p.batch.Seq = 6
	look(0, 6, 0)
}

// If this fails, a commit is noticed by the next look at all cursors only.
func TestACommitIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		p := &position{}
		r, f := newRelay(p)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var running sync.WaitGroup
		running.Go(func() { r.Run(ctx) })
		defer running.Wait()
		defer cancel()
		if err := r.Add(ctx, "request", Cursor{Channel: "hook", SessionID: "S", TurnID: "1", Seq: 1}); err != nil {
			t.Fatal(err)
		}
		bubbletest.Wait()
		begun := time.Now()
		p.batch = Batch{Payload: []byte(`"a"`), Seq: 3}
		r.Rung("other")
		bubbletest.Wait()
		if len(f.rows) != 1 {
			t.Error("another Session's commit moved the cursor")
		}
		r.Rung("S")
		bubbletest.Wait()
		if len(f.rows) != 3 || time.Since(begun) != 0 {
			t.Errorf("%d rows after %v", len(f.rows), time.Since(begun))
		}
	})
}
