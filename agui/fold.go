// This file builds messages out of events. The history that a new client gets is built here, and the
// official client builds the same messages from the live stream; where the two differ, a page shows
// something else after a reload.

package agui

import (
	"encoding/json"
	"slices"
)

// Fold turns events into the messages they amount to, as the official client
// does (AG-UI 1.0, "Applying events"), so that history read back and a stream
// watched live are one thing. It takes the events of a log, which has no chunks.
//
// Only where the client would hold two messages of one id does a Fold differ: a repeated result
// replaces the first. A Fold is not safe for concurrent use; the Turn that writes the log owns it.
// It keeps every message in memory until its owner drops it, so it lives for one Run or one request.
type Fold struct {
	list  []*folded
	byID  map[string]*folded
	calls map[string]callAt
}

// folded is a message being put together. Text grows in a buffer: a message of a hundred thousand
// deltas must not be copied as often. Until message is called, text and args are newer than the
// Message's own fields.
type folded struct {
	Message
	text    []byte // the content, once deltas have come
	args    map[int][]byte
	changed bool
}

// callAt is where a tool call is.
type callAt struct {
	in *folded
	i  int
}

// NewFold begins with the messages there are.
func NewFold(history []Message) *Fold {
	f := &Fold{byID: make(map[string]*folded), calls: make(map[string]callAt)}
	for i := range history {
		f.push(history[i])
	}
	return f
}

// Messages is the whole conversation.
func (f *Fold) Messages() []Message { return f.collect(func(*folded) bool { return true }) }

// Message finds a message by its id.
func (f *Fold) Message(id string) (Message, bool) {
	m := f.byID[id]
	if m == nil {
		return Message{}, false
	}
	return m.message(), true
}

// Call finds a tool call by its id.
func (f *Fold) Call(id string) (ToolCall, bool) {
	at, ok := f.calls[id]
	if !ok {
		return ToolCall{}, false
	}
	call := at.in.ToolCalls[at.i] // the message is not put together: it may have many
	if args, grown := at.in.args[at.i]; grown {
		call.Function.Arguments = string(args)
	}
	return call, true
}

// New is what has been created or changed since [NewFold], in order.
func (f *Fold) New() []Message { return f.collect(func(m *folded) bool { return m.changed }) }

func (f *Fold) collect(want func(*folded) bool) []Message {
	var list []Message
	for _, m := range f.list {
		if want(m) {
			list = append(list, m.message())
		}
	}
	return list
}

// message is a snapshot of a message that may go on growing.
func (m *folded) message() Message {
	// What was put together before is not copied again: text and arguments only grow.
	if m.text != nil && len(m.text) != len(m.Content.Text) {
		m.Content.Text = string(m.text)
	}
	for i, args := range m.args {
		if call := &m.ToolCalls[i]; len(args) != len(call.Function.Arguments) {
			call.Function.Arguments = string(args)
		}
	}
	out := m.Message
	out.ToolCalls = slices.Clone(m.ToolCalls)
	return out
}

// ApplyJSON decodes an event and applies it.
func (f *Fold) ApplyJSON(event []byte) error {
	ev, err := Decode(event)
	if err != nil {
		return err
	}
	f.Apply(ev)
	return nil
}

// Apply applies one event. Events that build no message do nothing, and so does
// one that names what is not there.
func (f *Fold) Apply(ev Event) {
	switch e := ev.(type) {
	case *TextMessageContent:
		f.grow(e.MessageID, e.Delta, e.Metadata)
	case *ReasoningMessageContent:
		f.grow(e.MessageID, e.Delta, e.Metadata)
	case *ToolCallArgs:
		f.growArgs(e)
	case *TextMessageStart:
		role := e.Role
		if role == "" {
			role = RoleAssistant
		}
		f.begin(Message{ID: e.MessageID, Role: role, Name: e.Name, SubagentRunID: e.SubagentRunID}, e.Metadata)
	case *ReasoningMessageStart:
		f.begin(Message{ID: e.MessageID, Role: RoleReasoning, SubagentRunID: e.SubagentRunID}, e.Metadata)
	case *TextMessageEnd:
		f.annotate(e.MessageID, e.Metadata)
	case *ReasoningMessageEnd:
		f.annotate(e.MessageID, e.Metadata)
	case *ToolCallStart:
		f.beginCall(e)
	case *ToolCallEnd:
		f.annotateCall(e.ToolCallID, e.Metadata)
	case *ToolCallResult:
		f.result(e)
	case *ActivitySnapshot:
		f.activity(e)
	case *ActivityDelta:
		f.patchActivity(e)
	case *ReasoningEncryptedValue:
		f.encrypt(e)
	case *MessagesSnapshot:
		f.replaceAll(e.Messages)
	case *RunStarted:
		if e.Input == nil {
			return
		}
		for i := range e.Input.Messages {
			if m := &e.Input.Messages[i]; f.byID[m.ID] == nil {
				f.push(*m).changed = true
			}
		}
	}
}

