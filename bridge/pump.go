package bridge

import (
	"context"
	"errors"
	"sync"
)

// pumpDepth is how many batches may wait between an upstream and its Session. It fills
// only while the store stalls, and then reading stops: everybody waits for the store.
const pumpDepth = 16

// batch is what one Next gave.
type batch struct {
	outputs []Output
	err     error
}

// pump is the one goroutine that reads an upstream.
type pump struct {
	frames chan batch
	cancel context.CancelFunc
	done   chan struct{}

	mu sync.Mutex
	up Turn
}

// startPump opens an upstream and reads it until its End, an error, or stop.
func startPump(ctx context.Context, open func(context.Context) (Turn, error)) *pump {
	ctx, cancel := context.WithCancel(ctx)
	p := &pump{frames: make(chan batch, pumpDepth), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.run(ctx, open)
	}()
	return p
}

func (p *pump) run(ctx context.Context, open func(context.Context) (Turn, error)) {
	up, err := open(ctx)
	if err != nil {
		p.send(ctx, batch{err: err})
		return
	}
	defer up.Release()
	p.mu.Lock()
	p.up = up
	p.mu.Unlock()
	for {
		outputs, err := up.Next(ctx)
		if !p.send(ctx, batch{outputs: outputs, err: err}) || err != nil || ended(outputs) {
			return
		}
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

// cancelUpstream asks the upstream to stop, if there is one already.
func (p *pump) cancelUpstream(ctx context.Context) {
	if up := p.upstream(); up != nil {
		_ = up.Cancel(ctx) // it is released next, whatever it says
	}
}

// answer tells a held upstream. ErrCannotResume when it must be called again instead.
func (p *pump) answer(ctx context.Context, answers []Answer) error {
	up := p.upstream()
	if up == nil {
		return ErrCannotResume
	}
	for _, a := range answers {
		if err := up.Answer(ctx, a); err != nil {
			return err
		}
	}
	return nil
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
