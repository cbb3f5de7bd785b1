// This file takes a MESSAGES_SNAPSHOT apart. In AG-UI a snapshot replaces a client's history; our log only grows, so
// it is compared with what is known, and only the difference is shown.

package aguiagent

import (
	"aqueduct/agui"
	"aqueduct/bridge"
)

// snapshot is MESSAGES_SNAPSHOT: the conversation as the agent has it. A log keeps what was added and never replaces what
// it has, so the snapshot becomes the events of what it adds, and amendments of what it changes. Most agents end a run with
// one that does neither.
//
// What users and operators wrote is kept here already, as they wrote it. A message that stands here under another id, with
// the same role and text, is the same: some agents number a conversation anew in each snapshot.
func (t *Translator) snapshot(dst []bridge.Output, e *agui.MessagesSnapshot) []bridge.Output {
	known := t.renamed(e.Messages)
	type given struct{ role, id string }
	seen := make(map[given]bool, len(e.Messages))
	for i := range e.Messages {
		m := &e.Messages[i]
		switch m.Role {
		case agui.RoleUser, agui.RoleSystem, agui.RoleDeveloper:
			continue
		}
		if seen[given{m.Role, m.ID}] { // of two with one id the first counts
			continue
		}
		seen[given{m.Role, m.ID}] = true
		m.Metadata = withUnknown(m.Metadata, m.Unknown)
		id := known[m.ID]
		for _, ev := range t.added(m, id) {
			dst = t.show(dst, ev)
		}
		dst = t.changed(dst, m, id)
	}
	return dst
}

// spoken is what makes two messages the same.
type spoken struct{ role, text string }

// renamed are the ids of a snapshot that stand for messages which are known, each with the id that is known.
func (t *Translator) renamed(snapshot []agui.Message) map[string]string {
	given := make(map[string]bool, len(snapshot))
	for i := range snapshot {
		given[snapshot[i].ID] = true
	}
	lengths := make(map[int]bool, len(snapshot)) // by which most differ, without a look at their texts
	for i := range snapshot {
		lengths[len(snapshot[i].Content.String())] = true
	}
	missing := make(map[spoken][]string)
	for _, m := range t.fold.Messages() {
		if text := m.Content.String(); !given[m.ID] && text != "" && lengths[len(text)] {
			is := spoken{m.Role, text}
			missing[is] = append(missing[is], m.ID)
		}
	}
	known := make(map[string]string, len(snapshot))
	for i := range snapshot {
		m := &snapshot[i]
		if known[m.ID] != "" {
			continue
		}
		is := spoken{m.Role, m.Content.String()}
		if _, ok := t.fold.Message(m.ID); ok {
			known[m.ID] = m.ID
		} else if same := missing[is]; len(same) > 0 {
			known[m.ID], missing[is] = same[0], same[1:]
		}
	}
	return known
}
