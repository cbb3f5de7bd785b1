package modelform

import (
	"bytes"
	"encoding/json"
)

// anyObject is the schema of a tool without parameters.
const anyObject = `{"type":"object","properties":{}}`

// Schema returns a tool's schema in a form that all providers accept: it is of an object, and every array in it has items. A
// schema that fits does not change.
func Schema(schema json.RawMessage) json.RawMessage {
	var members map[string]any
	decoder := json.NewDecoder(bytes.NewReader(schema))
	decoder.UseNumber() // bounds of numbers keep their digits
	if decoder.Decode(&members) != nil || members == nil {
		return json.RawMessage(anyObject)
	}
	changed := addItems(members)
	if members["type"] != "object" {
		members["type"], changed = "object", true
	}
	if !changed {
		return schema
	}
	out, _ := json.Marshal(members) // members that were decoded encode
	return out
}

// addItems adds items of any kind to arrays without items. The limit of a body bounds the depth.
func addItems(value any) (changed bool) {
	switch v := value.(type) {
	case []any:
		for i := range v {
			changed = addItems(v[i]) || changed
		}
	case map[string]any:
		if _, ok := v["items"]; v["type"] == "array" && !ok {
			v["items"], changed = map[string]any{}, true
		}
		for key := range v {
			changed = addItems(v[key]) || changed
		}
	}
	return changed
}
