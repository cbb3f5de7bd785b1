package bridge

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

	"aqueduct/agui"
)

// What is kept of a Run's changes is bounded: by keys, by values of a key, and by the bytes held until the Run ends. Of
// more values than that the newest replaces the one before it. Keys beyond the bound are not recorded: there the last
// writer wins.
const (
	maxChangedKeys   = 512
	maxChangedKey    = 256 // bytes of its name
	maxChangedValues = 32
	maxChangedBytes  = 1 << 20
)

// stateChanges are the values that each changed top-level key had in a Run: first the one from before it, nil when the
// key was not there. They are hashed when the Run ends, because hashing each value of each delta would cost more than
// the delta.
type stateChanges struct {
	values map[string][]json.RawMessage
	bytes  int
}

// The first value is the one from before the Run; the others are those a reader may have got as its last.
func (c *stateChanges) note(key string, before, after json.RawMessage) {
	if bytes.Equal(before, after) {
		return
	}
	values := c.values[key]
	switch {
	case values == nil && (len(c.values) == maxChangedKeys || len(key) > maxChangedKey):
		return
	case values == nil:
		if c.values == nil {
			c.values = make(map[string][]json.RawMessage)
		}
		values = []json.RawMessage{before, after}
		c.bytes += len(before) + len(after)
	case len(values) == maxChangedValues, c.bytes+len(after) > maxChangedBytes:
		last := &values[len(values)-1]
		c.bytes += len(after) - len(*last)
		*last = after
	default:
		values = append(values, after)
		c.bytes += len(after)
	}
	c.values[key] = values
}

// between notes what is different in a state that replaces another.
func (c *stateChanges) between(before, after *agui.StateDoc) {
	for _, key := range before.Keys() {
		c.note(key, before.Key(key), after.Key(key))
	}
	for _, key := range after.Keys() {
		if before.Key(key) == nil {
			c.note(key, nil, after.Key(key))
		}
	}
}

// encode gives the changes as they are kept; nil without any.
// Hashes of nine bytes are enough to tell values of one key apart, and keep a Run's row small; nothing of a state can
// be read from them.
func (c *stateChanges) encode() []byte {
	hashes := make(map[string][]string, len(c.values))
	for key, values := range c.values {
		for _, v := range values {
			hashes[key] = append(hashes[key], valueHash(v))
		}
	}
	if len(hashes) == 0 {
		return nil
	}
	return mustJSON(hashes)
}

// valueHash is the same for all spellings of a JSON value that mean the same to a client in JavaScript, which reorders
// members and rounds numbers to float64: what it sends back unchanged must not look changed. A value that is not there
// has the hash "".
func valueHash(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var v any
	if json.Unmarshal(raw, &v) == nil {
		raw = mustJSON(v)
	}
	sum := sha256.Sum256(raw)
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}
