package httpagent

import (
	"context"
	"errors"
	"io"

	"aqueduct/bridge"
)

// Codes of RUN_ERROR that say what an HTTP agent did.
const (
	CodeUnreachable = "upstream_unreachable"        // no connection
	CodeRefused     = "upstream_address_refused"    // what its name resolved to is not called
	CodeStatus      = "upstream_status"             // not 200
	CodeNotStream   = "upstream_not_a_stream"       // 200, but no text/event-stream
	CodeFirstByte   = "upstream_first_byte_timeout" // no headers in time
	CodeIdle        = "upstream_idle_timeout"       // no complete frame in time
	CodeTotal       = "upstream_total_timeout"      // one invoke took too long
	CodeTruncated   = "upstream_truncated"          // ended without done or error
	CodeMalformed   = "upstream_malformed"          // a frame that is not what it says
	CodeTooLarge    = "upstream_event_too_large"    // a frame past the limit
)

// turn is one invoke: a response body being read.
type turn struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	limits *limiter

	body   io.ReadCloser
	reader *frameReader
	tr     *translator
}

func newTurn(ctx context.Context, limits Limits, turnID string) *turn {
	ctx, cancel := context.WithCancelCause(ctx)
	return &turn{
		ctx: ctx, cancel: cancel, tr: newTranslator(turnID),
		limits: newLimiter(limits, func(f *bridge.Failure) { cancel(f) }),
	}
}

// Next reads until at least one frame is complete.
func (t *turn) Next(context.Context) ([]bridge.Output, error) {
	for {
		frames, err := t.reader.next()
		if err == nil {
			t.limits.heard() // for a comment too
		}
		if len(frames) > 0 {
			if outputs, done := t.translate(frames); done != nil || len(outputs) > 0 {
				return outputs, done
			}
		}
		if err != nil {
			return nil, t.readError(err)
		}
	}
}

func (t *turn) translate(frames []frame) ([]bridge.Output, error) {
	var outputs []bridge.Output
	for _, f := range frames {
		var err error
		if outputs, err = t.tr.translate(outputs, f); err != nil {
			outputs = append(outputs, bridge.Output{End: &bridge.End{Failure: asMalformed(err)}})
			return outputs, nil
		}
		if t.tr.ended {
			return outputs, nil
		}
	}
	return outputs, nil
}

func asMalformed(err error) *bridge.Failure {
	var f *bridge.Failure
	if errors.As(err, &f) {
		return f
	}
	return &bridge.Failure{Code: CodeMalformed, Message: "The agent sent a frame that could not be read.", Cause: err}
}

func (t *turn) readError(err error) error {
	if errors.Is(err, errFrameTooLarge) {
		return &bridge.Failure{Code: CodeTooLarge, Message: "The agent sent an event that is too large."}
	}
	return t.failure(err, CodeTruncated, "The agent's answer ended before it was complete.")
}

// failure prefers the limit that ended the call over the error it showed as.
func (t *turn) failure(err error, code, message string) error {
	var f *bridge.Failure
	if cause := context.Cause(t.ctx); errors.As(cause, &f) {
		if f.Code == CodeIdle && t.reader == nil {
			return &bridge.Failure{Code: CodeFirstByte, Message: "The agent did not begin to answer in time."}
		}
		return f
	}
	if t.ctx.Err() != nil {
		return t.ctx.Err()
	}
	return &bridge.Failure{Code: code, Message: message, Cause: err}
}

// Pause implements bridge.Pauser.
func (t *turn) Pause(parked bool) { t.limits.pause(parked) }

// Cancel closes the connection.
func (t *turn) Cancel(context.Context) error {
	t.cancel(context.Canceled)
	return nil
}

// Release closes the connection and stops the timers.
func (t *turn) Release() {
	t.limits.stop()
	t.cancel(context.Canceled)
	if t.body != nil {
		_ = t.body.Close() // nothing is left to be learnt from it
	}
}
