package trace

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"aqueduct/agui"
)

// FrameError names the frame of an agent's stream that could not be taken. It holds nothing of what the frame says: agents put
// secrets into values.
type FrameError struct {
	Position int    `json:"position"`         // in the stream of this call, from 1
	Type     string `json:"type,omitempty"`   // the frame's own name of its type
	Member   string `json:"member,omitempty"` // JSON Pointer to what is wrong; "" for the frame as a whole
	Reason   string `json:"reason,omitempty"`
	Cause    error  `json:"-"` // for the log
}

// NewFrameError says of a frame what err does.
func NewFrameError(position int, typ string, err error) *FrameError {
	e := &FrameError{Position: position, Cause: err}
	if len(typ) <= maxFrameType && strings.Trim(typ, frameTypeLetters) == "" {
		e.Type = typ
	}
	if in, ok := errors.AsType[*agui.InputError](err); ok {
		e.Member, e.Reason = in.Path, in.Reason
	}
	if of, ok := errors.AsType[interface {
		error
		Missing() string
	}](err); ok {
		name, _, _ := strings.Cut(of.Missing(), " ")
		e.Member, e.Reason = "/"+name, of.Missing()+" is missing"
	}
	if typ, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		e.Member, e.Reason = "/"+strings.ReplaceAll(typ.Field, ".", "/"), "is of a wrong type"
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		e.Reason = "not valid JSON"
	}
	if broken, ok := errors.AsType[*agui.GrammarError](err); ok {
		e.Reason = "breaks rule " + string(broken.Rule)
	}
	return e
}

// A type with other letters, or a longer one, is no name and is left out.
const (
	maxFrameType     = 64
	frameTypeLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
)

// Error implements error.
func (e *FrameError) Error() string {
	text := "frame " + strconv.Itoa(e.Position)
	if e.Type != "" {
		text += ", " + e.Type
	}
	return text + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *FrameError) Unwrap() error { return e.Cause }
