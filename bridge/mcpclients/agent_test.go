package mcpclients

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/internal/bubbletest"
	"aqueduct/store"
)

// rows is a store that has the calls of one Turn.
type rows struct {
	store.Reader
	mu            sync.Mutex
	all, underWay int
	err           error
}

// one adds a call that has ended.
func (r *rows) one() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all++
}

func (r *rows) CountToolCalls(context.Context, store.Scope, string) (all, underWay int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all, r.underWay, r.err
}

// TestTurnLastsAsLongAsItsCalls: a Turn is open while a call is under way, whatever it waits for, also while the store is away;
// it ends a moment after the last one, or when it is cancelled.
func TestTurnLastsAsLongAsItsCalls(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		st := &rows{}
		next := func(turn bridge.Turn) (ended bool, after time.Duration) {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			out, err := turn.Next(ctx)
			return err == nil && len(out) == 1 && out[0].End != nil, time.Since(began)
		}
		start := func() bridge.Turn {
			turn, err := New(st).Start(t.Context(), bridge.Call{TurnID: "T"})
			if err != nil {
				t.Fatal(err)
			}
			return turn
		}
		if ended, after := next(start()); !ended || after < idleTime || after > idleTime+2*lookEvery {
			t.Errorf("without calls: %v after %s", ended, after)
		}
		st.all, st.underWay = 2, 1
		turn := start()
		if ended, _ := next(turn); ended {
			t.Error("it ended although a call is under way")
		}
		st.underWay = 0
		time.AfterFunc(idleTime/2, st.one) // one that began and ended between two looks
		if ended, after := next(turn); !ended || after < idleTime*3/2-2*lookEvery || after > idleTime*3/2+2*lookEvery {
			t.Errorf("after a call: %v after %s", ended, after)
		}
		st.err = errors.New("away")
		turn = start()
		if ended, _ := next(turn); ended {
			t.Error("it ended although the store is away")
		}
		if err := errors.Join(turn.Cancel(t.Context()), turn.Cancel(t.Context())); err != nil {
			t.Error(err)
		}
		if ended, after := next(turn); !ended || after != 0 {
			t.Errorf("cancelled: %v after %s", ended, after)
		}
	})
}
