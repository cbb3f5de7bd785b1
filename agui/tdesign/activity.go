// This file shows activities. TDesign addresses an activity by its type and not by its id, and its
// patch code differs from RFC 6902, so a change is often sent in another form than the log has it.

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

// activity is one of them. Its content is what the page has, once close has drawn what is stale.
type activity struct {
	kind    string
	content json.RawMessage
	stale   bool // changed while another block of its type was the last
}

// snapshot sends the first picture of an activity as it is, which draws a block, and every
// later one as the changes to it.
func (as *activities) snapshot(out *frames, e *agui.ActivitySnapshot, event []byte) (drawn bool) {
	a := as.byID[e.MessageID]
	switch {
	case a == nil || a.kind != e.ActivityType:
		if a == nil {
			as.order = append(as.order, e.MessageID)
		}
		as.byID[e.MessageID] = &activity{kind: e.ActivityType, content: e.Content}
		as.last[e.ActivityType] = e.MessageID
		out.pass(event)
		return true
	case e.Replace != nil && !*e.Replace:
	default:
		as.redraw(out, e.MessageID, a, e.Content)
	}
	return false
}

// delta: one for an activity of an earlier run has nothing to change; its block is not in this
// bubble. A patch that does not apply is dropped: the log was checked before it was written, so the
// activity is one that this stream has not seen from its beginning.
func (as *activities) delta(out *frames, e *agui.ActivityDelta, event []byte) {
	a := as.byID[e.MessageID]
	if a == nil {
		return
	}
	patched, err := agui.ApplyPatch(a.content, e.Patch)
	if err != nil {
		return
	}
	if as.last[a.kind] == e.MessageID && patchAlike(a.content, e.Patch) {
		a.content = patched
		out.pass(event)
		return
	}
	as.redraw(out, e.MessageID, a, patched)
}

// redraw changes the block of an activity to a new content. A block that is not
// the last of its type cannot be reached; it is drawn once more at the end.
func (as *activities) redraw(out *frames, id string, a *activity, content json.RawMessage) {
	patch := difference(a.content, content)
	a.content = content
	switch {
	case patch == nil:
	case as.last[a.kind] != id:
		a.stale = true
	default:
		out.send(&agui.ActivityDelta{MessageID: id, ActivityType: a.kind, Patch: patch})
	}
}

// close draws the blocks that could not be changed where they stand.
func (as *activities) close(out *frames) {
	for _, id := range as.order {
		if a := as.byID[id]; a.stale {
			a.stale = false
			as.last[a.kind] = id
			out.send(&agui.ActivitySnapshot{MessageID: id, ActivityType: a.kind, Content: a.content})
		}
	}
}

// patchAlike reports whether TDesign and RFC 6902 make the same of a patch. It works on a decoded
// copy, on which each operation is performed before the next one is judged.
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
