// This file is the part of Fold that keeps activities, and the check of their events before they are
// written. A client cannot check for itself: the official one applies the patch with a library that
// throws, and an exception there ends the stream of the whole Run.

package agui

import (
	"bytes"
	"encoding/json"
)

// Why an activity event is rejected, stable words for clients.
const (
	ActivityUnknown    = "unknown_activity" // a delta for what was never shown
	ActivityOtherType  = "type_changed"     // a delta of another type than what is shown
	ActivityBadPatch   = "invalid_patch"    // no JSON Patch at all
	ActivityUnfitPatch = "does_not_apply"   // a patch that fails on what is shown
	ActivityNoObject   = "not_an_object"    // content, or what a patch makes of it
	ActivityTooLarge   = "too_large"        // beyond [MaxStateBytes] or [MaxJSONDepth]
)

// ActivityError reports why an activity event may not be passed on.
type ActivityError struct {
	MessageID string
	Reason    string
	Cause     error // may be nil
}

// Error implements error.
func (e *ActivityError) Error() string {
	text := "agui: activity " + e.MessageID + ": " + e.Reason
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap gives the cause.
func (e *ActivityError) Unwrap() error { return e.Cause }

// CheckActivity verifies an activity event against what the Fold holds: its content is an
// object within the bounds of a state, and a patch is well formed and applies. Official
// clients throw the whole stream away for a malformed one. Other events pass.
func (f *Fold) CheckActivity(ev Event) error {
	switch e := ev.(type) {
	case *ActivitySnapshot:
		return checkContent(e.MessageID, e.Content)
	case *ActivityDelta:
		shown, known := f.Activity(e.MessageID)
		return checkDelta(shown, known, e)
	}
	return nil
}

// checkDelta applies the patch to what is shown, because only the result reports whether the content
// is still an object. The Fold itself is not changed: Apply does that when the event has been
// written.
func checkDelta(shown Message, known bool, e *ActivityDelta) error {
	reject := func(reason string, cause error) error { return &ActivityError{e.MessageID, reason, cause} }
	if !known {
		return reject(ActivityUnknown, nil)
	}
	if shown.ActivityType != e.ActivityType {
		return reject(ActivityOtherType, nil)
	}
	list, err := readPatch(e.Patch)
	if err != nil {
		return reject(ActivityBadPatch, err)
	}
	content := shown.Activity
	if len(content) == 0 {
		content = json.RawMessage("{}")
	}
	patched, err := applyRead(content, e.Patch, list)
	if err != nil {
		return reject(ActivityUnfitPatch, err)
	}
	return checkContent(e.MessageID, patched)
}

// checkContent verifies a content that a client would show. Absent content is fine, because it is
// written as {}.
func checkContent(id string, content json.RawMessage) error {
	switch {
	case len(content) == 0: // is written as {}
	case len(content) > MaxStateBytes || tooDeep(content):
		return &ActivityError{MessageID: id, Reason: ActivityTooLarge}
	case !json.Valid(content) || !bytes.HasPrefix(bytes.TrimLeft(content, " \t\r\n"), []byte("{")):
		return &ActivityError{MessageID: id, Reason: ActivityNoObject}
	}
	return nil
}

// activity shows a snapshot. Without replace, a snapshot of a known id changes nothing but the
// metadata: clients use that to make sure that an activity is there without resetting it.
func (f *Fold) activity(e *ActivitySnapshot) {
	m := Message{
		ID: e.MessageID, Role: RoleActivity, ActivityType: e.ActivityType, Activity: e.Content,
		SubagentRunID: e.SubagentRunID,
	}
	have := f.byID[m.ID]
	replace := e.Replace == nil || *e.Replace
	switch {
	case have == nil:
		have = f.push(m)
		have.changed = true
	case replace:
		if have.Role == RoleActivity {
			m.Metadata = have.Metadata // of the activity, not of one picture of it
		}
		*have = folded{Message: m, changed: true}
	case have.Role != RoleActivity:
		return
	}
	have.annotate(e.Metadata)
}

// patchActivity keeps what it has when the patch does not fit.
func (f *Fold) patchActivity(e *ActivityDelta) {
	m := f.byID[e.MessageID]
	if m == nil || m.Role != RoleActivity {
		return
	}
	m.annotate(e.Metadata)
	content := m.Activity
	if len(content) == 0 {
		content = json.RawMessage("{}")
	}
	patched, err := ApplyPatch(content, e.Patch)
	if err != nil || len(patched) == 0 || patched[0] != '{' {
		return
	}
	m.Activity, m.ActivityType, m.changed = patched, e.ActivityType, true
}

// Activity is the activity of an id as it stands; false when there is none.
func (f *Fold) Activity(id string) (Message, bool) {
	m := f.byID[id]
	if m == nil || m.Role != RoleActivity {
		return Message{}, false
	}
	return m.Message, true
}
