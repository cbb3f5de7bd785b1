package main

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// stage is goroutines that end together. Stages end in the opposite order of their
// beginning, so each finds what it needs to the last.
type stage struct {
	ctx    context.Context
	cancel context.CancelFunc
	group  errgroup.Group
	fail   context.CancelCauseFunc
}

// newStage makes a stage whose goroutines run until end, not until the program is asked to
// stop. fail is called when one ends before.
func newStage(ctx context.Context, fail context.CancelCauseFunc) *stage {
	s := &stage{fail: fail}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// failure is why the program had to stop.
type failure struct {
	room string
	err  error
}

func (f *failure) Error() string { return fmt.Sprintf("%s: %v", f.room, f.err) }
func (f *failure) Unwrap() error { return f.err }

// run starts one goroutine.
func (s *stage) run(room string, fn func(context.Context) error) {
	s.group.Go(func() error {
		err := fn(s.ctx)
		if s.ctx.Err() == nil {
			if err == nil {
				err = fmt.Errorf("ended by itself")
			}
			s.fail(&failure{room, err})
		}
		return nil
	})
}

// end stops the stage's goroutines and returns when they have ended.
func (s *stage) end() {
	s.cancel()
	_ = s.group.Wait() // its members report through fail
}
