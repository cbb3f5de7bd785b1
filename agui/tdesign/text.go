package tdesign

import (
	"bytes"

	"aqueduct/agui"
)

// text is the one text block that is open. TDesign appends every delta to the
// last block whatever message it names, so messages that interleave are told as
// blocks that take turns.
type text struct {
	open    string          // the message's id, or ""
	prefix  []byte          // how its content events begin
	skipped map[string]bool // messages that are not the assistant's
}

// continuedBy recognises the bulk of a stream, more of the open message, without
// decoding it.
func (t *text) continuedBy(event []byte) bool {
	return t.open != "" && bytes.HasPrefix(event, t.prefix)
}

func (t *text) become(id string) {
	t.open = id
	t.prefix = append(t.prefix[:0], `{"type":"TEXT_MESSAGE_CONTENT","messageId":`...)
	t.prefix = append(agui.AppendString(t.prefix, id), ',')
}

func (d *dialect) textStart(e *agui.TextMessageStart, event []byte) {
	if e.Role != "" && e.Role != agui.RoleAssistant {
		d.text.skipped[e.MessageID] = true // it would be drawn as the assistant's
		return
	}
	d.closeThinking()
	d.closeText()
	d.text.become(e.MessageID)
	d.shown = true
	d.pass(event)
}

func (d *dialect) textContent(e *agui.TextMessageContent, event []byte) {
	if d.text.skipped[e.MessageID] || e.Delta == "" {
		return
	}
	if d.text.open != e.MessageID {
		d.closeThinking()
		d.closeText()
		d.text.become(e.MessageID)
		d.shown = true
		d.send(&agui.TextMessageStart{MessageID: e.MessageID, Role: agui.RoleAssistant})
	}
	d.pass(event)
}

func (d *dialect) textEnd(e *agui.TextMessageEnd, event []byte) {
	if d.text.skipped[e.MessageID] {
		delete(d.text.skipped, e.MessageID)
		return
	}
	if d.text.open == e.MessageID {
		d.text.open = ""
		d.pass(event)
	}
}

func (d *dialect) closeText() {
	if d.text.open != "" {
		d.send(&agui.TextMessageEnd{MessageID: d.text.open})
		d.text.open = ""
	}
}
