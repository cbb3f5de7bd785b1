package tdesign

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"aqueduct/agui"
)

// thinking is the one open thinking block. TDesign shows THINKING_* only, and
// whatever comes inside an open block is drawn in it: a tool's card would be
// invisible, a text would leave the block "thinking" for ever.
type thinking struct {
	open    bool
	message bool
	held    []byte // deltas that must not be sent yet
	free    bool   // nothing needs to be held any more
}

func (d *dialect) thinkingStart() {
	if d.thinking.open {
		return
	}
	d.closeText()
	d.thinking = thinking{open: true}
	d.shown = true
	d.sendJSON(`{"type":"THINKING_START"}`)
}

func (d *dialect) thoughtStart() {
	d.thinkingStart()
	d.thoughtEnd()
	d.thinking.message, d.thinking.free = true, false
	d.sendJSON(`{"type":"THINKING_TEXT_MESSAGE_START"}`)
}

// thoughtContent holds deltas back while their text may still be valid JSON:
// of two such TDesign keeps the second only ("20", "26", " ok" reads "26 ok").
func (d *dialect) thoughtContent(delta string) {
	if !d.thinking.message {
		d.thoughtStart()
	}
	if d.thinking.free {
		d.sthoughtEnd(delta)
		return
	}
	d.thinking.held = append(d.thinking.held, delta...)
	if neverJSON(d.thinking.held) {
		d.thinking.free = true
		d.releaseThought()
	}
}

func (d *dialect) releaseThought() {
	if len(d.thinking.held) > 0 {
		held := string(d.thinking.held)
		d.thinking.held = d.thinking.held[:0]
		d.sthoughtEnd(held)
	}
}

func (d *dialect) sthoughtEnd(delta string) {
	if delta == "" {
		return
	}
	event := agui.AppendString([]byte(`{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":`), delta)
	d.sendJSON(string(append(event, '}')))
}

func (d *dialect) thoughtEnd() {
	if !d.thinking.message {
		return
	}
	d.releaseThought()
	d.thinking.message = false
	d.sendJSON(`{"type":"THINKING_TEXT_MESSAGE_END"}`)
}

func (d *dialect) closeThinking() {
	if !d.thinking.open {
		return
	}
	d.thoughtEnd()
	d.thinking.open = false
	d.sendJSON(`{"type":"THINKING_END"}`)
}

// maxHeld bounds how much of a thought is looked at for being JSON; a thought
// that begins with so long a document is sent as it is.
const maxHeld = 4096

// neverJSON tells whether no continuation of text can be valid JSON.
func neverJSON(text []byte) bool {
	if len(text) > maxHeld {
		return true
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	var value json.RawMessage
	switch err := dec.Decode(&value); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return false
	case err != nil:
		return true
	}
	rest := text[dec.InputOffset():]
	return len(bytes.TrimSpace(rest)) > 0
}
