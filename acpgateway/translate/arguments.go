// Arguments of tool calls come in parts: opencode first names the directory, then the command. TOOL_CALL_ARGS
// cannot be taken back, so they are emitted only when a person is asked, when the call ends or shows output,
// when the agent has sent nothing about the call for a while, and when the Run may end.

package translate

import (
	"bytes"
	"encoding/json"
	"slices"

	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
	"aqueduct/internal/jsonequal"
)

// emitArgs emits a call's arguments in one piece, and their end: they are whole, or as much as will ever be in them.
func (c *call) emitArgs(dst []Out, input json.RawMessage) []Out {
	c.argsSent, c.args = true, arguments(input)
	if c.resumed { // the Run that began it may have closed it
		return event(dst, &agui.ToolCallChunk{ToolCallID: c.id, ToolCallName: shownTool(c.seen), Delta: string(c.args)}, &agui.ToolCallEnd{ToolCallID: c.id})
	}
	return event(dst, &agui.ToolCallArgs{ToolCallID: c.id, Delta: string(c.args)}, &agui.ToolCallEnd{ToolCallID: c.id})
}

// argumentsPending reports whether a call runs whose arguments are not emitted yet.
func (cs *calls) argumentsPending() bool {
	return slices.ContainsFunc(cs.open, (*call).argumentsPending)
}

// runEnded marks the arguments of all open calls as sent: the end of the Run closed the calls in the log, so
// ARGS can no longer follow. What they turn out to be is emitted as a change.
func (cs *calls) runEnded() {
	for _, c := range cs.open {
		if !c.argsSent {
			c.argsSent, c.args = true, arguments(nil)
		}
	}
}

// emitArguments emits the arguments of the calls that run, as far as they are known: the agent has been quiet about
// them.
func (cs *calls) emitArguments(dst []Out) []Out {
	for _, c := range cs.open {
		if c.argumentsPending() {
			dst = c.emitArgs(dst, c.seen.RawInput)
		}
	}
	return dst
}

// emitOldestArgs emits the arguments of the call that has waited longest when too many wait.
func (cs *calls) emitOldestArgs(dst []Out) []Out {
	unsaid := 0
	var oldest *call
	for _, c := range cs.open {
		if !c.argsSent && c.seen.ID != "" {
			if unsaid++; oldest == nil {
				oldest = c
			}
		}
	}
	if unsaid <= maxUnsaid {
		return dst
	}
	return oldest.emitArgs(dst, oldest.seen.RawInput)
}

// arguments are always a JSON object, because clients read them as one.
func arguments(input json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	switch {
	case wire.EmptyInput(input) || json.Compact(&b, input) != nil:
		return json.RawMessage("{}")
	case b.Bytes()[0] != '{':
		return json.RawMessage(`{"input":` + b.String() + `}`)
	}
	return b.Bytes()
}

// askedInput is what a request for permission makes of a call's arguments: all that it holds, when
// the call has named no more than where and why so far, or nothing else than it holds. Otherwise
// nothing: opencode also asks with other arguments than it calls with.
func (c *call) askedInput(asked json.RawMessage) json.RawMessage {
	if wire.EmptyInput(c.seen.RawInput) {
		return asked
	}
	named, _ := decodeExact(c.seen.RawInput).(map[string]any)
	states, _ := decodeExact(asked).(map[string]any)
	if len(named) == 0 || len(states) == 0 {
		return nil
	}
	for name, value := range named {
		other, there := states[name]
		switch {
		case there && jsonequal.Values(other, value):
		case !there && (usualKey(plainKey(name)) == "cwd" || explains(plainKey(name))):
			states[name] = value
		default:
			return nil
		}
	}
	return marshal(states)
}

// completeArgs emits the arguments of a call that ends with others than those in its events. Where a person
// was asked, compareAsked has flagged the difference already.
func (c *call) completeArgs(dst []Out) []Out {
	now := arguments(c.seen.RawInput)
	if c.asked || !c.argsSent || c.args == nil || wire.EmptyInput(c.seen.RawInput) || sameJSON(now, c.args) {
		return dst
	}
	return event(dst, &agui.Custom{Name: "acp.arguments_completed", Value: marshal(struct {
		ToolCallID string          `json:"toolCallId"`
		Arguments  json.RawMessage `json:"arguments"`
	}{c.id, now})})
}

// compareAsked flags, once, what contradicts that which a person was asked about. It prevents nothing: the agent has its
// answer, and whether it keeps to it is its own doing; but the chat shows that it did not.
func (c *call) compareAsked(dst []Out, news wire.ToolCall) []Out {
	if !c.asked || c.changed || c.ended {
		return dst
	}
	var shown, now json.RawMessage
	switch {
	case !wire.EmptyInput(news.RawInput) && c.stated != nil && c.stated.contradicts(arguments(news.RawInput)):
		shown, now = c.args, arguments(news.RawInput)
	case !wire.Ended(news.Status) && c.otherDiffs(diffsOf(news)): // a result may show the change in another way
		shown, now = c.diffs, diffsOf(news)
	default:
		return dst
	}
	c.changed = true
	return event(dst, &agui.Custom{Name: "acp.arguments_changed", Value: marshal(struct {
		ToolCallID string          `json:"toolCallId"`
		Asked      bool            `json:"asked"`
		Shown      json.RawMessage `json:"shown"`
		Now        json.RawMessage `json:"now"`
	}{c.id, true, shown, now})})
}

// otherDiffs reports changes other than those that a person was shown.
func (c *call) otherDiffs(now json.RawMessage) bool {
	switch {
	case now == nil:
		return false
	case c.diffs != nil:
		return !bytes.Equal(now, c.diffs)
	}
	return c.diffPrint != nil && !bytes.Equal(c.diffPrint, fingerprint(now))
}

// sameJSON reports that two values are there and equal, however they are written.
func sameJSON(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	return jsonequal.Texts(a, b)
}

// decodeExact reads JSON with its numbers as they are written: two that a float64 could not tell apart are two.
func decodeExact(raw json.RawMessage) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&v) // of what was valid before
	return v
}

// argumentsPending reports whether the call runs and has arguments that are not emitted. One that is not in progress may
// still get others.
func (c *call) argumentsPending() bool {
	return !c.argsSent && c.seen.Status == wire.StatusInProgress && !wire.EmptyInput(c.seen.RawInput)
}
