// This file joins characters that were cut between two deltas. JavaScript and Java agents cut text
// by UTF-16 units, so an emoji may arrive as two halves in two events; each half alone would be
// shown as a replacement character.

package agui

import (
	"slices"

	"aqueduct/internal/jsontext"
)

// Halves joins characters that a producer cut in two: UTF-16 halves at the end of one delta
// and at the beginning of the next of the same message or call. It keeps a first half back
// until the second comes; a half that stays alone becomes U+FFFD. The zero value is ready.
// A Turn owns one and joins before it admits, because a log holds valid text only. [Decode] keeps the halves. Chunks without
// an id are not joined: which message they continue is known to the Grammar alone, so a stream with chunks is joined after it.
type Halves struct {
	open []openHalf // seldom more than one
}

// openHalf is the first half of a character, and where it belongs.
type openHalf struct {
	ownedItem
	sub  Sub
	half string
}

// Join appends ev to dst with its delta made whole. What is kept back of a message comes
// before the message's end.
func (h *Halves) Join(dst []Event, ev Event) []Event {
	switch e := ev.(type) {
	case *TextMessageContent:
		if h.settled(e.Delta) {
			return append(dst, ev)
		}
		more := *e
		return h.join(dst, &more, &more.Delta, ownedItem{kindText, e.MessageID}, e.Sub)
	case *ReasoningMessageContent:
		if h.settled(e.Delta) {
			return append(dst, ev)
		}
		more := *e
		return h.join(dst, &more, &more.Delta, ownedItem{kindThought, e.MessageID}, e.Sub)
	case *ToolCallArgs:
		if h.settled(e.Delta) {
			return append(dst, ev)
		}
		more := *e
		return h.join(dst, &more, &more.Delta, ownedItem{kindTool, e.ToolCallID}, e.Sub)
	case *TextMessageChunk:
		more := *e
		return h.join(dst, &more, &more.Delta, ownedItem{kindText, e.MessageID}, e.Sub)
	case *ReasoningMessageChunk:
		more := *e
		return h.join(dst, &more, &more.Delta, ownedItem{kindThought, e.MessageID}, e.Sub)
	case *ToolCallChunk:
		more := *e
		return h.join(dst, &more, &more.Delta, ownedItem{kindTool, e.ToolCallID}, e.Sub)
	case *TextMessageEnd, *ReasoningMessageEnd, *ToolCallEnd:
		if m := moveOf(ev); len(h.open) > 0 {
			dst = h.flush(dst, func(o openHalf) bool { return o.ownedItem == ownedItem{m.kind, m.id} })
		}
	}
	return append(dst, ev)
}

// Flush appends what is kept back: nothing follows in this run.
func (h *Halves) Flush(dst []Event) []Event {
	return h.flush(dst, func(openHalf) bool { return true })
}

// settled recognises the bulk of all deltas: nothing is kept back, and nothing in it is half
// a character.
func (h *Halves) settled(delta string) bool {
	if len(h.open) > 0 {
		return false
	}
	for i := 0; i+jsontext.HalfBytes <= len(delta); i++ {
		if delta[i] == 0xED && jsontext.IsHalf(delta[i:]) {
			return false
		}
	}
	return true
}

// join replaces the delta of a copied event. An event whose text is kept back entirely is dropped,
// unless it is a chunk: a chunk may also begin the message.
func (h *Halves) join(dst []Event, ev Event, delta *string, of ownedItem, sub Sub) []Event {
	if of.id == "" { // a chunk without an id: its held half cannot be found
		*delta = jsontext.Valid(*delta)
		return append(dst, ev)
	}
	open := ""
	i := slices.IndexFunc(h.open, func(o openHalf) bool { return o.ownedItem == of })
	if i >= 0 {
		open = h.open[i].half
		h.open = slices.Delete(h.open, i, i+1)
	}
	text, left := jsontext.Join(open, *delta)
	*delta = text
	if left != "" && len(h.open) < maxOpen {
		h.open = append(h.open, openHalf{of, sub, left})
	}
	if begins := moveOf(ev).act == actChunk; text == "" && left != "" && !begins {
		return dst // all of it is kept back
	}
	return append(dst, ev)
}

// flush gives up on halves: the message has ended, so the second half cannot come.
func (h *Halves) flush(dst []Event, which func(openHalf) bool) []Event {
	h.open = slices.DeleteFunc(h.open, func(o openHalf) bool {
		if !which(o) {
			return false
		}
		const lone = "\uFFFD"
		switch sub := (Sub{SubagentRunID: o.sub.SubagentRunID}); o.kind {
		case kindText:
			dst = append(dst, &TextMessageContent{Sub: sub, MessageID: o.id, Delta: lone})
		case kindThought:
			dst = append(dst, &ReasoningMessageContent{Sub: sub, MessageID: o.id, Delta: lone})
		case kindTool:
			dst = append(dst, &ToolCallArgs{Sub: sub, ToolCallID: o.id, Delta: lone})
		}
		return true
	})
	return dst
}
