// This file tells calls apart that an agent gives one id. Servers such as llama.cpp and Ollama name the first call of every
// answer call_0, so an id that begins again in a run is another call. Inside of this package each call has a key: the
// agent's id for the first call under it in a run, the id with a number for each later one.

package aguiagent

import (
	"strconv"
	"strings"

	"aqueduct/agui"
)

// keyMark stands between an id and the number of its use. PostgreSQL stores it, and no agent seen puts it into ids.
const keyMark = "\x1f"

// keyOf is the key of the nth use of an id.
func keyOf(id string, n int) string {
	if n < 2 {
		return id
	}
	return id + keyMark + strconv.Itoa(n)
}

// ownID is the agent's id in a key.
func ownID(key string) string {
	id, _, _ := strings.Cut(key, keyMark)
	return id
}

// uses are the calls of a run, by the agent's id.
type uses struct {
	of    map[string][]*use
	chunk *use // that a chunk without an id goes on with
}

// use is one call.
type use struct {
	key, name string
	open      bool
	chunked   bool // chunks opened it
	answered  bool
	args      braces
}

// on puts the keys of calls into an event, in place of their ids.
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

// last is the newest call under an id; nil without one.
func (u *uses) last(id string) *use {
	if all := u.of[id]; len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

// newest is the key of the newest call under an id.
func (u *uses) newest(id string) string {
	if last := u.last(id); last != nil {
		return last.key
	}
	return id
}

// waiting is the oldest call under an id that has no result, else the newest; nil without one.
func (u *uses) waiting(id string) *use {
	for _, one := range u.of[id] {
		if !one.answered {
			return one
		}
	}
	return u.last(id)
}

// start is a call that begins. The START of a call that is open is left to the grammar, which refuses it as the official
// clients do.
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

// result is the key of the call that a result is of: the oldest without one, as parallel calls are answered in their order.
func (u *uses) result(id string) string {
	one := u.waiting(id)
	if one == nil {
		return id
	}
	one.answered, one.open = true, false
	return one.key
}

// onChunk gives a chunk the key of its call. Chunks may repeat the id and the name of the call that they go on with, so a
// chunk begins another call only where it cannot be more of the one before: under another name, after a result, or after
// arguments that are complete.
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

// onOutcome gives the calls that a run waits for their keys.
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

// braces follows a JSON object, or array, to its end.
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
