// This file identifies the messages of a snapshot with known messages. Ids come first. Some agents number a conversation from
// the start in each snapshot, and many stream results and thoughts under other ids than their memory has. Such a message is
// identified by its calls, by the call that it answers, or by its text.
//
// An id may occur more than once, in one run (call_0) or in each (msg-1). A snapshot lists a conversation in order. Of
// several places with one id, this run has the last ones, as many as it used; the history has the places before them. A
// snapshot without the history has none of the history's places.
//
// LangGraph streams a result under a random id and has another id for it in its memory. It shows a call that was not streamed
// under the id of the result. It may stream two calls at once as one. Each of these is a case of server/aguimemory_test.go.

package aguiagent

import (
	"aqueduct/agui"
)

// stands holds a message of a snapshot; m has keys in the place of ids.
type stands struct {
	m  *agui.Message
	of whose
	id string // of a message of this run, ours

	parent string // the agent's id of the message of the history that it is
}

// whose is the origin of a message of a snapshot.
type whose uint8

const (
	isNew  whose = iota // it was not shown
	ofRun               // this run has shown it
	ofPast              // the agent was sent it
)

// spoken identifies a message by its role and text.
type spoken struct{ role, text string }

// slot is an id of messages or calls; several may share it.
type slot struct{ role, id string }

// align identifies the messages of a snapshot, except those of users and operators.
func (t *Translator) align(snapshot []agui.Message) []stands {
	l := alignment{t: t, claimed: make(map[string]bool), past: t.past.count()}
	for i := range snapshot {
		switch m := &snapshot[i]; m.Role {
		case agui.RoleUser, agui.RoleSystem, agui.RoleDeveloper:
		case agui.RoleActivity:
			l.list = append(l.list, stands{m: m, id: t.names.activity(m.ID)})
		default:
			l.list = append(l.list, stands{m: m})
		}
	}
	l.byID()
	l.calls()
	l.results()
	l.byCall()
	l.byText()
	for i := range l.list {
		l.name(&l.list[i])
	}
	return l.list
}

// alignment is one comparison.
type alignment struct {
	t       *Translator
	list    []stands
	claimed map[string]bool // messages of this run that the snapshot has, by our ids
	past    map[slot]int    // how many times the history has an id
}

// count counts the ids of assistants' messages, of thoughts and of calls.
func (p *past) count() map[slot]int {
	n := make(map[slot]int)
	for i := range p.messages {
		m := &p.messages[i]
		if m.Role == agui.RoleAssistant || m.Role == agui.RoleReasoning {
			n[slot{m.Role, m.ID}]++
		}
		for _, call := range m.ToolCalls {
			n[slot{"call", call.ID}]++
		}
	}
	return n
}

// shownAs returns the message of this run that has a key, or "".
func (l *alignment) shownAs(role, key string) string {
	id := l.t.names.messages[key]
	if role == agui.RoleReasoning {
		id = l.t.names.reasoning(key)
	}
	if m, ok := l.t.shown.Message(id); ok && m.Role == role {
		return id
	}
	return ""
}

// byID finds assistants' messages and thoughts by their ids. If an id occurs more than once, the first occurrences belong to
// the history and the last to this run.
func (l *alignment) byID() {
	total := make(map[slot]int)
	for i := range l.list {
		total[slot{l.list[i].m.Role, l.list[i].m.ID}]++
	}
	seen := make(map[slot]int)
	for i := range l.list {
		s := &l.list[i]
		is := slot{s.m.Role, s.m.ID}
		if is.role != agui.RoleAssistant && is.role != agui.RoleReasoning {
			continue
		}
		shown := 0
		for l.shownAs(is.role, keyOf(is.id, shown+1)) != "" {
			shown++
		}
		past := min(l.past[is], max(0, total[is]-shown))
		seen[is]++
		n := seen[is] - past
		if n <= 0 || l.repeatsPast(s.m, shown) {
			s.of, s.parent = ofPast, is.id
			continue
		}
		s.m.ID = keyOf(is.id, n)
		if id := l.shownAs(is.role, s.m.ID); id != "" {
			l.claim(s, id)
		}
	}
}

// repeatsPast reports whether a message under an id that this run uses again is the earlier one.
func (l *alignment) repeatsPast(m *agui.Message, shown int) bool {
	if shown == 0 || l.past[slot{m.Role, m.ID}] == 0 {
		return false
	}
	text := m.Content.String()
	for i := range l.t.past.messages {
		if p := &l.t.past.messages[i]; p.ID == m.ID && p.Role == m.Role && p.Content.String() == text {
			have, _ := l.t.shown.Message(l.shownAs(m.Role, m.ID))
			return have.Content.String() != text
		}
	}
	return false
}

func (l *alignment) claim(s *stands, id string) {
	s.of, s.id = ofRun, id
	l.claimed[id] = true
}

// calls gives the calls of the snapshot their keys. As with messages, the first occurrences of an id belong to the history.
func (l *alignment) calls() {
	total, past := make(map[string]int), make(map[string]int)
	for i := range l.list {
		for _, call := range l.list[i].m.ToolCalls {
			if l.list[i].of == ofPast {
				past[call.ID]++
			} else {
				total[call.ID]++
			}
		}
	}
	seen := make(map[string]int)
	for i := range l.list {
		s := &l.list[i]
		if s.of == ofPast {
			continue
		}
		old := 0
		for j := range s.m.ToolCalls {
			id := s.m.ToolCalls[j].ID
			left := max(0, l.past[slot{"call", id}]-past[id]) // calls of the history whose messages stand under other ids
			left = min(left, max(0, total[id]-len(l.t.uses.of[id])))
			seen[id]++
			if n := seen[id] - left; n > 0 {
				s.m.ToolCalls[j].ID = keyOf(id, n)
			} else {
				old++
			}
		}
		if old > 0 && old == len(s.m.ToolCalls) && s.of == isNew {
			s.of = ofPast
		}
	}
}

