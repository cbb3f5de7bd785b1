// This file shows texts.

package tdesign

import (
	"bytes"

	"aqueduct/agui"
)

// text is the one text block that is open. TDesign appends every delta to the
// last block whatever message it names, so messages that interleave are sent as
// alternating blocks.
type text struct {
	open    string          // the message's id, or ""
	prefix  []byte          // how its content events begin
	skipped map[string]bool // messages that are not the assistant's
}

// continuedBy recognises the bulk of a stream, more of the open message, without decoding it. This
// is the path of a delta: it compares bytes with a prefix made once for each message, and allocates
// nothing.
func (t *text) continuedBy(event []byte) bool {
	return t.open != "" && bytes.HasPrefix(event, t.prefix)
}

// become makes a message the open one.
func (t *text) become(id string) {
	t.open = id
	t.prefix = append(t.prefix[:0], `{"type":"TEXT_MESSAGE_CONTENT","messageId":`...)
	t.prefix = append(agui.AppendString(t.prefix, id), ',')
}

// end ends a message, if it is the open one: the end of one that was interrupted has been sent
// already.
func (t *text) end(out *frames, id string, event []byte) {
	if t.skipped[id] {
		delete(t.skipped, id)
		return
	}
	if t.open == id {
		t.open = ""
		out.pass(event)
	}
}

// close ends the open message before its own end has come.
func (t *text) close(out *frames) {
	if t.open != "" {
		out.send(&agui.TextMessageEnd{MessageID: t.open})
		t.open = ""
	}
}
