// This file takes a MESSAGES_SNAPSHOT apart. In AG-UI a snapshot replaces a client's history; our log only grows, so
// it is compared with what is known, and only the difference is shown. snapshotalign.go decides which message of a
// snapshot is which, snapshotmessage.go what becomes of one.

package aguiagent

import (
	"aqueduct/agui"
	"aqueduct/bridge"
)

// snapshot is MESSAGES_SNAPSHOT: the conversation as the agent has it. A log keeps what was added and never replaces what
// it has, so the snapshot becomes the events of what it adds, and amendments of what it changes. Most agents end a run with
// one that does neither.
//
// What users and operators wrote is kept here already, as they wrote it. Messages of earlier runs stay as they were. For the
// messages of this run the snapshot is right: their texts, calls, results, order, and the ids by which the agent knows them.
func (t *Translator) snapshot(dst []bridge.Output, e *agui.MessagesSnapshot) (_ []bridge.Output, err error) {
	list := t.align(e.Messages)
	for i := range list {
		s := &list[i]
		s.m.Metadata = withUnknown(s.m.Metadata, s.m.Unknown)
		if s.of != ofRun {
			if dst, err = t.addAll(dst, t.added(s)); err != nil {
				return dst, err
			}
		}
		if s.of == ofPast {
			continue
		}
		if dst, err = t.changed(dst, s); err != nil {
			return dst, err
		}
	}
	dst = t.moved(dst, list)
	dst = t.ordered(dst, list)
	return t.forgotten(dst, list), nil
}

// addAll shows events that a snapshot stands for.
func (t *Translator) addAll(dst []bridge.Output, events []agui.Event) (_ []bridge.Output, err error) {
	for _, ev := range events {
		if dst, err = t.show(dst, ev); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// amend changes a message of this run.
func (t *Translator) amend(dst []bridge.Output, a agui.Amendment) []bridge.Output {
	t.shown.Amend(a)
	return append(dst, bridge.Output{Amended: &a})
}

// moved takes calls out of messages that lost them to other messages of the snapshot.
func (t *Translator) moved(dst []bridge.Output, list []stands) []bridge.Output {
	owner := make(map[string]string) // of a call: its message, by our ids
	for i := range list {
		if s := &list[i]; s.of != ofPast {
			for _, call := range s.m.ToolCalls {
				owner[t.names.call(call.ID)] = s.id
			}
		}
	}
	if len(owner) == 0 {
		return dst
	}
	for _, m := range t.shown.Messages() {
		kept := make([]agui.ToolCall, 0, len(m.ToolCalls))
		for _, call := range m.ToolCalls {
			if now, stands := owner[call.ID]; !stands || now == m.ID {
				kept = append(kept, call)
			}
		}
		if len(kept) < len(m.ToolCalls) {
			dst = t.amend(dst, agui.Amendment{MessageID: m.ID, ToolCalls: &kept})
		}
	}
	return dst
}

// ordered puts the messages of this run into the order of the snapshot. A result stands behind its call in any case.
func (t *Translator) ordered(dst []bridge.Output, list []stands) []bridge.Output {
	place := make(map[string]int)
	for i, m := range t.shown.Messages() {
		place[m.ID] = i + 1
	}
	before, furthest := "", 0
	for i := range list {
		at := place[list[i].id]
		if list[i].of == ofPast || list[i].m.Role == agui.RoleActivity || at == 0 {
			continue
		}
		if at < furthest {
			dst = t.amend(dst, agui.Amendment{MessageID: list[i].id, After: before})
		} else {
			furthest = at
		}
		before = list[i].id
	}
	return dst
}

// forgotten marks texts of this run that the snapshot does not have, such as those of a graph's inner steps. They stay where
// people read them, and the agent, which compares by id and would add them to its memory, is not sent them. A snapshot
// without a message of this run was made before it.
func (t *Translator) forgotten(dst []bridge.Output, list []stands) []bridge.Output {
	stand := make(map[string]bool)
	for i := range list {
		if list[i].of != ofPast {
			stand[list[i].id] = true
		}
	}
	if len(stand) == 0 {
		return dst
	}
	for _, m := range t.shown.Messages() {
		ids, _, _ := restore(m.Metadata)
		gone := m.Role == agui.RoleAssistant && len(m.ToolCalls) == 0 && !m.Content.Absent && !stand[m.ID] && !t.grammar.TextOpen(ids.key())
		if gone != ids.Forgotten && ids.MessageID != "" {
			ids.Forgotten = gone
			dst = t.amend(dst, agui.Amendment{MessageID: m.ID, Metadata: annotate(nil, ids)})
		}
	}
	return dst
}
