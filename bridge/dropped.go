package bridge

import (
	"context"

	"aqueduct/agui"
)

// maxDroppedIDs bounds how many messages one warning names.
const maxDroppedIDs = 100

// droppedOf are the messages that a client put into its history by itself: of a system, a developer, or an assistant.
// While a Turn is under way an unknown message of an assistant may be what it is saying, which is kept when its Run ends.
func droppedOf(messages []agui.Message, known map[string]bool, underWay bool) []agui.Message {
	var dropped []agui.Message
	for _, m := range messages {
		switch {
		case known[m.ID]:
		case m.Role == agui.RoleSystem, m.Role == agui.RoleDeveloper, m.Role == agui.RoleAssistant && !underWay:
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