// results finds the call of each result: the oldest call of that id in the snapshot that has no result yet.
func (l *alignment) results() {
	type asked struct {
		key  string
		past bool
	}
	waiting, newest := make(map[string][]asked), make(map[string]asked)
	n := make(map[string]int) // results of one call
	for i := range l.list {
		s := &l.list[i]
		for _, call := range s.m.ToolCalls {
			_, old := l.t.past.calls[call.ID] // else a call that the history lacks in this message
			waiting[ownID(call.ID)] = append(waiting[ownID(call.ID)], asked{call.ID, s.of == ofPast && old})
		}
		if s.m.Role != agui.RoleTool {
			continue
		}
		id := s.m.ToolCallID
		of := asked{l.t.uses.newest(id), l.t.uses.last(id) == nil && l.t.past.calls[id].ID != ""}
		if open := waiting[id]; len(open) > 0 {
			of, waiting[id] = open[0], open[1:]
			newest[id] = of
		} else if last, ok := newest[id]; ok { // it has a result
			of = last
		}
		if of.past && !l.t.pending.isGiven(id) && !l.t.pending.settled[id] {
			s.of = ofPast
			continue
		}
		s.m.ToolCallID = of.key
		n[of.key]++
		l.result(s, n[of.key])
	}
}

// result finds the nth result of a call among those that were shown. It matches results by their place, not by their ids. In
// few agents the id of a streamed result is the same as in their memory.
func (l *alignment) result(s *stands, n int) {
	ours := l.t.names.call(s.m.ToolCallID)
	for _, m := range l.t.results[ours] {
		if n--; n == 0 {
			l.claim(s, m)
			return
		}
	}
	if len(l.t.results[ours]) > 0 { // a further result of the call
		s.m.ID = keyOf(s.m.ID, len(l.t.results[ours])+1)
	}
}

// byCall finds messages by their calls. A call that was streamed without a message is in a message with an id of ours, which
// the snapshot cannot know.
func (l *alignment) byCall() {
	in := make(map[string]string) // the message of a call, by our ids
	for _, m := range l.t.shown.Messages() {
		for _, call := range m.ToolCalls {
			in[call.ID] = m.ID
		}
	}
	for i := range l.list {
		s := &l.list[i]
		if s.of != isNew || s.m.Role != agui.RoleAssistant {
			continue
		}
		for _, call := range s.m.ToolCalls {
			if id := in[l.t.names.call(call.ID)]; id != "" && !l.claimed[id] {
				l.claim(s, id)
				break
			}
		}
	}
}

// same is a message found by its text: of this run by our id, or of the history by the agent's.
type same struct{ id, parent string }

// byText finds messages of this run and of the history by their texts. It ignores empty texts and messages whose id is in the
// snapshot.
func (l *alignment) byText() {
	lengths := make(map[int]bool, len(l.list)) // by which most differ, without a look at their texts
	standing := make(map[slot]bool, len(l.list))
	for i := range l.list {
		lengths[len(l.list[i].m.Content.String())] = true
		standing[slot{l.list[i].m.Role, l.list[i].m.ID}] = true
	}
	known := make(map[spoken][]same)
	add := func(m *agui.Message, is same) {
		if text := m.Content.String(); text != "" && lengths[len(text)] {
			known[spoken{m.Role, text}] = append(known[spoken{m.Role, text}], is)
		}
	}
	for i := range l.t.past.messages {
		if m := &l.t.past.messages[i]; !standing[slot{m.Role, m.ID}] {
			add(m, same{parent: m.ID})
		}
	}
	for _, m := range l.t.shown.Messages() {
		if !l.claimed[m.ID] {
			add(&m, same{id: m.ID})
		}
	}
	for i := range l.list {
		s := &l.list[i]
		is := spoken{s.m.Role, s.m.Content.String()}
		if s.of != isNew || s.m.Role == agui.RoleTool || len(known[is]) == 0 {
			continue
		}
		first := known[is][0]
		known[is] = known[is][1:]
		if first.id == "" {
			s.of, s.parent = ofPast, first.parent
		} else {
			l.claim(s, first.id)
		}
	}
}

// name gives a message of the snapshot our id. It records the key of a message that was shown under another.
func (l *alignment) name(s *stands) {
	n := &l.t.names
	switch {
	case s.m.Role == agui.RoleActivity || s.of == ofPast:
	case s.m.Role == agui.RoleAssistant:
		if s.of == ofRun {
			n.aliases[alias{agui.RoleAssistant, "", s.m.ID}] = s.id
		}
		s.id = n.newMessage(s.m.ID)
	case s.m.Role == agui.RoleReasoning && s.of == ofRun:
		n.aliases[alias{agui.RoleReasoning, "", s.m.ID}] = s.id
	case s.m.Role == agui.RoleReasoning:
		s.id = n.reasoning(s.m.ID)
	case s.of == ofRun:
		n.aliases[alias{agui.RoleTool, s.m.ToolCallID, s.m.ID}] = s.id
	default:
		s.id = n.result(s.m.ToolCallID, s.m.ID)
	}
}
