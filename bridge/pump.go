package bridge

import (
	"context"
	"errors"
	"sync"
	"time"
)

// pumpDepth is how many batches may wait between an upstream and its Session. It fills
// only while the store stalls, and then reading stops: everybody waits for the store.
const pumpDepth = 16

// batch is what one Next gave.
type batch struct {
	outputs []Output
	err     error
	marker  Marker // of the upstream, if it is one
	opened  bool   // the upstream has been taken up again
}

// pump is the one goroutine that reads an upstream.
type pump struct {
	frames chan batch
	cancel context.CancelFunc
	done   chan struct{}
	spoke  bool // something was read of it, or waited for; the Session's goroutine alone

	mu sync.Mutex
	up Turn
}

// startPump opens an upstream and reads it until its End, an error, or stop. With announce its first batch says that it
// is open.
func startPump(ctx context.Context, announce bool, open func(context.Context) (Turn, error)) *pump {
	ctx, cancel := context.WithCancel(ctx)
	p := &pump{frames: make(chan batch, pumpDepth), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.run(ctx, announce, open)
	}()
	return p
}

func (p *pump) run(ctx context.Context, announce bool, open func(context.Context) (Turn, error)) {
	up, err := open(ctx)
	if err != nil {
		p.broke(ctx, err)
		return
	}
	defer up.Release()
	p.mu.Lock()
	p.up = up
	p.mu.Unlock()
	marker, _ := up.(Marker)
	if announce && !p.send(ctx, batch{marker: marker, opened: true}) {
		return
	}
	for {
		outputs, err := up.Next(ctx)
		if err != nil && ctx.Err() != nil {
			return // we gave it up: that is no word of the upstream's
		}
		if !p.send(ctx, batch{outputs: outputs, err: err, marker: marker}) || err != nil || ended(outputs) {
			return
		}
	}
}

// broke says why an upstream could not be opened, unless we gave it up.
func (p *pump) broke(ctx context.Context, err error) {
	if ctx.Err() == nil {
		p.send(ctx, batch{err: err})
	}
}

func (p *pump) send(ctx context.Context, b batch) bool {
	select {
	case p.frames <- b:
		return true
	case <-ctx.Done():
		return false
	}
}

// stop ends the reading and gives up the upstream; it returns when both are done.
func (p *pump) stop() {
	p.cancel()
	<-p.done
}

// pause tells the upstream whether a Question is open.
func (p *pump) pause(paused bool) {
	if up, ok := p.upstream().(Pauser); ok {
		up.Pause(paused)
	}
}

// takesAnswers reports whether the upstream is there and can be told answers while it is being read.
func (p *pump) takesAnswers() bool {
	_, ok := p.upstream().(Answerer)
	return ok
}

// cancelUpstream asks the upstream to stop, if there is one already.
func (p *pump) cancelUpstream(ctx context.Context) {
	if up := p.upstream(); up != nil {
		_ = up.Cancel(ctx) // it is released next, whatever it says
	}
}

// answerWait bounds how long handing over an answer may take: it is a write to a queue or a socket.
const answerWait = 5 * time.Second

// answer tells a held upstream. ErrCannotResume when it must be called again instead.
func (p *pump) answer(ctx context.Context, a Answer) error {
	up, ok := p.upstream().(Answerer)
	if !ok {
		return ErrCannotResume
	}
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	return up.Answer(ctx, a)
}

func (p *pump) upstream() Turn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.up
}

func ended(outputs []Output) bool {
	return len(outputs) > 0 && outputs[len(outputs)-1].End != nil
}

func cannotResume(err error) bool { return errors.Is(err, ErrCannotResume) }
