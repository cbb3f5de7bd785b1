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

// taskBody is what of a request is kept until the Turn is begun.
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

// refOf is what a Task's request is encrypted for.
func refOf(t store.Task) string { return "request of task " + t.ID }

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
