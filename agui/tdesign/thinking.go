// This file shows thoughts.

package tdesign

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"aqueduct/agui"
)

// thinking is the one open thinking block. TDesign shows the retired THINKING_* events only.
type thinking struct {
	open    bool
	message bool   // a thought is open in it
	held    []byte // deltas that must not be sent yet
	free    bool   // nothing needs to be held any more
}

// start opens the block, with the title that THINKING_START has and REASONING_START does not. The dialect has already closed
// the open block.
func (t *thinking) start(out *frames, e *agui.ReasoningStart) {
	*t = thinking{open: true}
	var metadata map[string]struct {
		Title string `json:"title"`
	}
	event := []byte(`{"type":"THINKING_START"}`)
	if _ = json.Unmarshal(e.Metadata, &metadata); metadata[agui.UnknownMembersKey].Title != "" {
		event = append(agui.AppendString(append(event[:len(event)-1], `,"title":`...), metadata[agui.UnknownMembersKey].Title), '}')
	}
	out.pass(event)
}

// startMessage begins a thought in the block, and ends the one before it.
func (t *thinking) startMessage(out *frames) {
	t.endMessage(out)
	t.message, t.free = true, false
	out.pass([]byte(`{"type":"THINKING_TEXT_MESSAGE_START"}`))
}

// content holds deltas back while their text may still be valid JSON: of two such TDesign keeps the
// second only ("20", "26", " ok" reads "26 ok").
func (t *thinking) content(out *frames, delta string) {
	if t.free {
		sendThought(out, delta)
		return
	}
	t.held = append(t.held, delta...)
	if neverJSON(t.held) {
		t.free = true
		t.release(out)
	}
}

// release sends what was held.
func (t *thinking) release(out *frames) {
	held := string(t.held)
	t.held = t.held[:0]
	sendThought(out, held)
}

// sendThought emits a delta of the open thought; an empty delta sends no frame.
func sendThought(out *frames, delta string) {
	if delta == "" {
		return
	}
	event := agui.AppendString([]byte(`{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":`), delta)
	out.pass(append(event, '}'))
}

// endMessage ends the thought. What was held until now is JSON as a whole, which is harmless once
// nothing follows it.
func (t *thinking) endMessage(out *frames) {
	if !t.message {
		return
	}
	t.release(out)
	t.message = false
	out.pass([]byte(`{"type":"THINKING_TEXT_MESSAGE_END"}`))
}

// end ends the block and the thought in it, if they are open.
func (t *thinking) end(out *frames) {
	if !t.open {
		return
	}
	t.endMessage(out)
	t.open = false
	out.pass([]byte(`{"type":"THINKING_END"}`))
}

// maxHeld bounds how much of a thought is looked at for being JSON; a thought
// that begins with so long a document is sent as it is.
const maxHeld = 4096

// neverJSON reports whether no continuation of text can be valid JSON.
// One complete value with nothing behind it may go on: "20" may become "2026".
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
