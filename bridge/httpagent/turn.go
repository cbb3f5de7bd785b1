package httpagent

import (
	"context"
	"errors"
	"io"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
)

// Codes of RUN_ERROR for what an HTTP agent did.
const (
	CodeUnreachable = "upstream_unreachable"        // no connection
	CodeRefused     = "upstream_address_refused"    // what its name resolved to is not called
	CodeStatus      = "upstream_status"             // not 200
	CodeNotStream   = "upstream_not_a_stream"       // 200, but no text/event-stream
	CodeFirstByte   = "upstream_first_byte_timeout" // no headers in time
	CodeIdle        = "upstream_idle_timeout"       // no complete frame in time
	CodeTotal       = "upstream_total_timeout"      // one invoke took too long
	CodeTruncated   = "upstream_truncated"          // ended without done or error
	CodeMalformed   = "upstream_malformed"          // a frame that is not what its type promises
	CodeTooLarge    = "upstream_event_too_large"    // a frame past the limit
)

// meaning gives the frames of one answer their meaning. It is used by one goroutine.
type meaning interface {
	// translate appends what a frame means. An error is of the frame, and translate is not called again after it.
	translate(dst []bridge.Output, f frame) ([]bridge.Output, error)
	// over reports whether a frame has ended the answer.
	over() bool
	// ends appends what the end of the stream means; nothing where the answer is not complete.
	ends(dst []bridge.Output) []bridge.Output
}

// turn is one call: a response body that is being read. The engine's reader goroutine calls Next; Pause, Cancel and
// Release may come from another goroutine, and reach Next through the context alone.
//
// Nothing of an HTTP agent outlives its stream: what a Turn needs after a restart is in the log and the rows, and a
// stream that broke in the middle is a failed Turn (Agent.Resume).
type turn struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	limits  *limiter
	agent   *Agent
	call    bridge.Call
	answers []approval.Delivery

	resumable bool // its answer has resumableHeader
	over      bool // the agent is not running: it was not called, or its answer has ended
	said      bool // a part of the answer was returned
	repeated  bool // the agent was busy, and was called once more

	body   io.ReadCloser
	reader *frameReader
	means  meaning
	frames int // that were read
}

var _ bridge.Pauser = (*turn)(nil) // the bridge finds it by type assertion

// newTurn starts the limits: from here on Release must be called. A limit that is passed ends ctx with its failure as
// the cause, which readers of the connection find by failure.
func newTurn(ctx context.Context, a *Agent, call bridge.Call, answers []approval.Delivery) *turn {
	ctx, cancel := context.WithCancelCause(ctx)
	return &turn{
		ctx: ctx, cancel: cancel, agent: a, call: call, answers: answers, over: true,
		limits: newLimiter(a.cfg.Limits, func(f *fault.Error) { cancel(f) }),
	}
}

// Resumable implements bridge.Resumable.
func (t *turn) Resumable() bool { return t.resumable }

// Next reads until at least one frame is complete, and returns what the complete frames mean. A malformed frame ends the
// Turn: what follows it cannot be trusted to be complete.
func (t *turn) Next(context.Context) ([]bridge.Output, error) {
	for {
		frames, err := t.reader.next()
		if err == nil {
			t.limits.received() // for a comment too
		}
		outputs := t.translate(frames)
		if !t.said && !t.repeated && isBusy(outputs) {
			if err := t.openAgain(); err != nil {
				return nil, err
			}
			continue
		}
		if t.said = t.said || len(outputs) > 0; len(outputs) > 0 {
			return outputs, nil
		}
		if errors.Is(err, io.EOF) {
			t.over = true
			if outputs := t.means.ends(nil); len(outputs) > 0 {
				return outputs, nil
			}
		}
		if err != nil {
			return nil, t.readError(err)
		}
	}
}

// translate stops at the frame that ends the stream: an agent may send more after it, which is dropped. What the frames
// before a malformed one mean is kept, and the End comes behind it.
func (t *turn) translate(frames []frame) (outputs []bridge.Output) {
	for _, f := range frames {
		t.frames++
		var err error
		if outputs, err = t.means.translate(outputs, f); err != nil {
			return append(outputs, bridge.Output{End: &bridge.End{Failure: malformed(t.frames, f, err)}})
		}
		if t.means.over() {
			t.over = true
			break
		}
	}
	return outputs
}

// readError is the error of a stream that ended without done or error.
func (t *turn) readError(err error) error {
	if errors.Is(err, errFrameTooLarge) {
		return fault.New(CodeTooLarge, "The agent sent an event that is too large.")
	}
	return t.failure(err, CodeTruncated, "The agent's answer ended before it was complete.")
}

// failure returns the limit that ended the call, if one did: its error shows only as a closed connection otherwise.
func (t *turn) failure(err error, code, message string) error {
	if f, ok := errors.AsType[*fault.Error](context.Cause(t.ctx)); ok {
		if f.Code == CodeIdle && t.reader == nil {
			return fault.New(CodeFirstByte, "The agent did not begin to answer in time.")
		}
		return f
	}
	if t.ctx.Err() != nil {
		return t.ctx.Err()
	}
	return &fault.Error{Code: code, Message: message, Cause: err}
}

// Pause implements bridge.Pauser.
func (t *turn) Pause(parked bool) { t.limits.pause(parked) }

// Cancel closes the connection.
func (t *turn) Cancel(context.Context) error {
	t.cancel(context.Canceled)
	return nil
}

// Release closes the connection and stops the timers. A running agent must notice the closed connection.
func (t *turn) Release() {
	t.limits.stop()
	t.cancel(context.Canceled)
	if !t.over {
		t.agent.stops.note(t.call.InstanceID)
	}
	if t.body != nil {
		_ = t.body.Close() // the stream is over: an error here changes nothing
	}
}
