// This file identifies a frame that could not be read, for the log and for the trace: by its position, its type, and the
// faulty member. Each kind of error of the two translators stores these elsewhere.

package httpagent

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"aqueduct/agui"
	"aqueduct/bridge/aguiagent"
	"aqueduct/bridge/trace"
	"aqueduct/internal/fault"
)

// malformed returns the failure of a stream whose frame at the position caused the error.
func malformed(position int, f frame, err error) *fault.Error {
	e := &trace.FrameError{Position: position, Cause: err}
	// AG-UI has the type in the data, and some of its agents in the event's name as well.
	if name := cmp.Or(f.event, string(agui.TypeIn(f.data))); isTypeName(name) {
		e.Type = name
	}
	if in, ok := errors.AsType[*agui.InputError](err); ok {
		e.Member, e.Reason = in.Path, in.Reason
	}
	if broken, ok := errors.AsType[*agui.GrammarError](err); ok {
		e.Reason = "breaks rule " + string(broken.Rule)
	}
	if absent, ok := errors.AsType[*missingError](err); ok {
		name, _, _ := strings.Cut(absent.member, " ") // words that explain it may follow
		e.Member, e.Reason = "/"+name, absent.member+" is missing"
	}
	if typ, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		e.Member, e.Reason = "/"+strings.ReplaceAll(typ.Field, ".", "/"), "is of a wrong type"
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		e.Reason = "not valid JSON"
	}
	message := "The agent sent a frame that could not be read."
	if refused, ok := errors.AsType[*aguiagent.RefusedError](err); ok {
		message = refused.Sentence()
	}
	return &fault.Error{Code: CodeMalformed, Message: message, Cause: e}
}

// isTypeName reports whether a frame's type can be shown. No protocol has a longer type, or one with other letters.
func isTypeName(name string) bool {
	const most = 64
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
	return len(name) <= most && strings.Trim(name, letters) == ""
}
