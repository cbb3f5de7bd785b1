// Package fault holds the one error type with a stable code. The engine, the gateway, the tools and the HTTP edge all
// return it, so that one table (server/problem/table.go) maps a code to its HTTP status and to the code of a RUN_ERROR.
package fault

import "errors"

// Error is a failure or a refusal under a stable code. Code and Message are shown to clients; Cause is for the log only
// and never leaves the process.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Cause   error  `json:"-"`
}

// New makes an Error without a cause.
func New(code, message string) *Error { return &Error{Code: code, Message: message} }

// Error implements error. The text holds the cause as well, so it is for logs; clients get Code and Message. An error without
// a message has the words of the table as its message there, and reads here as its cause does.
func (e *Error) Error() string {
	switch {
	case e.Cause == nil:
		return e.Code + ": " + e.Message
	case e.Message == "":
		return e.Cause.Error()
	}
	return e.Code + ": " + e.Message + ": " + e.Cause.Error()
}

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Cause }

// CodeOf returns the code of the first Error in err's chain, or "" when the chain has none.
func CodeOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
