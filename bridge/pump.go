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
}

// pump is the one goroutine that reads an upstream.
type pump struct {
	frames chan batch
	cancel context.CancelFunc
	done   chan struct{}

	mu sync.Mutex
	up Turn

	early []batch // read while the upstream was told something; the Session's goroutine alone
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
		p.broke(ctx, err)
		return
	}
	defer up.Release()
	p.mu.Lock()
	p.up = up
	p.mu.Unlock()
	marker, _ := up.(Marker)
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

// pause tells the upstream whether its Turn is parked.
func (p *pump) pause(parked bool) {
	if up, ok := p.upstream().(Pauser); ok {
		up.Pause(parked)
	}
}

// cancelUpstream asks the upstream to stop, if there is one already.
func (p *pump) cancelUpstream(ctx context.Context) {
	if up := p.upstream(); up != nil {
		_ = up.Cancel(ctx) // it is released next, whatever it says
	}
}

// answerWait bounds how long an upstream may take to hear an answer: more than a proxy may
// be away. mostEarly bounds what is read meanwhile.
const (
	answerWait = time.Minute
	mostEarly  = 1024
)

// answer tells a held upstream, and reads on meanwhile: one that must be rid of what it
// says before it hears anything would otherwise wait for us, and we for it.
// ErrCannotResume when it must be called again instead.
func (p *pump) answer(ctx context.Context, answers []Answer) error {
	up := p.upstream()
	if up == nil {
		return ErrCannotResume
	}
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	told := make(chan error, 1)
	go func() { told <- tellAll(ctx, up, answers) }()
	for {
		frames := p.frames
		if len(p.early) >= mostEarly {
			frames = nil
		}
		select {
		case err := <-told:
			return err
		case b := <-frames:
			p.early = append(p.early, b)
		}
	}
}

func tellAll(ctx context.Context, up Turn, answers []Answer) error {
	for _, a := range answers {
		if err := up.Answer(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// next gives what was read while the upstream was told something; it comes before what is
// read now.
func (p *pump) next() (batch, bool) {
	if len(p.early) == 0 {
		return batch{}, false
	}
	b := p.early[0]
	p.early = p.early[1:]
	return b, true
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
