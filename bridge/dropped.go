package bridge

import (
	"context"
	"slices"

	"aqueduct/agui"
	"aqueduct/store"
)

// maxDroppedIDs bounds how many messages one warning names.
const maxDroppedIDs = 100

// droppedOf returns the messages that a client added to its history and that reach no Agent. They are an assistant's in an
// existing thread, and the system's or the developer's if the Agent does not speak AG-UI.
// While a Turn is under way an unknown message of an assistant may be what it is saying, which is kept when its Run ends.
func (c clientMessages) droppedOf(underWay bool) []agui.Message {
	var dropped []agui.Message
	instructs := slices.ContainsFunc(c.req.Messages, isInstruction) && c.agents.Protocol(c.req.Principal.Tenant, c.agentID(c.agents)) == store.AgentAGUI
	for _, m := range c.req.Messages {
		switch {
		case c.known[m.ID]:
		case isInstruction(m) && !instructs, c.exists && m.Role == agui.RoleAssistant && !underWay && !c.adds(m):
			dropped = append(dropped, m)
		}
	}
	return dropped
}

// noteDropped warns, once in a thread, that messages of the client's history are not taken: the page's author would
// otherwise look in vain for what became of a system prompt.
func (th *thread) noteDropped(ctx context.Context) error {
	if len(th.dropped) == 0 {
		return nil
	}
	first, err := th.tx.NoteDropped(ctx, th.session.ID)
	if err != nil || !first {
		return err
	}
	type dropped struct {
		ID   string `json:"id"`
		Role string `json:"role"`
	}
	note := struct {
		Messages []dropped `json:"messages"`
		Count    int       `json:"count"`
		Message  string    `json:"message"`
	}{
		Count:   len(th.dropped),
		Message: "These messages of the client's history are not taken: the history kept here is the truth. This is said once in a thread.",
	}
	for _, m := range th.dropped[:min(len(th.dropped), maxDroppedIDs)] {
		note.Messages = append(note.Messages, dropped{m.ID, m.Role})
	}
	th.note("messages_dropped", note)
	return nil
}
