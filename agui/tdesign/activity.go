package tdesign

import (
	"bytes"
	"encoding/json"
	"slices"

	"aqueduct/agui"
)

// activities are those shown since the last RUN_STARTED. TDesign knows them by
// their type: a snapshot always draws a new block, and a delta changes the last
// block of its type.
type activities struct {
	byID  map[string]*activity
	last  map[string]string // type -> the id whose block is the last of it
	order []string
}

type activity struct {
	kind    string
	content json.RawMessage
	stale   bool // changed while another block of its type was the last
}

// activitySnapshot sends the first picture of an activity as it is and every
// later one as the changes to it.
func (d *dialect) activitySnapshot(e *agui.ActivitySnapshot, event []byte) {
	a := d.activities.byID[e.MessageID]
	switch {
	case a == nil || a.kind != e.ActivityType:
		if a == nil {
			d.activities.order = append(d.activities.order, e.MessageID)
		}
		d.activities.byID[e.MessageID] = &activity{kind: e.ActivityType, content: e.Content}
		d.activities.last[e.ActivityType] = e.MessageID
		d.shown = true
		d.pass(event)
	case e.Replace != nil && !*e.Replace:
	default:
		d.redraw(e.MessageID, a, e.Content)
	}
}

// activityDelta: one for an activity of an earlier run has nothing to change; its
// block is not in this bubble.
func (d *dialect) activityDelta(e *agui.ActivityDelta, event []byte) {
	a := d.activities.byID[e.MessageID]
	if a == nil {
		return
	}
	patched, err := agui.ApplyPatch(a.content, e.Patch)
	if err != nil {
		return
	}
	if d.activities.last[a.kind] == e.MessageID && patchAlike(a.content, e.Patch) {
		a.content = patched
		d.pass(event)
		return
	}
	d.redraw(e.MessageID, a, patched)
}

// redraw changes the block of an activity to a new content. A block that is not
// the last of its type cannot be reached; it is drawn once more at the end.
func (d *dialect) redraw(id string, a *activity, content json.RawMessage) {
	patch := difference(a.content, content)
	a.content = content
	switch {
	case patch == nil:
	case d.activities.last[a.kind] != id:
		a.stale = true
	default:
		d.send(&agui.ActivityDelta{MessageID: id, ActivityType: a.kind, Patch: patch})
	}
}

func (d *dialect) closeActivities() {
	for _, id := range d.activities.order {
		if a := d.activities.byID[id]; a.stale {
			a.stale = false
			d.activities.last[a.kind] = id
			d.send(&agui.ActivitySnapshot{MessageID: id, ActivityType: a.kind, Content: a.content})
		}
	}
}

func patchAlike(content, patch json.RawMessage) bool {
	var doc any
	var ops []operation
	if json.Unmarshal(content, &doc) != nil || json.Unmarshal(patch, &ops) != nil {
		return false
	}
	return !slices.ContainsFunc(ops, func(o operation) bool {
		return !appliesAlike(doc, &o, segments(o.Path))
	})
}

// difference is a patch from one object to another that touches top-level
// members only, which is always understood; nil when there is none.
func difference(from, to json.RawMessage) json.RawMessage {
	old, next := membersOf(from), membersOf(to)
	patch := []byte{'['}
	add := func(op, key string, val json.RawMessage) {
		if len(patch) > 1 {
			patch = append(patch, ',')
		}
		patch = append(append(patch, `{"op":"`...), op...)
		patch = agui.AppendString(append(patch, `","path":`...), "/"+agui.EscapePointer(key))
		if val != nil {
			patch = append(append(patch, `,"value":`...), val...)
		}
		patch = append(patch, '}')
	}
	for _, m := range next {
		switch was := find(old, m.key); {
		case was == nil:
			add("add", m.key, m.val)
		case !bytes.Equal(was, m.val):
			add("replace", m.key, m.val)
		}
	}
	for _, m := range old {
		if find(next, m.key) == nil {
			add("remove", m.key, nil)
		}
	}
	if len(patch) == 1 {
		return nil
	}
	return append(patch, ']')
}
