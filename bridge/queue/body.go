// This file is a Task's request as it waits in its row: JSON, encrypted where there is a Vault. It has what the
// intake needs beside the row's own columns. A row may be older than the program that reads it, so members are added
// here and never renamed.

package queue

import (
	"encoding/json"
	"fmt"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/redact"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// taskBody is what of a request is kept until the Turn is begun. Roles are those that the user had when the Task was
// added: a Turn that begins later has no request to take them from.
type taskBody struct {
	Roles       []string           `json:"roles,omitempty"`
	Messages    []agui.Message     `json:"messages"`
	Tools       []bridge.ToolBrief `json:"tools,omitempty"`
	Context     []agui.Context     `json:"context,omitempty"`
	Props       json.RawMessage    `json:"props,omitempty"`
	Traceparent string             `json:"traceparent,omitempty"`
	Tracestate  string             `json:"tracestate,omitempty"`
	Channel     string             `json:"channel,omitempty"`
	Shared      bool               `json:"shared,omitempty"` // the thread is another user's
}

// callback is the channel whose callback gets what comes of the Task; "" is none. It is for threads of the user whom the channel
// speaks for.
func (b taskBody) callback() string {
	if b.Shared {
		return ""
	}
	return b.Channel
}

// refOf is what a Task's request is encrypted for: in the row of another Task it does not open.
func refOf(t store.Task) string { return "request of task " + t.ID }

// seal puts a request into its Task, encrypted where there is a Vault. The bound counts what was not encrypted yet,
// so that it is the same with and without.
func (q *Queue) seal(t *store.Task, chat bridge.ChatRequest, channel string, shared bool) (err error) {
	body := taskBody{
		Roles: chat.Principal.Roles, Messages: chat.Messages, Context: chat.Context, Props: chat.Props,
		Traceparent: chat.Traceparent, Tracestate: chat.Tracestate, Channel: channel, Shared: shared,
	}
	for _, tool := range chat.Tools {
		body.Tools = append(body.Tools, bridge.ToolBrief{Name: tool.Name, Description: tool.Description, Parameters: tool.Parameters})
	}
	if t.Body, err = json.Marshal(body); err != nil {
		return err
	}
	if len(t.Body) > maxBody {
		return fault.New(CodeTooLarge, fmt.Sprintf("A task has at most %d bytes; put large contents into the context store.", maxBody))
	}
	if q.cfg.Vault != nil {
		t.KID, t.Body = q.cfg.Vault.Seal(refOf(*t), t.Body)
	}
	return nil
}

// open is the reverse of seal. redact.ErrSealed is one whose key is gone; it stays so, and the Task fails.
func (q *Queue) open(t store.Task) (body taskBody, err error) {
	raw := t.Body
	if t.KID != "" {
		if q.cfg.Vault == nil {
			return body, redact.ErrSealed
		}
		if raw, err = q.cfg.Vault.Open(refOf(t), t.KID, raw); err != nil {
			return body, err
		}
	}
	return body, json.Unmarshal(raw, &body)
}
