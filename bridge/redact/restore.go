package redact

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Restore puts the originals back into edited arguments, where the editor left masked strings in their places. It fails
// when a mask stands anywhere else.
// Who edits arguments before approving them sees the masked ones. A mask that stays where it was stands for the original
// at the same place; one that was moved or written by hand would otherwise run as the text "[redacted]".
func Restore(masked, original, edited []byte) ([]byte, bool) {
	m, o, e := decoded(masked), decoded(original), decoded(edited)
	whole, ok := restored(m, o, e)
	if !ok {
		return nil, false
	}
	out, err := encoded(whole)
	return out, err == nil
}

// decoded keeps numbers as they are written: a long one must not lose digits on its way through an edit.
func decoded(raw []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// restored is the edited value e with the originals of o in the place of masks; false where a mask has none. m is the
// value that the editor was shown. It walks the edited value and looks into the two others by the same names and
// indices: an item that was moved within a list has no counterpart, so a mask in it fails.
func restored(m, o, e any) (any, bool) {
	switch e := e.(type) {
	case string:
		if !strings.Contains(e, Mask) {
			return e, true
		}
		was, isText := o.(string)
		if shown, ok := m.(string); ok && isText && shown == e {
			return was, true
		}
		return nil, false
	case map[string]any:
		mm, _ := m.(map[string]any)
		om, _ := o.(map[string]any)
		for name, member := range e {
			whole, ok := restored(mm[name], om[name], member)
			if !ok {
				return nil, false
			}
			e[name] = whole
		}
		return e, true
	case []any:
		ml, _ := m.([]any)
		ol, _ := o.([]any)
		for i, item := range slices.Clone(e) {
			var shown, was any
			if i < len(ml) && i < len(ol) {
				shown, was = ml[i], ol[i]
			}
			whole, ok := restored(shown, was, item)
			if !ok {
				return nil, false
			}
			e[i] = whole
		}
		return e, true
	}
	return e, true
}
