package httpagent

import (
	"encoding/json"
	"strings"

	"aqueduct/agui"
	"aqueduct/bridge"
)

// state is the contract's progress frame. One that names a step is a step; any other is
// the agent's state, kept under /agent.
func (t *translator) state(dst []bridge.Output, data []byte) ([]bridge.Output, error) {
	var body struct {
		State  string          `json:"state"`
		Detail json.RawMessage `json:"detail,omitempty"`
	}
	if err := decode(frameState, data, &body); err != nil {
		return dst, err
	}
	if body.State == "" {
		return dst, missing(frameState, "state")
	}
	if name := stepName(body.Detail); name != "" {
		switch strings.ToLower(body.State) {
		case "step_started":
			return event(dst, &agui.StepStarted{StepName: name}), nil
		case "step_finished":
			return event(dst, &agui.StepFinished{StepName: name}), nil
		}
	}
	patch, err := json.Marshal([]any{struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}{"add", "/agent", body}})
	return event(dst, &agui.StateDelta{Delta: patch}), err
}

func stepName(detail json.RawMessage) string {
	var d struct{ Step, Name, StepName string }
	if json.Unmarshal(detail, &d) != nil {
		return ""
	}
	for _, s := range []string{d.StepName, d.Step, d.Name} {
		if s != "" {
			return s
		}
	}
	return ""
}

func (t *translator) toolCall(dst []bridge.Output, data []byte) ([]bridge.Output, error) {
	var body struct {
		ID, Name string
		Args     json.RawMessage
	}
	if err := decode(frameToolCall, data, &body); err != nil {
		return dst, err
	}
	if body.ID == "" || body.Name == "" {
		return dst, missing(frameToolCall, "id or name")
	}
	if body.Args = notNull(body.Args); body.Args == nil {
		body.Args = json.RawMessage("{}")
	}
	id := t.newCall(body.ID)
	return event(dst,
		&agui.ToolCallStart{ToolCallID: id, ToolCallName: shownTool(body.Name), ParentMessageID: t.parent},
		&agui.ToolCallArgs{ToolCallID: id, Delta: string(body.Args)},
		&agui.ToolCallEnd{ToolCallID: id}), nil
}

// toolCallPart is a call whose arguments come as the model writes them: its start, some of their text, or its end.
func (t *translator) toolCallPart(dst []bridge.Output, f frame) ([]bridge.Output, error) {
	var body struct {
		ID, Name string
		Delta    *string
	}
	if err := decode(f.event, f.data, &body); err != nil {
		return dst, err
	}
	if body.ID == "" {
		return dst, missing(f.event, "id")
	}
	id := t.callID(body.ID)
	switch {
	case f.event == frameToolCallStart && body.Name == "":
		return dst, missing(f.event, "name")
	case f.event == frameToolCallStart:
		return event(dst, &agui.ToolCallStart{ToolCallID: t.newCall(body.ID), ToolCallName: shownTool(body.Name), ParentMessageID: t.parent}), nil
	case f.event == frameToolCallEnd:
		return event(dst, &agui.ToolCallEnd{ToolCallID: id}), nil
	case body.Delta == nil:
		return dst, missing(f.event, "delta")
	}
	return event(dst, &agui.ToolCallArgs{ToolCallID: id, Delta: *body.Delta}), nil
}

// shownTool keeps the name of our permission card for our permission card.
func shownTool(name string) string {
	if name == "request_permission" {
		return "agent." + name
	}
	return name
}

func (t *translator) toolResult(dst []bridge.Output, data []byte) ([]bridge.Output, error) {
	var body struct {
		ID      string
		Content json.RawMessage
	}
	if err := decode(frameToolResult, data, &body); err != nil {
		return dst, err
	}
	if body.ID == "" {
		return dst, missing(frameToolResult, "id")
	}
	var text string
	if json.Unmarshal(body.Content, &text) != nil {
		text = string(body.Content)
	}
	return event(dst, &agui.ToolCallResult{
		MessageID: newID(), ToolCallID: t.callID(body.ID), Role: "tool", Content: agui.Text(text),
	}), nil
}

func (t *translator) stateSnapshot(dst []bridge.Output, data []byte) ([]bridge.Output, error) {
	var body struct{ Snapshot json.RawMessage }
	if err := decode(frameStateSnapshot, data, &body); err != nil {
		return dst, err
	}
	if len(body.Snapshot) == 0 {
		return dst, missing(frameStateSnapshot, "snapshot")
	}
	return event(dst, &agui.StateSnapshot{Snapshot: body.Snapshot}), nil
}

func (t *translator) stateDelta(dst []bridge.Output, data []byte) ([]bridge.Output, error) {
	var body struct{ Delta json.RawMessage }
	if err := decode(frameStateDelta, data, &body); err != nil {
		return dst, err
	}
	if len(body.Delta) == 0 {
		return dst, missing(frameStateDelta, "delta")
	}
	return event(dst, &agui.StateDelta{Delta: body.Delta}), nil
}

func (t *translator) activity(dst []bridge.Output, data []byte) ([]bridge.Output, error) {
	var body struct {
		ID, Type       string
		Content, Patch json.RawMessage
	}
	if err := decode(frameActivity, data, &body); err != nil {
		return dst, err
	}
	if body.Type == "" {
		return dst, missing(frameActivity, "type")
	}
	id := t.id("activity:" + body.ID + ":" + body.Type)
	switch body.Patch = notNull(body.Patch); {
	case len(body.Patch) > 0:
		return event(dst, &agui.ActivityDelta{MessageID: id, ActivityType: body.Type, Patch: body.Patch}), nil
	case len(body.Content) > 0 && body.Content[0] == '{':
		return event(dst, &agui.ActivitySnapshot{MessageID: id, ActivityType: body.Type, Content: body.Content}), nil
	}
	return dst, missing(frameActivity, "content (an object) or patch")
}

func (t *translator) step(dst []bridge.Output, data []byte) ([]bridge.Output, error) {
	var body struct{ Name, Status string }
	if err := decode(frameStep, data, &body); err != nil {
		return dst, err
	}
	switch {
	case body.Name == "":
		return dst, missing(frameStep, "name")
	case body.Status == "started":
		return event(dst, &agui.StepStarted{StepName: body.Name}), nil
	case body.Status == "finished":
		return event(dst, &agui.StepFinished{StepName: body.Name}), nil
	}
	return dst, missing(frameStep, "status (started or finished)")
}

func (t *translator) custom(dst []bridge.Output, data []byte) ([]bridge.Output, error) {
	var body struct {
		Name  string
		Value json.RawMessage
	}
	if err := decode(frameCustom, data, &body); err != nil {
		return dst, err
	}
	if body.Name == "" {
		return dst, missing(frameCustom, "name")
	}
	if len(body.Value) == 0 {
		body.Value = json.RawMessage("null")
	}
	return event(dst, &agui.Custom{Name: body.Name, Value: body.Value}), nil
}
