package translate

import (
	"bytes"
	"encoding/json"
	"slices"

	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
)

// What a state may hold is bounded for all of it; what an agent lists is bounded here,
// so that a long list costs that list and not the Turn.
const (
	maxStateValue = 64 << 10
	maxState      = 160 << 10
)

// state is what the log's state has under /acp.
//
// It remembers each member as it was last emitted, so that a frame which repeats a value costs no event: agents send
// their whole settings with every change. The members are modes, models, modeId, modelId, configOptions, commands,
// usage, info, plan, sandbox, transport, init, sessionId, sessionState.
type state struct {
	ids     *ids
	there   bool              // /acp itself is
	members map[string]string // as JSON, compact
	size    int               // of all members' values
}

// member is one member of it; without a value the frame did not name it.
type member struct {
	key   string
	value json.RawMessage
}

// newState takes what the log has under /acp; nothing when it is no object.
func newState(i *ids, raw json.RawMessage) *state {
	st := &state{ids: i, members: make(map[string]string)}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return st
	}
	st.there = true
	for key, v := range members {
		st.put(key, string(compact(v)))
	}
	return st
}

func (st *state) put(key, value string) {
	st.size += len(value) - len(st.members[key])
	st.members[key] = value
}

// set emits what is new of some members. The first time there is no /acp to add to, and
// TDesign patches no key that is not there, so that one adds all of it.
// JSON Patch wants add for a key that is not there and replace for one that is; a client that has another state than
// ours would refuse the wrong one.
func (st *state) set(dst []Out, members ...member) []Out {
	var ops []operation
	for _, m := range members {
		value := compact(m.value)
		was, there := st.members[m.key]
		if len(value) == 0 || there && was == string(value) {
			continue
		}
		if len(value) > maxStateValue || st.size+len(value)-len(was) > maxState {
			dst = st.tooLarge(dst, m.key, len(value))
			continue
		}
		op := "add"
		if there {
			op = "replace"
		}
		st.put(m.key, string(value))
		ops = append(ops, operation{op, "/acp/" + m.key, value})
	}
	if len(ops) == 0 {
		return dst
	}
	if !st.there {
		st.there = true
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

// tooLarge shows that a member could not be set; it stays as it was.
func (st *state) tooLarge(dst []Out, key string, size int) []Out {
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
func (st *state) sessionUpdate(dst []Out, u wire.Update) []Out {
	dst, named := st.settings(dst, u.Session())
	if !named {
		return st.ids.custom(dst, variantEvent(u.Variant), u.Raw) // of a form we do not know
	}
	return dst
}

// settings sets the members that a view has, and reports whether it had any.
func (st *state) settings(dst []Out, v wire.SessionView) ([]Out, bool) {
	members := []member{
		{"modes", st.rawMember(v.Modes)},
		{"models", st.rawMember(v.Models)},
		{"configOptions", st.rawMember(v.Settings.Raw)},
		{"modeId", text(v.ModeID)},
		{"modelId", text(v.ModelID)},
		{"commands", st.rawMember(v.Commands)},
		{"usage", st.usage(v)},
		{"info", st.info(v)},
	}
	named := slices.ContainsFunc(members, func(m member) bool { return len(m.value) > 0 })
	return st.set(dst, members...), named
}

func (st *state) rawMember(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	return st.ids.scrub(raw)
}

// text is a member's value, none for "".
func text(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return marshal(s)
}

// usage is of the context window: how full it is, and what it cost.
func (st *state) usage(v wire.SessionView) json.RawMessage {
	if len(v.Used)+len(v.Size)+len(v.Cost) == 0 {
		return nil
	}
	return marshal(struct {
		Used json.RawMessage `json:"used,omitempty"`
		Size json.RawMessage `json:"size,omitempty"`
		Cost json.RawMessage `json:"cost,omitempty"`
	}{v.Used, v.Size, st.rawMember(v.Cost)})
}

// info is the session's title and date; what an update does not name stays.
func (st *state) info(v wire.SessionView) json.RawMessage {
	if v.Title == nil && v.UpdatedAt == nil {
		return nil
	}
	var info struct {
		Title     string `json:"title,omitempty"`
		UpdatedAt string `json:"updatedAt,omitempty"`
	}
	_ = json.Unmarshal([]byte(st.members["info"]), &info) // of our own making, or nothing
	if v.Title != nil {
		info.Title = *v.Title
	}
	if v.UpdatedAt != nil {
		info.UpdatedAt = *v.UpdatedAt
	}
	return marshal(info)
}

// sessionState is a proxy's own view of the session, kept whole; the mode and the model
// it names are the current ones.
func (st *state) sessionState(dst []Out, u wire.Update) []Out {
	v := wire.ReadSession(u.Content.Raw)
	return st.set(dst, member{"sessionState", st.ids.scrub(u.Content.Raw)}, member{"modes", st.rawMember(v.Modes)}, member{"models", st.rawMember(v.Models)},
		member{"configOptions", st.rawMember(v.Settings.Raw)}, member{"modeId", text(v.ModeID)}, member{"modelId", text(v.ModelID)})
}
