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
// Messages of users and operators, and messages of earlier runs, do not change: the transcript already has them. For the
// messages of this run the snapshot is authoritative: their texts, calls, results, order, and the ids by which the agent
// knows them.
func (t *Translator) snapshot(dst []bridge.Output, e *agui.MessagesSnapshot) ([]bridge.Output, error) {
	d := difference{t: t, list: t.align(e.Messages), out: dst}
	for i := range d.list {
		s := &d.list[i]
		s.m.Metadata = withUnknown(s.m.Metadata, s.m.Unknown)
		if s.of != ofRun {
			d.show(d.added(s)...)
		}
		if s.of != ofPast {
			d.changed(s)
		}
	}
	d.moved()
	d.ordered()
	d.forgotten()
	return d.out, d.err
}

// difference collects the content of a snapshot that is not known yet.
type difference struct {
	t    *Translator
	list []stands
	out  []bridge.Output
	err  error // the first; nothing is shown after it
}

// show emits the events that represent a part of a snapshot.
func (d *difference) show(events ...agui.Event) {
	for _, ev := range events {
		if d.err == nil {
			d.out, d.err = d.t.show(d.out, ev)
		}
	}
}

// amend changes a message of this run.
func (d *difference) amend(a agui.Amendment) {
	d.t.shown.Amend(a)
	d.out = append(d.out, bridge.Output{Amended: &a})
}

// moved removes calls from messages that lost them to other messages of the snapshot. The new owner already has them, so that
// a reader of the log always finds them. A message with nothing left gets no row (run.transcript).
func (d *difference) moved() {
	owner := make(map[string]string) // of a call: its message, by our ids
	for i := range d.list {
		if s := &d.list[i]; s.of != ofPast {
			for _, call := range s.m.ToolCalls {
				owner[d.t.names.call(call.ID)] = s.id
			}
		}
	}
	if len(owner) == 0 {
		return
	}
	for _, m := range d.t.shown.Messages() {
		kept := make([]agui.ToolCall, 0, len(m.ToolCalls))
		for _, call := range m.ToolCalls {
			if now, stands := owner[call.ID]; !stands || now == m.ID {
				kept = append(kept, call)
			}
		}
		if len(kept) < len(m.ToolCalls) {
			d.amend(agui.Amendment{MessageID: m.ID, ToolCalls: &kept})
		}
	}
}

// ordered puts the messages of this run into the order of the snapshot. Messages in order keep their place. Each other
// message is moved after its predecessor in the snapshot, so that messages of others between them keep their place. Clients
// do not move a message that they have: only clients that join later see the order.
func (d *difference) ordered() {
	place := make(map[string]int)
	for i, m := range d.t.shown.Messages() {
		place[m.ID] = i + 1
	}
	before, furthest := "", 0
	for i := range d.list {
		s := &d.list[i]
		at := place[s.id]
		if s.of == ofPast || s.m.Role == agui.RoleActivity || at == 0 {
			continue
		}
		if at < furthest {
			d.amend(agui.Amendment{MessageID: s.id, After: before})
		} else {
			furthest = at
		}
		before = s.id
	}
}

// forgotten marks texts of this run that the snapshot does not have, such as those of a graph's inner steps. People still see
// them. The agent, which compares by id and would add them to its memory, is not sent them. A snapshot without any message of
// this run was made before the run.
func (d *difference) forgotten() {
	stand := make(map[string]bool)
	for i := range d.list {
		if d.list[i].of != ofPast {
			stand[d.list[i].id] = true
		}
	}
	if len(stand) == 0 {
		return
	}
	for _, m := range d.t.shown.Messages() {
		ids, _, _ := restore(m.Metadata)
		gone := m.Role == agui.RoleAssistant && len(m.ToolCalls) == 0 && !m.Content.Absent && !stand[m.ID] && !d.t.grammar.Open(&agui.TextMessageContent{MessageID: ids.key()})
		if gone != ids.Forgotten && ids.MessageID != "" {
			ids.Forgotten = gone
			d.amend(agui.Amendment{MessageID: m.ID, Metadata: annotate(nil, ids)})
		}
	}
}
