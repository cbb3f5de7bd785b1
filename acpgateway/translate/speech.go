package translate

import (
	"slices"

	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
)

// speech is the message or thought that is open in the log; there is at most one. It also recognizes what a
// replay repeats: a chunk can only be compared with the log before it is part of a message.
//
// A chunk {"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"Hel"}} becomes
// TEXT_MESSAGE_START (if m1 is not the open message) and TEXT_MESSAGE_CONTENT; the END comes with whatever is no part
// of the message. ACP has no end of a message, and AG-UI needs one before anything else begins.
type speech struct {
	ids    *ids
	replay *replay

	id         string // ours; "" when none is open
	thought    bool
	upstream   string         // the agent's; "" when it gives none
	parent     string         // the newest text message, which tool calls hang under
	resumed    bool           // over from a snapshot, and not gone on with
	endedByLog bool           // the log's writer has ended it, or will
	replayed   bool           // began in a replay, which is over
	segments   map[string]int // messages an upstream id has begun
}

// chunk is a piece of a message or a thought. What is no text is never made into text.
// Empty chunks would be TEXT_MESSAGE_CONTENT without a delta, which the official client rejects.
func (s *speech) chunk(dst []Out, u wire.Update) []Out {
	thought := u.Variant == wire.AgentThoughtChunk
	if u.Content.Type != wire.BlockText {
		return s.otherContent(dst, u)
	}
	// Some agents open every message with an empty chunk, or send one for its _meta.
	if u.Content.Text == "" {
		return dst
	}
	switch s.repeated(u, thought) {
	case repeatedWhole:
		return dst
	case repeatedPart:
		s.replay.held = append(s.replay.held, u)
		return dst
	default:
	}
	return s.words(s.release(dst), u, thought)
}

// release emits the chunks that were held back: they repeat nothing.
func (s *speech) release(dst []Out) []Out {
	held := s.replay.held
	s.replay.held = nil
	if !slices.ContainsFunc(held, func(u wire.Update) bool { return !blank(u.Content.Text) }) {
		return dst // white space between what was repeated and what is new
	}
	for _, u := range held {
		dst = s.words(dst, u, u.Variant == wire.AgentThoughtChunk)
	}
	return dst
}

// words appends a piece of a message or a thought that is new.
func (s *speech) words(dst []Out, u wire.Update, thought bool) []Out {
	if !s.continues(thought, u.MessageID) {
		dst = s.begin(s.close(dst), thought, u.MessageID)
	}
	switch {
	case s.resumed:
		return s.continueResumed(dst, u.Content.Text)
	case thought:
		return event(dst, &agui.ReasoningMessageContent{MessageID: s.id, Delta: u.Content.Text})
	}
	return event(dst, &agui.TextMessageContent{MessageID: s.id, Delta: u.Content.Text})
}

// continueResumed goes on with what another Translator began. What was written after its snapshot
// may have ended it: a chunk begins it again if need be.
func (s *speech) continueResumed(dst []Out, words string) []Out {
	s.resumed = false
	if s.thought {
		return event(dst, &agui.ReasoningMessageChunk{MessageID: s.id, Delta: words})
	}
	return event(dst, &agui.TextMessageChunk{MessageID: s.id, Role: agui.RoleAssistant, Delta: words})
}

// continues reports whether a chunk belongs to the open message. An id that appears, or
// goes, is another message: codex warns without an id before it speaks with one.
func (s *speech) continues(thought bool, upstream string) bool {
	return s.id != "" && s.thought == thought && s.upstream == upstream && !s.replayed
}

// begin opens a message or a thought. Only messages become the parent of calls.
func (s *speech) begin(dst []Out, thought bool, upstream string) []Out {
	s.thought, s.upstream, s.resumed, s.endedByLog, s.replayed = thought, upstream, false, false, false
	s.id = s.nextMessageID(upstream, thought)
	if thought {
		return event(dst, &agui.ReasoningStart{MessageID: s.id}, &agui.ReasoningMessageStart{MessageID: s.id})
	}
	s.parent = s.id
	return event(dst, &agui.TextMessageStart{MessageID: s.id, Role: agui.RoleAssistant})
}

// voice names which of the two it is, in ids and in snapshots.
func voice(thought bool) string {
	if thought {
		return "thought"
	}
	return "message"
}

// repeated reports what a chunk repeats of the log. What the log knows is known by the id of the
// first message an upstream id stands for; nearly always it knows nothing.
// A message that the log has from before a snapshot is not history: it is the one that goes on.
func (s *speech) repeated(u wire.Update, thought bool) repetition {
	switch {
	case s.replay.none():
		return notRepeated
	case u.MessageID == "":
		return s.replay.message("", u, thought)
	}
	id := s.ids.id(voice(thought), u.MessageID)
	if s.ids.before.has(id) {
		return notRepeated
	}
	return s.replay.message(id, u, thought)
}

// nextMessageID never gives an id twice: a message that goes on after a tool call is
// another message to a client.
func (s *speech) nextMessageID(upstream string, thought bool) string {
	if upstream == "" {
		return s.ids.fresh(voice(thought))
	}
	key := voice(thought) + ":" + upstream
	for {
		id := s.ids.id(voice(thought), ordinal(upstream, s.segments[key]))
		s.segments[key]++
		if !s.replay.has(id) && !s.ids.before.has(id) {
			s.ids.give(id)
			return id
		}
	}
}

// close ends the open message. Chunks that were held back are emitted first: they repeat nothing if
// something else follows it.
func (s *speech) close(dst []Out) []Out {
	if len(s.replay.held) > 0 {
		dst = s.release(dst)
	}
	id := s.id
	if id == "" {
		return dst
	}
	s.id = ""
	switch {
	case s.endedByLog:
		return dst
	case s.thought:
		return event(dst, &agui.ReasoningMessageEnd{MessageID: id}, &agui.ReasoningEnd{MessageID: id})
	}
	return event(dst, &agui.TextMessageEnd{MessageID: id})
}

// closeNameless ends a message without an id: where ids are missing, only the order
// tells messages apart. Updates of the session's state do not count, because they may
// fall into the middle of a word.
func (s *speech) closeNameless(dst []Out) []Out {
	if s.upstream != "" {
		return dst
	}
	return s.close(dst)
}

// otherContent is an image, a sound, a resource, a link.
// It becomes CUSTOM "acp.content" {"role","messageId","content"}: AG-UI 1.0 has no event for a picture within an
// answer.
func (s *speech) otherContent(dst []Out, u wire.Update) []Out {
	thought := u.Variant == wire.AgentThoughtChunk
	if s.repeated(u, thought) == repeatedWhole {
		return dst
	}
	dst = s.release(dst)
	role := agui.RoleAssistant
	if thought {
		role = agui.RoleReasoning
	}
	value := struct {
		Role      string `json:"role"`
		MessageID string `json:"messageId,omitempty"`
	}{Role: role}
	if s.continues(thought, u.MessageID) {
		value.MessageID = s.id
	}
	raw := marshal(value)
	raw = append(raw[:len(raw)-1], `,"content":`...)
	raw = append(append(raw, s.ids.scrub(u.Content.Raw)...), '}')
	return event(dst, &agui.Custom{Name: "acp.content", Value: raw})
}

// userMessage is an echo of the prompt, which the log has, or a replay that begins.
// A prompt's echo carries no news, and the log has the user's message from the POST.
func (s *speech) userMessage(dst []Out, u wire.Update) []Out {
	s.replay.user(u.Content.Text)
	return s.close(dst)
}
