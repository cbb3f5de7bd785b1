package translate

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"aqueduct/acpgateway/wire"
)

// maxCarried bounds what a snapshot has of one call's arguments, content or output.
const maxCarried = 2 << 10

// What is so of a call, in a snapshot.
const (
	callArgsSent = 1 << iota
	callAsked
)

// snapshot appends what a call needs to go on. It is false when a person may yet be asked
// about arguments that are too long to be carried: shown without them, they would say yes to
// nothing. Content and output that are too long are left out; its result is the poorer.
func (c *call) snapshot(dst []byte) ([]byte, bool) {
	args := c.args
	if !c.argsSent {
		args = c.seen.RawInput
	}
	if len(args) > maxCarried {
		if !c.asked || !c.argsSent {
			return dst, false
		}
		args = nil
	}
	dst = putNumber(putNumber(putText(dst, c.seen.ID), c.use), c.flags())
	for _, s := range [...]string{c.seen.Title, c.seen.Kind, c.seen.Status, c.seen.Name} {
		dst = putText(dst, head(s, maxName))
	}
	dst = c.stated.snapshot(putText(putText(dst, args), fingerprint(c.diffs)))
	dst = putText(putText(dst, carried(c.content())), carried(c.seen.RawOutput))
	dst = putText(dst, tail(strings.Join(c.outputs, ""), maxCarried))
	return putTexts(dst, slices.Sorted(maps.Keys(c.shown.terminals))), true
}

func (c *call) flags() (flags int) {
	if c.argsSent {
		flags |= callArgsSent
	}
	if c.asked {
		flags |= callAsked
	}
	return flags
}

// content is what is shown of the call so far, as it came; nothing when it is much.
func (c *call) content() json.RawMessage {
	var raws [][]byte
	size := 0
	for _, piece := range c.seen.Content {
		if size += len(piece.Raw); size > maxCarried {
			return nil
		}
		raws = append(raws, piece.Raw)
	}
	if len(raws) == 0 {
		return nil
	}
	return append(append([]byte{'['}, bytes.Join(raws, []byte{','})...), ']')
}

// carried is a value that is short enough for a snapshot, else nothing.
func carried(raw json.RawMessage) json.RawMessage {
	if len(raw) > maxCarried {
		return nil
	}
	return raw
}

// fingerprint is the same for the same JSON, however it is written; nothing for nothing.
func fingerprint(args json.RawMessage) []byte {
	if len(args) == 0 {
		return nil
	}
	sum := sha256.Sum256(marshal(decodeExact(args)))
	return sum[:16]
}

// readCall reads what call.snapshot wrote, in its order. The ids follow from the agent's own, so they are not in it.
func readCall(from *snapshotReader) *call {
	c := &call{shown: picture{terminals: make(map[string]bool)}}
	id := from.text()
	c.use = from.number()
	flags := from.number()
	c.argsSent, c.asked, c.resumed = flags&callArgsSent != 0, flags&callAsked != 0, true
	c.seen = wire.ToolCall{ID: id, Title: from.text(), Kind: from.text(), Status: from.text(), Name: from.text()}
	c.seen.RawInput = given(from.bytes())
	c.diffPrint = given(from.bytes())
	c.stated = readStated(from)
	content := from.bytes()
	_ = json.Unmarshal(content, &c.seen.Content) // as it was read before, or absent
	c.seen.RawOutput = given(from.bytes())
	if said := from.text(); said != "" {
		c.outputs = []string{said}
	}
	for _, id := range from.texts() {
		c.shown.terminals[id] = true
	}
	if c.argsSent {
		c.args = c.seen.RawInput
	}
	c.shown.title, c.shown.kind, c.shown.status = c.seen.Title, c.seen.Kind, c.seen.Status
	return c
}

// given is bytes of their own, nil for none.
func given(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return bytes.Clone(b)
}
