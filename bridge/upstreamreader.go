package bridge

import (
	"context"
	"errors"
	"sync"
	"time"

	"aqueduct/bridge/approval"
)

// readerDepth is how many batches may wait between an upstream and its Session. It fills
// only while the store stalls; then the reading stops until the store is back.
const readerDepth = 16

// batch is what one Next gave.
type batch struct {
	outputs []Output
	err     error
	acks    Acknowledger // of the upstream, if it is one
	opened  bool         // the upstream has been taken up again
}

// upstreamReader is the one goroutine that reads an upstream.
//
// It owns the upstream: it opens it, reads it and releases it, so that Release is never called while Next runs. The
// Session's goroutine gets batches by the channel and may answer, pause or cancel the upstream beside it, which
// bridge.Turn allows.
type upstreamReader struct {
	frames chan batch
	cancel context.CancelFunc
	done   chan struct{}
	spoke  bool // something was read of it, or waited for; the Session's goroutine alone

	mu sync.Mutex
	up Turn
}

// startReader opens an upstream and reads it until its End, an error, or stop. With announce its first batch reports that it
// is open.
func startReader(ctx context.Context, announce bool, open func(context.Context) (Turn, error)) *upstreamReader {
	ctx, cancel := context.WithCancel(ctx)
	ur := &upstreamReader{frames: make(chan batch, readerDepth), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(ur.done)
		ur.run(ctx, announce, open)
	}()
	return ur
}

func (ur *upstreamReader) run(ctx context.Context, announce bool, open func(context.Context) (Turn, error)) {
	up, err := open(ctx)
	if err != nil {
		ur.broke(ctx, err)
		return
	}
	defer up.Release()
	ur.mu.Lock()
	ur.up = up
	ur.mu.Unlock()
	acks, _ := up.(Acknowledger)
	if announce && !ur.send(ctx, batch{acks: acks, opened: true}) {
		return
	}
	for {
		outputs, err := up.Next(ctx)
		if err != nil && ctx.Err() != nil {
			return // stopped: the error is of our cancel, not of the upstream
		}
		if !ur.send(ctx, batch{outputs: outputs, err: err, acks: acks}) || err != nil || ended(outputs) {
			return
		}
	}
}

// broke sends why an upstream could not be opened, unless the reader was stopped.
func (ur *upstreamReader) broke(ctx context.Context, err error) {
	if ctx.Err() == nil {
		ur.send(ctx, batch{err: err})
	}
}

func (ur *upstreamReader) send(ctx context.Context, b batch) bool {
	select {
	case ur.frames <- b:
		return true
	case <-ctx.Done():
		return false
	}
}

// stop ends the reading and gives up the upstream; it returns when both are done.
// It is waited for, so that no frame of an old upstream arrives after a new one was opened.
func (ur *upstreamReader) stop() {
	ur.cancel()
	<-ur.done
}

// pause notifies the upstream whether a Question is open.
func (ur *upstreamReader) pause(paused bool) {
	if up, ok := ur.upstream().(Pauser); ok {
		up.Pause(paused)
	}
}

// takesAnswers reports whether the upstream is open and takes answers while it is being read.
func (ur *upstreamReader) takesAnswers() bool {
	_, ok := ur.upstream().(Answerer)
	return ok
}

// cancelUpstream asks the upstream to stop, if there is one already.
func (ur *upstreamReader) cancelUpstream(ctx context.Context) {
	if up := ur.upstream(); up != nil {
		_ = up.Cancel(ctx) // it is released next, whatever this returns
	}
}

// answerWait bounds how long handing over an answer may take: it is a write to a queue or a socket.
// An upstream that takes longer counts as failed and the Turn ends, rather than the Session standing still.
const answerWait = 5 * time.Second

// answer hands an answer to an open upstream. ErrCannotResume when it must be called again instead.
func (ur *upstreamReader) answer(ctx context.Context, a approval.Delivery) error {
	up, ok := ur.upstream().(Answerer)
	if !ok {
		return ErrCannotResume
	}
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	return up.Answer(ctx, a)
}

func (ur *upstreamReader) upstream() Turn {
	ur.mu.Lock()
	defer ur.mu.Unlock()
	return ur.up
}

func ended(outputs []Output) bool {
	return len(outputs) > 0 && outputs[len(outputs)-1].End != nil
}

func cannotResume(err error) bool { return errors.Is(err, ErrCannotResume) }
