// This file keeps the page's state equal to the thread's. A page outlives streams: it keeps what
// earlier ones have sent, so a key that a stream has not sent yet may hold anything in the page and
// must be sent whole first.

package tdesign

import (
	"encoding/json"

	"aqueduct/agui"
)

// states follows the thread's state. TDesign keeps a value for each top-level
// key, for as long as the page lives: a snapshot sets the keys it has and no
// others, a delta changes the key its first operation names and no other.
type states struct {
	doc  *agui.StateDoc
	sent map[string]bool // keys this stream has sent, so that they can be patched
}

// begin takes the state before the run. One that cannot be read counts as empty.
func (s *states) begin(before json.RawMessage) {
	doc, err := agui.NewStateDoc(before)
	if err != nil {
		doc = new(agui.StateDoc)
	}
	s.doc, s.sent = doc, make(map[string]bool)
}

// snapshot sends the new state; keys that are gone become null, since leaving them out would leave
// them standing.
func (s *states) snapshot(out *frames, e *agui.StateSnapshot) {
	before := membersOf(s.doc.JSON())
	if s.doc.Snapshot(e.Snapshot) != nil {
		return
	}
	s.sendAll(out, before)
}

// sendAll sends the whole state, and null for the keys that were there before and are gone.
func (s *states) sendAll(out *frames, before []member) {
	after := membersOf(s.doc.JSON())
	for _, m := range before {
		if s.doc.Key(m.key) == nil {
			after = append(after, member{m.key, json.RawMessage("null")})
		}
	}
	s.send(out, after)
}

// send sends a snapshot of some keys.
func (s *states) send(out *frames, list []member) {
	snapshot := []byte{'{'}
	for _, m := range list {
		s.sent[m.key] = true
		snapshot = append(appendName(snapshot, []byte(m.key)), m.val...)
	}
	if len(list) > 0 {
		out.send(&agui.StateSnapshot{Snapshot: append(snapshot, '}')})
	}
}

// delta sends one delta a key, and a snapshot of the key where TDesign would
// apply the delta differently or has nothing to apply it to.
func (s *states) delta(out *frames, e *agui.StateDelta) {
	var ops []operation
	if json.Unmarshal(e.Delta, &ops) != nil {
		return
	}
	before := s.doc.JSON()
	if s.doc.Patch(e.Delta) != nil {
		return
	}
	old, err := agui.NewStateDoc(before)
	if err != nil {
		return
	}
	groups, ok := byKey(ops)
	if !ok {
		s.sendAll(out, membersOf(before))
		return
	}
	for _, g := range groups {
		if s.sent[g.key] && g.alike(old.Key(g.key)) {
			if len(g.ops) > 0 {
				out.send(&agui.StateDelta{Delta: patchOf(g.ops)})
			}
			continue
		}
		val := s.doc.Key(g.key)
		if val == nil {
			val = json.RawMessage("null")
		}
		s.send(out, []member{{g.key, val}})
	}
}

// group is the operations of a patch on one key.
type group struct {
	key     string
	ops     []operation
	crosses bool // it takes something from another key, or gives
}

// byKey sorts operations by their key; ok is false when one is about the whole document. Tests are
// left out: they have been passed, and TDesign's next engine drops an event that has one. TDesign
// applies a delta to the key that its first operation names and to no other, so each key gets a
// delta of its own.
func byKey(ops []operation) (groups []*group, ok bool) {
	at := make(map[string]*group)
	touch := func(pointer string) *group {
		path := segments(pointer)
		if len(path) == 0 {
			return nil
		}
		if at[path[0]] == nil {
			at[path[0]] = &group{key: path[0]}
			groups = append(groups, at[path[0]])
		}
		return at[path[0]]
	}
	for _, o := range ops {
		if o.Op == "test" {
			continue
		}
		g := touch(o.Path)
		if g == nil {
			return nil, false
		}
		g.ops = append(g.ops, o)
		if o.Op != "move" && o.Op != "copy" {
			continue
		}
		g.crosses = true
		if o.Op == "move" {
			if from := touch(o.From); from != nil {
				from.crosses = true
			}
		}
	}
	return groups, true
}

// alike reports whether TDesign would give the key the value that it has here.
func (g *group) alike(before json.RawMessage) bool {
	var doc any
	if g.crosses || g.key == "" || json.Unmarshal(before, &doc) != nil {
		return false
	}
	for i := range g.ops {
		if !appliesAlike(doc, &g.ops[i], segments(g.ops[i].Path)[1:]) {
			return false
		}
	}
	return true
}
