// This file shows tool calls. A page draws a card for each; a Question is such a card too, under the
// name PermissionTool, with options that carry the Question's id.

package tdesign

import (
	"encoding/json"
	"strings"

	"aqueduct/agui"
)

// PermissionTool is the name under which a Question is shown as a tool call.
const PermissionTool = "request_permission"

// calls are the tool calls started since the last RUN_STARTED; TDesign knows no others.
// A result may come for a call of an earlier run, so names outlives the reset of a run.
type calls struct {
	optionID OptionID // nil leaves the ids of options as they are
	byID     map[string]*call
	names    map[string]string // of all calls by id, those of earlier runs too
}

// call is one of them. A repeat of its arguments would be put behind the first.
// The zero value of sent is at the beginning of the arguments.
type call struct {
	name     string
	begun    bool // some arguments have come
	whole    bool // its arguments go out in one piece, at its end
	args     []byte
	shown    []byte // the arguments that were sent
	sent     object // of the arguments that went out in pieces
	complete bool   // its end came with all its arguments; what comes after it is a repeat
	answered bool
}

// start registers a call whose card is about to be drawn.
func (cs *calls) start(id, name string) {
	cs.names[id] = name
	cs.byID[id] = &call{name: name, whole: name == PermissionTool}
}

// object follows the text of a JSON object up to its closing brace.
type object struct {
	depth             int
	inString, escaped bool
	closed            bool
}

// read consumes the next piece, and returns how much of it belongs to the object. Brackets in strings do not count.
func (o *object) read(text string) (n int) {
	i := 0
	for ; i < len(text) && !o.closed; i++ {
		switch c := text[i]; {
		case o.escaped:
			o.escaped = false
		case o.inString:
			o.escaped = c == '\\'
			o.inString = c != '"'
		case c == '"':
			o.inString = true
		case c == '{' || c == '[':
			o.depth++
		case c == '}' || c == ']':
			o.depth--
			o.closed = o.depth == 0
		}
	}
	return i
}

// appendArgs keeps back what TDesign would get wrong in pieces: a Question, whose
// options are renamed, and arguments that are no object, since of two pieces
// that are JSON by themselves it keeps the second.
func (cs *calls) appendArgs(out *frames, e *agui.ToolCallArgs, event []byte) {
	c := cs.byID[e.ToolCallID]
	if c == nil || c.complete || e.Delta == "" {
		return
	}
	if !c.begun {
		c.begun = true
		c.whole = c.whole || !strings.HasPrefix(strings.TrimLeft(e.Delta, " \t\r\n"), "{")
	}
	if c.whole {
		c.args = append(c.args, e.Delta...)
		return
	}
	// Text after a complete object belongs to another call, whose deltas the agent sent under this call's id. TDesign would
	// show no JSON for both. The log corrects that later (amend).
	n := c.sent.read(e.Delta)
	c.shown = append(c.shown, e.Delta[:n]...)
	switch {
	case n == len(e.Delta):
		out.pass(event)
	case n > 0:
		whole := *e
		whole.Delta = e.Delta[:n]
		out.send(&whole)
	}
}

// end ends a call and sends the arguments that were kept back. A call may end more than once: an
// agent that opens it again to go on sends a second end, and only the end that completes the
// arguments makes later ones repeats.
func (cs *calls) end(out *frames, e *agui.ToolCallEnd, event []byte) {
	c := cs.byID[e.ToolCallID]
	if c == nil || c.complete {
		return // TDesign throws on the end of a call it does not know
	}
	c.complete = c.sent.closed || c.whole && len(c.args) > 0
	if len(c.args) > 0 {
		args := string(c.args)
		if c.name == PermissionTool && cs.optionID != nil {
			args = cs.optionID.named(e.ToolCallID, args)
		}
		out.send(&agui.ToolCallArgs{ToolCallID: e.ToolCallID, Delta: args})
		c.args, c.shown = nil, []byte(args)
	}
	out.pass(event)
}

// namedResult is a TOOL_CALL_RESULT with the member TDesign's next engine demands.
type namedResult struct {
	agui.ToolCallResult
	name string
}

// AppendJSON implements [agui.Event].
func (r *namedResult) AppendJSON(dst []byte) []byte {
	dst = r.ToolCallResult.AppendJSON(dst)
	if r.name == "" {
		return dst
	}
	dst = append(dst[:len(dst)-1], `,"toolCallName":`...)
	return append(agui.AppendString(dst, r.name), '}')
}

// result: the content must be JSON, since a tool without a handler parses
// it; plain words become a JSON string. A second result would be merged into
// the first and is left out.
func (cs *calls) result(out *frames, e *agui.ToolCallResult) {
	shown := namedResult{ToolCallResult: *e}
	shown.Role = agui.RoleTool
	if c := cs.byID[e.ToolCallID]; c != nil {
		if c.answered {
			return
		}
		c.answered = true
	}
	shown.name = cs.names[e.ToolCallID]
	content := e.Content.String()
	if !json.Valid([]byte(content)) {
		content = string(agui.AppendString(nil, content))
	}
	shown.Content = agui.Text(content)
	out.send(&shown)
}

// OptionID makes the id that the nth option of a card has on a page. Pages answer for the wrong card when two of one name are
// open, or lose the card's id, so an option's id has to name its card. n is the option's place among those kept in the log.
type OptionID func(cardID string, n int) string

// named renames options[].id and options[].optionId and leaves every
// other byte alone. Arguments of another shape stay as they are.
// Agents may have any other members beside options, and a page may use them.
func (id OptionID) named(cardID, args string) string {
	raw := []byte(args)
	if !json.Valid(raw) {
		return args
	}
	out := []byte{'{'}
	err := agui.EachMember(raw, func(key, val []byte) error {
		out = appendName(out, key)
		if string(key) == "options" {
			val = id.renamed(cardID, val)
		}
		out = append(out, val...)
		return nil
	})
	if err != nil {
		return args
	}
	return string(append(out, '}'))
}

// renamed gives the options of a Question their ids, by their place; what is no list stays.
func (id OptionID) renamed(cardID string, options []byte) []byte {
	out := []byte{'['}
	n := 0
	err := agui.EachElement(options, func(option []byte) error {
		if n > 0 {
			out = append(out, ',')
		}
		out = appendRenamed(out, id(cardID, n), option)
		n++
		return nil
	})
	if err != nil {
		return options
	}
	return append(out, ']')
}

// appendRenamed appends one option; what is no object stays.
func appendRenamed(dst []byte, id string, option []byte) []byte {
	out := []byte{'{'}
	err := agui.EachMember(option, func(key, val []byte) error {
		out = appendName(out, key)
		if name := string(key); name == "id" || name == "optionId" {
			out = agui.AppendString(out, id)
			return nil
		}
		out = append(out, val...)
		return nil
	})
	if err != nil {
		return append(dst, option...)
	}
	return append(append(dst, out...), '}')
}

// appendName begins a member.
func appendName(dst, key []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(agui.AppendString(dst, string(key)), ':')
}