// push appends a message and makes it findable. Of two with one id the first
// counts.
func (f *Fold) push(m Message) *folded {
	added := &folded{Message: m}
	added.ToolCalls = slices.Clone(m.ToolCalls)
	f.list = append(f.list, added)
	f.index(added)
	return added
}

// index makes a message and its calls findable. Ids that are taken stay with their first owner, as
// in the official client.
func (f *Fold) index(m *folded) {
	if f.byID[m.ID] == nil {
		f.byID[m.ID] = m
	}
	for i := range m.ToolCalls {
		if _, there := f.calls[m.ToolCalls[i].ID]; !there {
			f.calls[m.ToolCalls[i].ID] = callAt{m, i}
		}
	}
}

// begin makes a message unless there is one of its id: a message closed and
// opened again goes on. An activity is never streamed into.
func (f *Fold) begin(m Message, metadata json.RawMessage) {
	have := f.byID[m.ID]
	switch {
	case have == nil:
		have = f.push(m)
		have.changed = true
	case have.Role == RoleActivity:
		return
	}
	have.annotate(metadata)
}

// grow appends a delta. The buffer doubles, so a long message costs a few copies; a new string for
// each delta would copy the message as often as it has deltas.
func (f *Fold) grow(id, delta string, metadata json.RawMessage) {
	m := f.byID[id]
	if m == nil || m.Role == RoleActivity {
		return
	}
	if m.text == nil {
		m.text = make([]byte, 0, max(64, 2*len(delta)))
		if m.Content.Parts == nil {
			m.text = append(m.text, m.Content.Text...)
		}
		m.Content = Content{}
	}
	m.text = append(m.text, delta...)
	m.changed = true
	m.annotate(metadata)
}

// annotate adds metadata to a message. An activity's metadata comes with its own events.
func (f *Fold) annotate(id string, metadata json.RawMessage) {
	if m := f.byID[id]; m != nil && m.Role != RoleActivity {
		m.annotate(metadata)
	}
}

// annotate merges metadata key by key, the last one winning.
func (m *folded) annotate(metadata json.RawMessage) {
	if len(metadata) > 0 {
		m.Metadata = mergeObjects(m.Metadata, metadata)
		m.changed = true
	}
}

// beginCall puts a call under its parent message, or under a message made for it.
// A repeated start changes at most the name.
func (f *Fold) beginCall(e *ToolCallStart) {
	if at, there := f.calls[e.ToolCallID]; there {
		if call := &at.in.ToolCalls[at.i]; call.Function.Name != e.ToolCallName {
			call.Function.Name = e.ToolCallName
			at.in.changed = true
		}
		f.annotateCall(e.ToolCallID, e.Metadata)
		return
	}
	parent := f.parentOf(e)
	parent.ToolCalls = append(parent.ToolCalls, ToolCall{
		ID: e.ToolCallID, Function: FunctionCall{Name: e.ToolCallName},
	})
	parent.changed = true
	f.calls[e.ToolCallID] = callAt{parent, len(parent.ToolCalls) - 1}
	f.annotateCall(e.ToolCallID, e.Metadata)
}

// parentOf finds the message that carries a call. Adapters send calls whose parent was never
// started, or whose parent is a user's message; both get a message of their own, which is what the
// official client does.
func (f *Fold) parentOf(e *ToolCallStart) *folded {
	id := e.ToolCallID
	if e.ParentMessageID != "" {
		switch have := f.byID[e.ParentMessageID]; {
		case have == nil:
			id = e.ParentMessageID
		case have.Role == RoleAssistant:
			return have
		}
	}
	return f.push(Message{
		ID: id, Role: RoleAssistant, Content: Content{Absent: true}, SubagentRunID: e.SubagentRunID,
	})
}

