package server

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/store"
)

// What a TDesign page calls messages of a Run that failed, and of one that was cancelled. They are what the page
// itself would have set when the stream broke.
const (
	pageError = "error"
	pageStop  = "stop"
)

// brokenRuns are the Runs that failed or were cancelled, by id, of those that the messages belong to. Ids of Runs
// grow with time (UUIDv7), so the smallest and the largest of the page bound one range for the query, in place of a
// list of ids.
func (h *threads) brokenRuns(ctx context.Context, in store.Scope, sessionID string, rows []store.Message) (map[string]store.BrokenRun, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	byRun := func(a, b store.Message) int { return cmp.Compare(a.RunID, b.RunID) }
	found, err := h.store.BrokenRuns(ctx, in, sessionID, slices.MinFunc(rows, byRun).RunID, slices.MaxFunc(rows, byRun).RunID)
	broken := make(map[string]store.BrokenRun, len(found))
	for _, b := range found {
		broken[b.ID] = b
	}
	return broken, err
}

// markBroken marks where Runs were cut off in a history for a TDesign page: the Run's last message has the status
// that the page would have given it. convertHistoryMessages takes every message for complete, so behind a Run that
// failed stands, as in its stream, what went wrong. The check of the next message finds the last one of a Run:
// messages of one Run stand together.
func markBroken(page []pageMessage, rows []store.Message, broken map[string]store.BrokenRun) []pageMessage {
	if len(broken) == 0 {
		return page
	}
	runOf := make(map[string]string, len(rows))
	// A page's message has no Run, so it is found by the message's id.
	for _, row := range rows {
		runOf[row.ExternalID] = row.RunID
	}
	marked := make([]pageMessage, 0, len(page)+len(broken))
	for i, m := range page {
		marked = append(marked, m)
		b, is := broken[runOf[m.ID]]
		if !is || i+1 < len(page) && runOf[page[i+1].ID] == b.ID {
			continue
		}
		last := &marked[len(marked)-1]
		status := pageStop
		// A cancelled Run needs no message: the person who stopped it knows.
		if b.Status == store.RunFailed {
			status = pageError
		}
		if last.Role == agui.RoleAssistant {
			last.Status = status
		}
		if b.Status == store.RunFailed {
			marked = append(marked, pageMessage{ID: b.ExternalID + ":error", Role: agui.RoleAssistant, Content: bridge.EndMessage(b), Status: status})
		}
	}
	return marked
}

// markPlain is markBroken for AG-UI messages, which have no status: the last message of the assistant in such a Run
// has it in its metadata. Rows are walked from the end, so the first hit of each Run is its last message. Metadata
// that is there already is the agent's own and stays. The rows are changed in place; they are this request's.
func markPlain(rows []store.Message, broken map[string]store.BrokenRun) []store.Message {
	seen := make(map[string]bool, len(broken))
	for i := len(rows) - 1; i >= 0 && len(seen) < len(broken); i-- {
		row := &rows[i]
		b, is := broken[row.RunID]
		if !is || seen[b.ID] || !row.Output || row.Role != agui.RoleAssistant {
			continue
		}
		seen[b.ID] = true
		var m agui.Message
		if json.Unmarshal(row.Data, &m) != nil || len(m.Metadata) > 0 {
			continue
		}
		m.Metadata = endMetadata(b)
		row.Data = m.AppendJSON(nil)
	}
	return rows
}

// endMetadata is how a message's Run ended. It has the form {"incomplete":{"status":"failed","code":…,"message":…}}.
func endMetadata(b store.BrokenRun) json.RawMessage {
	var meta struct {
		Incomplete struct {
			Status  string `json:"status"`
			Code    string `json:"code,omitempty"`
			Message string `json:"message,omitempty"`
		} `json:"incomplete"`
	}
	meta.Incomplete.Status = "cancelled"
	if b.Status == store.RunFailed {
		meta.Incomplete.Status, meta.Incomplete.Code, meta.Incomplete.Message = "failed", b.ErrorCode, bridge.EndMessage(b)
	}
	raw, err := json.Marshal(meta)
	if err != nil {
		return nil
	}
	return raw
}
