package fromacp

import (
	"bytes"
	"encoding/json"

	"aqueduct/acpgateway/acp"
	"aqueduct/agui"
)

// What a state may hold is bounded for all of it; what an agent lists is bounded here,
// so that a long list costs that list and not the Turn.
const (
	maxStateValue = 64 << 10
	maxState      = 160 << 10
)

// state is what the log's state has under /acp.
type state struct {
	there   bool
	members map[string]string
	size    int
}

// member is one member of it; without a value it was not told.
type member struct {
	key   string
	value json.RawMessage
}

func newState(raw json.RawMessage) state {
	s := state{members: make(map[string]string)}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return s
	}
	s.there = true
	for key, v := range members {
		s.put(key, string(compact(v)))
	}
	return s
}

func (s *state) put(key, value string) {
	s.size += len(value) - len(s.members[key])
	s.members[key] = value
}

// set emits what is new of some members. The first time there is no /acp to add to, and
// TDesign patches no key that is not there, so that one adds all of it.
func (t *Translator) set(dst []Out, members ...member) []Out {
	var ops []operation
	for _, m := range members {
		value := compact(m.value)
		was, there := t.state.members[m.key]
		if len(value) == 0 || there && was == string(value) {
			continue
		}
		if len(value) > maxStateValue || t.state.size+len(value)-len(was) > maxState {
			dst = t.tooLarge(dst, m.key, len(value))
			continue
		}
		op := "add"
		if there {
			op = "replace"
		}
		t.state.put(m.key, string(value))
		ops = append(ops, operation{op, "/acp/" + m.key, value})
	}
	if len(ops) == 0 {
		return dst
	}
	if !t.state.there {
		t.state.there = true
		ops = []operation{{"add", "/acp", whole(ops)}}
	}
	return event(dst, &agui.StateDelta{Delta: marshal(ops)})
}

// whole is the object that operations on an empty one make.
func whole(ops []operation) json.RawMessage {
	raw := []byte{'{'}
	for i, o := range ops {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(agui.AppendString(raw, o.Path[len("/acp/"):]), ':')
		raw = append(raw, o.Value...)
	}
	return append(raw, '}')
}

func (t *Translator) tooLarge(dst []Out, key string, size int) []Out {
	return event(dst, &agui.Custom{Name: "acp.state_too_large", Value: marshal(struct {
		Key   string `json:"key"`
		Bytes int    `json:"bytes"`
	}{key, size})})
}

// compact is valid JSON without white space and with valid UTF-8, or nothing.
func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return nil
	}
	return bytes.ToValidUTF8(b.Bytes(), []byte("\uFFFD"))
}

// sessionUpdate is an update of the session's state: it applies whenever it comes,
// between prompts too.
func (t *Translator) sessionUpdate(dst []Out, u acp.Update) []Out {
	dst, told := t.settings(dst, u.Session())
	if !told {
		return t.custom(dst, "acp."+u.Variant, u.Raw) // of a form we do not know
	}
	return dst
}

// settings sets what a view tells, and says whether that was anything.
func (t *Translator) settings(dst []Out, v acp.SessionView) ([]Out, bool) {
	members := []member{
		{"modes", t.rawMember(v.Modes)},
		{"models", t.rawMember(v.Models)},
		{"configOptions", t.rawMember(v.Settings.Raw)},
		{"modeId", text(v.ModeID)},
		{"modelId", text(v.ModelID)},
		{"commands", t.rawMember(v.Commands)},
		{"usage", t.usage(v)},
		{"info", t.info(v)},
	}
	told := false
	for _, m := range members {
		told = told || len(m.value) > 0
	}
	return t.set(dst, members...), told
}

func (t *Translator) rawMember(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	return t.scrub(raw)
}

func text(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return marshal(s)
}

// usage is of the context window: how full it is, and what it cost.
func (t *Translator) usage(v acp.SessionView) json.RawMessage {
	if len(v.Used)+len(v.Size)+len(v.Cost) == 0 {
		return nil
	}
	return marshal(struct {
		Used json.RawMessage `json:"used,omitempty"`
		Size json.RawMessage `json:"size,omitempty"`
		Cost json.RawMessage `json:"cost,omitempty"`
	}{v.Used, v.Size, t.rawMember(v.Cost)})
}

// info is the session's title and date; what an update does not name stays.
func (t *Translator) info(v acp.SessionView) json.RawMessage {
	if v.Title == nil && v.UpdatedAt == nil {
		return nil
	}
	var info struct {
		Title     string `json:"title,omitempty"`
		UpdatedAt string `json:"updatedAt,omitempty"`
	}
	_ = json.Unmarshal([]byte(t.state.members["info"]), &info) // of our own making, or nothing
	if v.Title != nil {
		info.Title = *v.Title
	}
	if v.UpdatedAt != nil {
		info.UpdatedAt = *v.UpdatedAt
	}
	return marshal(info)
}

// sessionCreated: the first session counts. The frame around the update names it, which
// [Translator.Session] takes; some updates do so themselves.
func (t *Translator) sessionCreated(dst []Out, u acp.Update) []Out {
	var content struct{ SessionID, Session_id any }
	_ = json.Unmarshal(u.Content.Raw, &content) // without an id there is nothing to set
	for _, id := range [...]any{content.SessionID, content.Session_id} {
		if s, ok := id.(string); ok {
			t.Session(s)
		}
	}
	if _, there := t.state.members["sessionId"]; there || t.session == "" {
		return dst
	}
	return t.set(dst, member{"sessionId", marshal(t.id("session", t.session))})
}

// sessionState is a proxy's own view of the session, kept whole; the mode and the model
// it names are the current ones.
func (t *Translator) sessionState(dst []Out, u acp.Update) []Out {
	v := acp.ReadSession(u.Content.Raw)
	return t.set(dst, member{"sessionState", t.scrub(u.Content.Raw)}, member{"modes", t.rawMember(v.Modes)}, member{"models", t.rawMember(v.Models)},
		member{"configOptions", t.rawMember(v.Settings.Raw)}, member{"modeId", text(v.ModeID)}, member{"modelId", text(v.ModelID)})
}

// Rebase takes what the log's state has under /acp, when what was translated before may not
// all have got there.
func (t *Translator) Rebase(state json.RawMessage) { t.state = newState(state) }
