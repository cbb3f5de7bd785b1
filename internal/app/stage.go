// This file starts goroutines in levels and ends them in reverse. It knows nothing of what runs.

package app

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
)

// Part is something that runs for as long as the server does. Run returns when its context ends; a Part that returns
// before that ends the server.
type Part struct {
	Name string
	Run  func(context.Context) error
}

// Failure is the reason why a server ended without being asked to. Err is what the Part returned, or that it ended by
// itself without an error.
type Failure struct {
	Part string // its name
	Err  error
}

// Error implements error.
func (f *Failure) Error() string { return f.Part + ": " + f.Err.Error() }

// Unwrap returns the error of the Part.
func (f *Failure) Unwrap() error { return f.Err }

var errEndedByItself = errors.New("ended by itself")

// stage is goroutines that end together. Stages end in the opposite order of their start, so that each finds what it
// depends on until its own last step. The group reports no errors: the first failure of any stage goes to fail, which
// ends the whole server.
type stage struct {
	ctx    context.Context
	cancel context.CancelFunc
	group  errgroup.Group
	fail   context.CancelCauseFunc
}

// newStage makes a stage whose goroutines run until end is called, not until ctx ends: by then the stages above may
// still need them. fail is called when one of them returns before.
func newStage(ctx context.Context, fail context.CancelCauseFunc) *stage {
	s := &stage{fail: fail}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// run starts one goroutine. What a Part returns after end was called is not looked at: it was asked to stop.
func (s *stage) run(p Part) {
	s.group.Go(func() error {
		err := p.Run(s.ctx)
		if s.ctx.Err() == nil {
			if err == nil {
				err = errEndedByItself
			}
			s.fail(&Failure{p.Name, err})
		}
		return nil
	})
}

// end stops the stage's goroutines and returns when all of them have returned.
func (s *stage) end() {
	s.cancel()
	_ = s.group.Wait() // they report through fail
}
