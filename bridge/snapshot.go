package bridge

import (
	"encoding/json"
	"fmt"

	"aqueduct/agui"
	"aqueduct/store"
)

const (
	// snapshotBytes bounds the messages of one MESSAGES_SNAPSHOT: @ag-ui/client 1.0 fails on an SSE frame of 10 MiB, and what
	// else is in the frame, and what a proxy adds, has to fit beside it.
	snapshotBytes = 4 << 20
	// snapshotMessage bounds one message of a snapshot, so that a long one does not push out all the others.
	snapshotMessage = 1 << 20
	// HistoryCut is the name of the CUSTOM event that lists what a snapshot leaves out.
	HistoryCut = "history_cut"
)

// snapshot collects messages, the newest first.
type snapshot struct {
	shown    func(agui.Message) (agui.Message, bool)
	messages []agui.Message
	ids      []string // of their rows
	size     int
	full     bool // there are older ones
	cut      []string
}

// add takes the next older message, unless it does not fit.
func (h *snapshot) add(row store.Message) (more bool, err error) {
	m, err := decodeMessage(row)
	if err != nil {
		return false, err
	}
	size := len(row.Data)
	if size > snapshotMessage {
		m = shortened(m)
		size = len(m.AppendJSON(nil))
	}
	if len(h.messages) == historyLimit || h.size+size > snapshotBytes {
		h.full = true
		return false, nil
	}
	if size < len(row.Data) {
		h.cut = append(h.cut, m.ID)
	}
	h.messages, h.ids, h.size = append(h.messages, m), append(h.ids, row.ID), h.size+size+1
	return true, nil
}

// dropResults leaves results whose calls are not in the snapshot to the page before it.
func (h *snapshot) dropResults() {
	for n := len(h.messages) - 1; h.full && n > 0 && h.messages[n].Role == agui.RoleTool; n-- {
		h.messages, h.ids = h.messages[:n], h.ids[:n]
	}
}

func (h *snapshot) before() string {
	if !h.full || len(h.ids) == 0 {
		return ""
	}
	return h.ids[len(h.ids)-1]
}

// shortened is a message that fits: its text is cut and marked as cut; what cannot be cut is left out.
func shortened(m agui.Message) agui.Message {
	// Every byte of the text may become escapeGrowth bytes, and 4 KiB are for the other members: the message fits
	// then whatever is in it.
	const most = snapshotMessage/escapeGrowth - 4<<10
	out := agui.Message{
		ID: m.ID, Role: m.Role, Name: head(m.Name, nameBytes), ToolCallID: m.ToolCallID, Error: head(m.Error, nameBytes),
		ActivityType: m.ActivityType, SubagentRunID: m.SubagentRunID,
	}
	text := m.Content.String()
	out.Content = agui.Content{Text: head(text, most), Absent: m.Content.Absent}
	if len(out.Content.Text) < len(text) {
		out.Content.Text += fmt.Sprintf("\n[cut: %d of %d bytes shown]", len(out.Content.Text), len(text))
	}
	if m.Role == agui.RoleActivity {
		out.Activity = json.RawMessage(`{"cut":true}`)
	}
	const callMost = 4 << 10
	room := most
	for _, c := range m.ToolCalls {
		args := c.Function.Arguments
		if len(args) > callMost {
			args = `{"cut":true}`
		}
		if room -= len(args) + len(c.ID) + len(c.Function.Name) + nameBytes; room < 0 {
			break // ten thousand calls
		}
		out.ToolCalls = append(out.ToolCalls, agui.ToolCall{ID: c.ID, Function: agui.FunctionCall{Name: c.Function.Name, Arguments: args}})
	}
	return out
}
