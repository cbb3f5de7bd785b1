package bridge

import (
	"context"
	"encoding/json"
	"errors"

	"aqueduct/agui"
)

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

// verifyActivity passes an activity event on if it applies to what clients show. One that does
// not is a warning, and for an activity that is shown its content as it stands: official
// clients throw a whole stream away for a malformed patch, and warn of one that does not fit.
// The content is repeated once until a change applies again: an agent that sends nothing but
// wrong patches must not have a large activity written for each.
func (r *run) verifyActivity(ev agui.Event) []agui.Event {
	err := r.fold.CheckActivity(ev)
	if err == nil {
		delete(r.activityRefused, activityOf(ev))
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
	shown, ok := r.fold.Activity(rejected.MessageID)
	if _, delta := ev.(*agui.ActivityDelta); !ok || !delta || r.activityRefused[shown.ID] {
		return out
	}
	if r.activityRefused == nil {
		r.activityRefused = make(map[string]bool)
	}
	r.activityRefused[shown.ID] = true
	return append(out, &agui.ActivitySnapshot{
		Sub: agui.Sub{SubagentRunID: shown.SubagentRunID}, MessageID: shown.ID, ActivityType: shown.ActivityType,
		Content: append(json.RawMessage(nil), shown.Activity...),
	})
}

// recallActivity makes the activity that a delta changes known to the Run: an earlier Run may
// have shown it, and clients still do. Each is looked for once.
func (r *run) recallActivity(ctx context.Context, ev agui.Event) error {
	delta, ok := ev.(*agui.ActivityDelta)
	if !ok || r.recalled[delta.MessageID] {
		return nil
	}
	if _, known := r.fold.Activity(delta.MessageID); known {
		return nil
	}
	past, err := r.t.s.m.pasts.of(ctx, r.t.s.id, r.t.s.m.cfg.Limits.Transcript)
	if err != nil {
		return err
	}
	for i := len(past) - 1; i >= 0; i-- {
		if m := &past[i].message; m.ID == delta.MessageID && m.Role == agui.RoleActivity {
			r.fold.Recall(*m)
			break
		}
	}
	if r.recalled == nil {
		r.recalled = make(map[string]bool)
	}
	r.recalled[delta.MessageID] = true
	return nil
}
