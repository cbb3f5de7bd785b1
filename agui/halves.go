package agui

import (
	"slices"

	"aqueduct/internal/jsontext"
)

// Halves joins characters that a producer cut in two: UTF-16 halves at the end of one delta
// and at the beginning of the next of the same message or call. It keeps a first half back
// until the second comes; a half that stays alone becomes U+FFFD. The zero value is ready.
type Halves struct {
	open []openHalf // seldom more than one
}

// openHalf is the first half of a character, and where it belongs.
type openHalf struct {
	entity
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
		return h.join(dst, &more, &more.Delta, entity{kindText, e.MessageID}, e.Sub)
	case *ReasoningMessageContent:
		if h.settled(e.Delta) {
			return append(dst, ev)
		}
		more := *e
		return h.join(dst, &more, &more.Delta, entity{kindThought, e.MessageID}, e.Sub)
	case *ToolCallArgs:
		if h.settled(e.Delta) {
			return append(dst, ev)
		}
		more := *e
		return h.join(dst, &more, &more.Delta, entity{kindTool, e.ToolCallID}, e.Sub)
	case *TextMessageChunk:
		more := *e
		return h.join(dst, &more, &more.Delta, entity{kindText, e.MessageID}, e.Sub)
	case *ReasoningMessageChunk:
		more := *e
		return h.join(dst, &more, &more.Delta, entity{kindThought, e.MessageID}, e.Sub)
	case *ToolCallChunk:
		more := *e
		return h.join(dst, &more, &more.Delta, entity{kindTool, e.ToolCallID}, e.Sub)
	case *TextMessageEnd, *ReasoningMessageEnd, *ToolCallEnd:
		if k, id, _ := continued(ev); len(h.open) > 0 {
			dst = h.flush(dst, func(o openHalf) bool { return o.entity == entity{k, id} })
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

func (h *Halves) join(dst []Event, ev Event, delta *string, of entity, sub Sub) []Event {
	if of.id == "" { // a chunk of whatever is open: nothing says of what
		*delta = jsontext.Valid(*delta)
		return append(dst, ev)
	}
	open := ""
	i := slices.IndexFunc(h.open, func(o openHalf) bool { return o.entity == of })
	if i >= 0 {
		open = h.open[i].half
		h.open = slices.Delete(h.open, i, i+1)
	}
	text, left := jsontext.Join(open, *delta)
	*delta = text
	if left != "" && len(h.open) < maxOpen {
		h.open = append(h.open, openHalf{of, sub, left})
	}
	if _, begins := pieceOf(ev); text == "" && left != "" && !begins {
		return dst // all of it is kept back
	}
	return append(dst, ev)
}

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
