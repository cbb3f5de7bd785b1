// This file distinguishes calls to which an agent gave the same id. Servers such as llama.cpp and Ollama name the first call
// of every answer call_0, so an id that begins again in a run is another call. Inside this package each call has a key. It is
// the agent's id for the first call under the id in a run, and the id with a number for each later one.

package aguiagent

import (
	"strconv"
	"strings"

	"aqueduct/agui"
)

// keyMark separates an id from the number of its use. PostgreSQL can store it, and no known agent uses it in ids.
const keyMark = "\x1f"

// keyOf returns the key of the nth use of an id.
func keyOf(id string, n int) string {
	if n < 2 {
		return id
	}
	return id + keyMark + strconv.Itoa(n)
}

// ownID returns the agent's id in a key.
func ownID(key string) string {
	id, _, _ := strings.Cut(key, keyMark)
	return id
}

// uses holds the calls of a run, by the agent's id. The official clients append the arguments of a second call to the first,
// which breaks its JSON; a result does not replace any of their content. The agent's model made two calls.
type uses struct {
	of    map[string][]*use
	chunk *use // continued by a chunk without an id
}

// use is one call.
type use struct {
	key, name string
	open      bool
	chunked   bool // chunks opened it
	answered  bool
	args      braces
}

// on replaces the ids of calls in an event by their keys.
func (u *uses) on(ev agui.Event) {
	switch e := ev.(type) {
	case *agui.ToolCallArgs:
		e.ToolCallID = u.newest(e.ToolCallID)
	case *agui.ToolCallStart:
		e.ToolCallID = u.start(e.ToolCallID, e.ToolCallName).key
	case *agui.ToolCallEnd:
		e.ToolCallID = u.end(e.ToolCallID)
	case *agui.ToolCallChunk:
		u.onChunk(e)
	case *agui.ToolCallResult:
		e.ToolCallID = u.result(e.ToolCallID)
	case *agui.ReasoningEncryptedValue:
		if e.Subtype == "tool-call" {
			e.EntityID = u.newest(e.EntityID)
		}
	case *agui.SubagentStarted:
		e.ParentToolCallID = u.newest(e.ParentToolCallID)
	case *agui.RunFinished:
		u.onOutcome(e.Outcome)
	}
}

// last returns the newest call under an id, or nil.
func (u *uses) last(id string) *use {
	if all := u.of[id]; len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

// newest returns the key of the newest call under an id.
func (u *uses) newest(id string) string {
	if last := u.last(id); last != nil {
		return last.key
	}
	return id
}

// waiting returns the oldest call under an id that has no result, otherwise the newest; nil without one.
func (u *uses) waiting(id string) *use {
	for _, one := range u.of[id] {
		if !one.answered {
			return one
		}
	}
	return u.last(id)
}

// start registers a call that begins. The grammar handles the START of an open call: it refuses it, as the official clients
// do.
func (u *uses) start(id, name string) *use {
	if last := u.last(id); last != nil && last.open && !last.chunked {
		return last
	}
	return u.begin(id, name)
}

func (u *uses) begin(id, name string) *use {
	if u.of == nil {
		u.of = make(map[string][]*use)
	}
	one := &use{key: keyOf(id, len(u.of[id])+1), name: name, open: true}
	u.of[id] = append(u.of[id], one)
	return one
}

func (u *uses) end(id string) string {
	last := u.last(id)
	if last == nil {
		return id
	}
	last.open = false
	return last.key
}

// result returns the key of the call that a result belongs to: the oldest without one, because parallel calls are answered in
// their order.
func (u *uses) result(id string) string {
	one := u.waiting(id)
	if one == nil {
		return id
	}
	one.answered, one.open = true, false
	return one.key
}

// onChunk gives a chunk the key of its call. Chunks may repeat the id and the name of the call that they continue. So a chunk
// begins another call only if it cannot continue the previous one: under another name, after a result, or after complete
// arguments.
func (u *uses) onChunk(e *agui.ToolCallChunk) {
	one := u.chunk
	if e.ToolCallID != "" {
		one = u.last(e.ToolCallID)
	}
	if e.ToolCallID != "" && (one == nil || one.endedBefore(e)) {
		if one != nil {
			one.open = false
		}
		one = u.begin(e.ToolCallID, e.ToolCallName)
		one.chunked = true
	}
	if one == nil {
		return
	}
	u.chunk = one
	one.args.read(e.Delta)
	if e.ToolCallID != "" {
		e.ToolCallID = one.key
	}
}

// endedBefore reports whether a chunk under the id of a call begins another.
func (one *use) endedBefore(e *agui.ToolCallChunk) bool {
	switch {
	case e.ToolCallName == "" || one.open && !one.chunked:
		return false
	case e.ToolCallName != one.name, one.answered:
		return true
	}
	return one.args.closed && (!one.open || strings.TrimSpace(e.Delta) != "")
}

// onOutcome replaces the ids of the calls that a run waits for by their keys. An interrupt is about one call, the oldest that
// waits. A pending id means every call of that id without a result.
func (u *uses) onOutcome(o *agui.Outcome) {
	if o == nil {
		return
	}
	for i := range o.Interrupts {
		if one := u.waiting(o.Interrupts[i].ToolCallID); one != nil {
			o.Interrupts[i].ToolCallID = one.key
		}
	}
	var keys []string
	for _, id := range o.PendingToolCallIDs {
		if u.last(id) == nil {
			keys = append(keys, id)
		}
		for _, one := range u.of[id] {
			if !one.answered {
				keys = append(keys, one.key)
			}
		}
	}
	o.PendingToolCallIDs = keys
}

// braces finds the end of a JSON object or array. It reads each piece once. A chunk may repeat the name of its call each
// time, and rescanning all arguments would have quadratic cost.
type braces struct {
	depth             int
	inString, escaped bool
	closed            bool
}

func (b *braces) read(text string) {
	for i := 0; i < len(text) && !b.closed; i++ {
		switch c := text[i]; {
		case b.escaped:
			b.escaped = false
		case b.inString:
			b.escaped = c == '\\'
			b.inString = c != '"'
		case c == '"':
			b.inString = true
		case c == '{' || c == '[':
			b.depth++
		case c == '}' || c == ']':
			b.depth--
			b.closed = b.depth <= 0
		}
	}
}
