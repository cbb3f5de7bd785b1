package fromacp

import (
	"slices"

	"aqueduct/acpgateway/acp"
	"aqueduct/agui"
)

// speech is the message or thought being said. There is one at most.
type speech struct {
	id       string // ours; "" when nothing is being said
	thought  bool
	upstream string         // the agent's; "" when it gives none
	parent   string         // the newest text message, which tool calls hang under
	taken    bool           // over from a snapshot, and not gone on with
	unended  bool           // whoever writes the log ends it
	loaded   bool           // told by a replay, which is over
	segments map[string]int // messages an upstream id has begun
}

// chunk is a piece of a message or a thought. What is no text is never made into text.
func (t *Translator) chunk(dst []Out, u acp.Update) []Out {
	thought := u.Variant == acp.AgentThoughtChunk
	if u.Content.Type != acp.BlockText {
		return t.otherContent(dst, u)
	}
	// Some agents open every message with an empty chunk, or send one for its _meta.
	if u.Content.Text == "" {
		return dst
	}
	switch t.repeated(u, thought) {
	case repeatedWhole:
		return dst
	case repeatedPart:
		t.replay.held = append(t.replay.held, u)
		return dst
	}
	return t.words(t.release(dst), u, thought)
}

// release tells the chunks that were held back: they repeat nothing.
func (t *Translator) release(dst []Out) []Out {
	held := t.replay.held
	t.replay.held = nil
	if !slices.ContainsFunc(held, func(u acp.Update) bool { return !blank(u.Content.Text) }) {
		return dst // white space between what was repeated and what is new
	}
	for _, u := range held {
		dst = t.words(dst, u, u.Variant == acp.AgentThoughtChunk)
	}
	return dst
}

// words appends a piece of a message or a thought that is new.
func (t *Translator) words(dst []Out, u acp.Update, thought bool) []Out {
	if !t.goesOn(thought, u.MessageID) {
		dst = t.begin(t.closeSpeech(dst), thought, u.MessageID)
	}
	switch {
	case t.speech.taken:
		return t.goOnAgain(dst, u.Content.Text)
	case thought:
		return event(dst, &agui.ReasoningMessageContent{MessageID: t.speech.id, Delta: u.Content.Text})
	}
	return event(dst, &agui.TextMessageContent{MessageID: t.speech.id, Delta: u.Content.Text})
}

// goOnAgain goes on with what another Translator began. What was written after its snapshot
// may have ended it: a chunk begins it again if need be.
func (t *Translator) goOnAgain(dst []Out, words string) []Out {
	t.speech.taken = false
	if t.speech.thought {
		return event(dst, &agui.ReasoningMessageChunk{MessageID: t.speech.id, Delta: words})
	}
	return event(dst, &agui.TextMessageChunk{MessageID: t.speech.id, Role: agui.RoleAssistant, Delta: words})
}

// goesOn tells whether a chunk belongs to what is being said. An id that appears, or
// goes, is another message: codex warns without an id before it speaks with one.
func (t *Translator) goesOn(thought bool, upstream string) bool {
	return t.speech.id != "" && t.speech.thought == thought && t.speech.upstream == upstream && !t.speech.loaded
}

func (t *Translator) begin(dst []Out, thought bool, upstream string) []Out {
	s := &t.speech
	s.thought, s.upstream, s.taken, s.unended, s.loaded = thought, upstream, false, false, false
	s.id = t.nextMessageID(upstream, thought)
	if thought {
		return event(dst, &agui.ReasoningStart{MessageID: s.id}, &agui.ReasoningMessageStart{MessageID: s.id})
	}
	s.parent = s.id
	return event(dst, &agui.TextMessageStart{MessageID: s.id, Role: agui.RoleAssistant})
}

func voice(thought bool) string {
	if thought {
		return "thought"
	}
	return "message"
}

// repeated says what a chunk repeats of the log. What the log knows is known by the id of the
// first message an upstream id stands for; nearly always it knows nothing.
func (t *Translator) repeated(u acp.Update, thought bool) repetition {
	switch {
	case t.replay.none():
		return notRepeated
	case u.MessageID == "":
		return t.replay.message("", u, thought)
	}
	id := t.id(voice(thought), u.MessageID)
	if t.before.has(id) {
		return notRepeated
	}
	return t.replay.message(id, u, thought)
}

// nextMessageID never gives an id twice: a message that goes on after a tool call is
// another message to a client.
func (t *Translator) nextMessageID(upstream string, thought bool) string {
	if upstream == "" {
		return t.fresh(voice(thought))
	}
	key := voice(thought) + ":" + upstream
	for {
		id := t.id(voice(thought), ordinal(upstream, t.speech.segments[key]))
		t.speech.segments[key]++
		if !t.replay.has(id) && !t.before.has(id) {
			t.give(id)
			return id
		}
	}
}

// closeSpeech ends what is being said. What was held back is said before: it repeats nothing if
// something else follows it.
func (t *Translator) closeSpeech(dst []Out) []Out {
	if len(t.replay.held) > 0 {
		dst = t.release(dst)
	}
	id := t.speech.id
	if id == "" {
		return dst
	}
	t.speech.id = ""
	switch {
	case t.speech.unended:
		return dst
	case t.speech.thought:
		return event(dst, &agui.ReasoningMessageEnd{MessageID: id}, &agui.ReasoningEnd{MessageID: id})
	}
	return event(dst, &agui.TextMessageEnd{MessageID: id})
}

// closeNameless ends a message without an id: where ids are missing, only the order
// tells messages apart. Updates of the session's state do not count, because they may
// fall into the middle of a word.
func (t *Translator) closeNameless(dst []Out) []Out {
	if t.speech.upstream != "" {
		return dst
	}
	return t.closeSpeech(dst)
}

// otherContent is an image, a sound, a resource, a link.
func (t *Translator) otherContent(dst []Out, u acp.Update) []Out {
	thought := u.Variant == acp.AgentThoughtChunk
	if t.repeated(u, thought) == repeatedWhole {
		return dst
	}
	dst = t.release(dst)
	role := agui.RoleAssistant
	if thought {
		role = agui.RoleReasoning
	}
	value := struct {
		Role      string `json:"role"`
		MessageID string `json:"messageId,omitempty"`
	}{Role: role}
	if t.goesOn(thought, u.MessageID) {
		value.MessageID = t.speech.id
	}
	raw := marshal(value)
	raw = append(raw[:len(raw)-1], `,"content":`...)
	raw = append(append(raw, t.scrub(u.Content.Raw)...), '}')
	return event(dst, &agui.Custom{Name: "acp.content", Value: raw})
}

// userChunk is an echo of the prompt, which the log has, or a replay that begins.
func (t *Translator) userChunk(dst []Out, u acp.Update) []Out {
	t.replay.user(u.Content.Text)
	return t.closeSpeech(dst)
}
