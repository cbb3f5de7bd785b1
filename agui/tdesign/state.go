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
	sent map[string]bool // keys this stream has told, so that they can be patched
}

func (s *states) begin(before json.RawMessage) {
	doc, err := agui.NewStateDoc(before)
	if err != nil {
		doc = new(agui.StateDoc)
	}
	s.doc, s.sent = doc, make(map[string]bool)
}

// stateSnapshot tells the new state; keys that are gone become null, since
// leaving them out would leave them standing.
func (d *dialect) stateSnapshot(e *agui.StateSnapshot) {
	before := membersOf(d.state.doc.JSON())
	if d.state.doc.Snapshot(e.Snapshot) != nil {
		return
	}
	d.tellAll(before)
}

func (d *dialect) tellAll(before []member) {
	after := membersOf(d.state.doc.JSON())
	for _, m := range before {
		if d.state.doc.Key(m.key) == nil {
			after = append(after, member{m.key, json.RawMessage("null")})
		}
	}
	d.tell(after)
}

// tell sends a snapshot of some keys.
func (d *dialect) tell(list []member) {
	snapshot := []byte{'{'}
	for _, m := range list {
		d.state.sent[m.key] = true
		snapshot = append(appendName(snapshot, []byte(m.key)), m.val...)
	}
	if len(list) > 0 {
		d.send(&agui.StateSnapshot{Snapshot: append(snapshot, '}')})
	}
}

// stateDelta sends one delta a key, and a snapshot of the key where TDesign would
// apply the delta differently or has nothing to apply it to.
func (d *dialect) stateDelta(e *agui.StateDelta) {
	var ops []operation
	if json.Unmarshal(e.Delta, &ops) != nil {
		return
	}
	before := d.state.doc.JSON()
	if d.state.doc.Patch(e.Delta) != nil {
		return
	}
	old, err := agui.NewStateDoc(before)
	if err != nil {
		return
	}
	groups, ok := byKey(ops)
	if !ok {
		d.tellAll(membersOf(before))
		return
	}
	for _, g := range groups {
		if d.state.sent[g.key] && g.alike(old.Key(g.key)) {
			if len(g.ops) > 0 {
				d.send(&agui.StateDelta{Delta: patchOf(g.ops)})
			}
			continue
		}
		val := d.state.doc.Key(g.key)
		if val == nil {
			val = json.RawMessage("null")
		}
		d.tell([]member{{g.key, val}})
	}
}

// group is the operations of a patch on one key.
type group struct {
	key     string
	ops     []operation
	crosses bool // it takes something from another key, or gives
}

// byKey sorts operations by their key; ok is false when one is about the whole
// document. Tests are left out: they have been passed, and TDesign's next engine
// drops an event that has one.
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

// alike tells whether TDesign would make of the key's value what we have made.
func (g *group) alike(before json.RawMessage) bool {
	var doc any
	if g.crosses || json.Unmarshal(before, &doc) != nil {
		return false
	}
	for i := range g.ops {
		if !appliesAlike(doc, &g.ops[i], segments(g.ops[i].Path)[1:]) {
			return false
		}
	}
	return true
}
