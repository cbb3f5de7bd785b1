// This file has the errors of reading: each carries the place in the document, as a JSON Pointer,
// and a reason that names no value.

package agui

import (
	"errors"
	"fmt"
)

// InputError reports what is wrong with JSON from outside, and where.
type InputError struct {
	Path   string // JSON Pointer (RFC 6901); "" is the whole document
	Reason string
}

// Error implements error.
func (e *InputError) Error() string {
	if e.Path == "" {
		return "agui: " + e.Reason
	}
	return "agui: " + e.Path + ": " + e.Reason
}

// UnknownTypeError reports that an event has a type AG-UI 1.0 does not know. A
// consumer leaves such an event out and goes on (AG-UI 1.0, "Unknown events").
type UnknownTypeError struct{ Type string }

// Error implements error.
func (e *UnknownTypeError) Error() string { return fmt.Sprintf("agui: unknown event type %q", e.Type) }

func wrong(reason string) error { return &InputError{Reason: reason} }

// within puts a path segment in front of an error's path. Errors are rare and
// paths are only known on the way out, so good input pays nothing for them.
func within(segment string, err error) error {
	var in *InputError
	if !errors.As(err, &in) {
		return err
	}
	return &InputError{Path: "/" + EscapePointer(segment) + in.Path, Reason: in.Reason}
}
