package tdesign

import (
	"encoding/json"
	"strconv"
	"strings"

	"aqueduct/agui"
)

// PermissionTool is the name under which a Question is shown as a tool call.
const PermissionTool = "request_permission"

// call is a tool call started since the last RUN_STARTED; TDesign knows no other.
// An agent may open one again, to go on with its arguments or, called a second time
// for the same Turn, to repeat it: TDesign would put the repeat behind the first.
type call struct {
	name     string
	begun    bool // some arguments have come
	whole    bool // its arguments go out in one piece, at its end
	args     []byte
	sent     object // of the arguments that went out in pieces
	told     bool   // its end came with all its arguments; what comes after it is a repeat
	answered bool
}

func (d *dialect) callStart(e *agui.ToolCallStart, event []byte) {
	if d.calls[e.ToolCallID] != nil {
		return // opened again: a second start would draw a second card
	}
	d.closeThinking()
	d.closeText()
	d.names[e.ToolCallID] = e.ToolCallName
	d.calls[e.ToolCallID] = &call{name: e.ToolCallName, whole: e.ToolCallName == PermissionTool}
	d.shown = true
	d.pass(event)
}

// object follows the text of a JSON object up to its closing brace.
type object struct {
	depth             int
	inString, escaped bool
	closed            bool
}

func (o *object) read(text string) {
	for i := 0; i < len(text) && !o.closed; i++ {
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
}

// callArgs keeps back what TDesign would get wrong in pieces: a Question, whose
// options are renamed, and arguments that are no object, since of two pieces
// that are JSON by themselves it keeps the second.
func (d *dialect) callArgs(e *agui.ToolCallArgs, event []byte) {
	c := d.calls[e.ToolCallID]
	if c == nil || c.told || e.Delta == "" {
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
	c.sent.read(e.Delta)
	d.pass(event)
}

func (d *dialect) callEnd(e *agui.ToolCallEnd, event []byte) {
	c := d.calls[e.ToolCallID]
	if c == nil || c.told {
		return // TDesign throws on the end of a call it does not know
	}
	c.told = c.sent.closed || c.whole && len(c.args) > 0
	if len(c.args) > 0 {
		args := string(c.args)
		if c.name == PermissionTool {
			args = withOptionIDs(e.ToolCallID, args)
		}
		d.send(&agui.ToolCallArgs{ToolCallID: e.ToolCallID, Delta: args})
		c.args = nil
	}
	d.pass(event)
}

// result is a TOOL_CALL_RESULT with the member TDesign's next engine demands.
type result struct {
	agui.ToolCallResult
	name string
}

// AppendJSON implements [agui.Event].
func (r *result) AppendJSON(dst []byte) []byte {
	dst = r.ToolCallResult.AppendJSON(dst)
	if r.name == "" {
		return dst
	}
	dst = append(dst[:len(dst)-1], `,"toolCallName":`...)
	return append(agui.AppendString(dst, r.name), '}')
}

// callResult: the content must be JSON, since a tool without a handler parses
// it; plain words become a JSON string. A second result would be merged into
// the first and is left out.
func (d *dialect) callResult(e *agui.ToolCallResult) {
	out := result{ToolCallResult: *e}
	out.Role = agui.RoleTool
	if c := d.calls[e.ToolCallID]; c != nil {
		if c.answered {
			return
		}
		c.answered = true
	}
	out.name = d.names[e.ToolCallID]
	content := e.Content.String()
	if !json.Valid([]byte(content)) {
		content = string(agui.AppendString(nil, content))
	}
	out.Content = agui.Text(content)
	d.send(&out)
}

// OptionID is the id an option of a Question has on a TDesign page. Pages answer
// for the wrong card when two of one name are open, so an option says whose it
// is: the Question's id and the option's place among those kept in the log.
func OptionID(questionID string, n int) string {
	return questionID + ":" + strconv.Itoa(n)
}

// ParseOptionID takes an [OptionID] apart.
func ParseOptionID(id string) (questionID string, n int, ok bool) {
	at := strings.LastIndexByte(id, ':')
	if at <= 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(id[at+1:])
	if err != nil || n < 0 || strconv.Itoa(n) != id[at+1:] {
		return "", 0, false
	}
	return id[:at], n, true
}

// withOptionIDs renames options[].id and options[].optionId and leaves every
// other byte alone. Arguments of another shape stay as they are.
func withOptionIDs(questionID, args string) string {
	raw := []byte(args)
	if !json.Valid(raw) {
		return args
	}
	out := []byte{'{'}
	err := agui.EachMember(raw, func(key, val []byte) error {
		out = appendName(out, key)
		if string(key) == "options" {
			val = renamed(questionID, val)
		}
		out = append(out, val...)
		return nil
	})
	if err != nil {
		return args
	}
	return string(append(out, '}'))
}

func renamed(questionID string, options []byte) []byte {
	out := []byte{'['}
	n := 0
	err := agui.EachElement(options, func(option []byte) error {
		if n > 0 {
			out = append(out, ',')
		}
		out = appendRenamed(out, OptionID(questionID, n), option)
		n++
		return nil
	})
	if err != nil {
		return options
	}
	return append(out, ']')
}

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