// growArgs appends to a call's arguments; a call that was never started is ignored.
func (f *Fold) growArgs(e *ToolCallArgs) {
	at, there := f.calls[e.ToolCallID]
	if !there {
		return
	}
	m := at.in
	if m.args == nil {
		m.args = make(map[int][]byte)
	}
	args, growing := m.args[at.i]
	if !growing {
		args = []byte(m.ToolCalls[at.i].Function.Arguments)
	}
	m.args[at.i] = append(args, e.Delta...)
	m.changed = true
	f.annotateCall(e.ToolCallID, e.Metadata)
}

// annotateCall adds metadata to a call.
func (f *Fold) annotateCall(id string, metadata json.RawMessage) {
	at, there := f.calls[id]
	if !there || len(metadata) == 0 {
		return
	}
	call := &at.in.ToolCalls[at.i]
	call.Metadata = mergeObjects(call.Metadata, metadata)
	at.in.changed = true
}

// result places a tool message behind the message that made the call and the
// results already there: providers refuse a history in which anything stands
// between a call and its result.
func (f *Fold) result(e *ToolCallResult) {
	m := Message{
		ID: e.MessageID, Role: RoleTool, ToolCallID: e.ToolCallID, Content: e.Content,
		SubagentRunID: e.SubagentRunID, Metadata: e.Metadata,
	}
	if have := f.byID[m.ID]; have != nil && have.Role == RoleTool {
		*have = folded{Message: m, changed: true}
		return
	}
	added := &folded{Message: m, changed: true}
	at := len(f.list)
	if call, there := f.calls[e.ToolCallID]; there {
		at = slices.Index(f.list, call.in) + 1
		for at < len(f.list) && f.list[at].Role == RoleTool {
			at++
		}
	}
	f.list = slices.Insert(f.list, at, added)
	f.index(added)
}

// Restore adds a message of an earlier run, as it stood at that run's end.
func (f *Fold) Restore(m Message) { f.push(m) }

// encrypt attaches a provider's opaque value. Without it a model refuses the next request that
// contains the thought or call. A client leaves the event's metadata with the event; here it goes with the value, as
// it may say of which kind that is, and a transcript has no events.
func (f *Fold) encrypt(e *ReasoningEncryptedValue) {
	if e.Subtype == "tool-call" {
		if at, there := f.calls[e.EntityID]; there {
			at.in.ToolCalls[at.i].EncryptedValue = e.EncryptedValue
			at.in.changed = true
			f.annotateCall(e.EntityID, e.Metadata)
		}
		return
	}
	if m := f.byID[e.EntityID]; m != nil && m.Role != RoleActivity {
		m.EncryptedValue = e.EncryptedValue
		m.changed = true
		m.annotate(e.Metadata)
	}
}

// replaceAll takes a MESSAGES_SNAPSHOT: a known id is replaced where it is, a
// new one appended, and what is not in the snapshot goes, except activities and
// reasoning when the snapshot has none of them.
func (f *Fold) replaceAll(snapshot []Message) {
	given := make(map[string]*Message, len(snapshot))
	hasActivity, hasReasoning := false, false
	for i := range snapshot {
		given[snapshot[i].ID] = &snapshot[i]
		hasActivity = hasActivity || snapshot[i].Role == RoleActivity
		hasReasoning = hasReasoning || snapshot[i].Role == RoleReasoning
	}
	old := f.list
	f.list = nil
	clear(f.byID)
	clear(f.calls)
	for _, m := range old {
		switch {
		case given[m.ID] != nil:
			f.push(*given[m.ID]).changed = true
		case m.Role == RoleActivity && !hasActivity, m.Role == RoleReasoning && !hasReasoning:
			f.list = append(f.list, m)
			f.index(m)
		}
	}
	for i := range snapshot {
		if f.byID[snapshot[i].ID] == nil {
			f.push(snapshot[i]).changed = true
		}
	}
}
