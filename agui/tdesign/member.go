// This file takes JSON objects apart without changing their values.

package tdesign

import (
	"bytes"
	"encoding/json"

	"aqueduct/agui"
)

// member is one member of a JSON object, in the order it was written.
type member struct {
	key string
	val json.RawMessage
}

// membersOf takes an object apart; anything else has no members.
// The values are copied: the object may be a buffer that is used again.
func membersOf(raw json.RawMessage) []member {
	var list []member
	if !json.Valid(raw) {
		return nil
	}
	err := agui.EachMember(raw, func(key, val []byte) error {
		list = append(list, member{string(key), bytes.Clone(val)})
		return nil
	})
	if err != nil {
		return nil
	}
	return list
}

// find is the value of a key, nil when the list has none.
func find(list []member, key string) json.RawMessage {
	for i := range list {
		if list[i].key == key {
			return list[i].val
		}
	}
	return nil
}
