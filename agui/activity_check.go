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

// ActivityError says why an activity event may not be passed on.
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
		return f.checkDelta(e)
	}
	return nil
}

func (f *Fold) checkDelta(e *ActivityDelta) error {
	reject := func(reason string, cause error) error { return &ActivityError{e.MessageID, reason, cause} }
	shown, ok := f.Activity(e.MessageID)
	if !ok {
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
