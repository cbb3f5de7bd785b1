package bridge

import (
	"encoding/json"
	"errors"

	"aqueduct/agui"
)

// activities checks the activity events of an open Run against what clients show.
type activities struct {
	fold    *agui.Fold
	sought  map[string]bool // were looked for in earlier Runs
	refused map[string]bool // their last change was not applied
}

// activityOf is the activity that an event shows or changes.
func activityOf(ev agui.Event) string {
	switch e := ev.(type) {
	case *agui.ActivitySnapshot:
		return e.MessageID
	case *agui.ActivityDelta:
		return e.MessageID
	}
	return ""
}

// on passes an event on if it is no activity, or one that applies to what clients show. One that does not apply becomes a
// warning and, for an activity that is shown, its content as it stands: official clients drop a whole stream for a
// malformed patch, and warn of one that does not fit. The content is repeated once until a change applies again: an agent
// that sends nothing but wrong patches must not have a large activity written for each.
// What decides is the fold, which is what clients do with the events.
func (a *activities) on(ev agui.Event) []agui.Event {
	err := a.fold.CheckActivity(ev)
	if err == nil {
		delete(a.refused, activityOf(ev))
		return []agui.Event{ev}
	}
	var rejected *agui.ActivityError
	if !errors.As(err, &rejected) {
		return nil
	}
	out := []agui.Event{&agui.Custom{Name: "activity_not_applied", Value: mustJSON(struct {
		MessageID string `json:"messageId"`
		Event     string `json:"event"`
		Code      string `json:"code"`
	}{rejected.MessageID, string(ev.EventType()), rejected.Reason})}}
	shown, ok := a.fold.Activity(rejected.MessageID)
	if _, delta := ev.(*agui.ActivityDelta); !ok || !delta || a.refused[shown.ID] {
		return out
	}
	if a.refused == nil {
		a.refused = make(map[string]bool)
	}
	a.refused[shown.ID] = true
	return append(out, &agui.ActivitySnapshot{
		Sub: agui.Sub{SubagentRunID: shown.SubagentRunID}, MessageID: shown.ID, ActivityType: shown.ActivityType,
		Content: append(json.RawMessage(nil), shown.Activity...),
	})
}

// lacks is the activity that a delta changes and that this Run does not know: an earlier Run may have shown it, and
// clients still do. Each is looked for once.
func (a *activities) lacks(ev agui.Event) (id string, lacks bool) {
	delta, ok := ev.(*agui.ActivityDelta)
	if !ok || a.sought[delta.MessageID] {
		return "", false
	}
	_, known := a.fold.Activity(delta.MessageID)
	return delta.MessageID, !known
}

// restore takes an activity from the transcript, if it stands there.
// It counts as sought in either case: what earlier Runs left in the transcript stays as it is while this one is open,
// so an unknown id is looked for once and not again for each delta.
func (a *activities) restore(id string, past []pastMessage) {
	for i := len(past) - 1; i >= 0; i-- {
		if m := &past[i].message; m.ID == id && m.Role == agui.RoleActivity {
			a.fold.Restore(*m)
			break
		}
	}
	if a.sought == nil {
		a.sought = make(map[string]bool)
	}
	a.sought[id] = true
}
