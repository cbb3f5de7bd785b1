package redact

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Restore is edited arguments, made by somebody who saw them masked, with the originals of the masked strings that were
// left as they are at their place. It fails when a mask stands anywhere else.
func Restore(masked, original, edited []byte) ([]byte, bool) {
	m, o, e := decoded(masked), decoded(original), decoded(edited)
	whole, ok := restored(m, o, e)
	if !ok {
		return nil, false
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(whole) != nil {
		return nil, false
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), true
}

// decoded keeps numbers as they are written.
func decoded(raw []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

func restored(m, o, e any) (any, bool) {
	switch e := e.(type) {
	case string:
		if !bytes.Contains([]byte(e), maskBytes) {
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
