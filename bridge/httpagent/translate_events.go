package httpagent

import (
	"cmp"
	"encoding/json"
	"strings"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/jsontext"
)

// state is the contract's progress frame (§6.2). A frame that names a step becomes a STEP event; any other becomes the
// value of /agent in the shared state.
// {"state":"searching","detail":{…}} is STATE_DELTA on /agent; {"state":"step_started","detail":{"step":"plan"}} is
// STEP_STARTED.
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

// stepName is the step that a state frame is about; "" where its detail names none, or is no object.
func stepName(detail json.RawMessage) string {
	var d struct{ Step, Name, StepName string }
	if json.Unmarshal(detail, &d) != nil {
		return ""
	}
	return cmp.Or(d.StepName, d.Step, d.Name)
}

// toolCall is a whole call in one frame.
// {"id":"c1","name":"search","args":{"q":"x"}} becomes TOOL_CALL_START, ARGS and END.
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
	id := t.calls.begin(body.ID)
	return event(dst,
		&agui.ToolCallStart{ToolCallID: id, ToolCallName: approval.AgentsTool(t.names.Own(body.Name)), ParentMessageID: t.parent},
		&agui.ToolCallArgs{ToolCallID: id, Delta: string(body.Args)},
		&agui.ToolCallEnd{ToolCallID: id}), nil
}

// toolCallPart is a frame of a call whose arguments arrive while the model writes them: its start, a piece of the
// arguments, or its end.
func (t *translator) toolCallPart(dst []bridge.Output, f frame) ([]bridge.Output, error) {
	var body struct {
		ID, Name string
		Delta    *jsontext.Fragment
	}
	if err := decode(f.event, f.data, &body); err != nil {
		return dst, err
	}
	if body.ID == "" {
		return dst, missing(f.event, "id")
	}
	id := t.calls.newest(body.ID)
	switch {
	case f.event == frameToolCallStart && body.Name == "":
		return dst, missing(f.event, "name")
	case f.event == frameToolCallStart:
		return event(dst, &agui.ToolCallStart{ToolCallID: t.calls.begin(body.ID), ToolCallName: approval.AgentsTool(t.names.Own(body.Name)), ParentMessageID: t.parent}), nil
	case f.event == frameToolCallEnd:
		return event(dst, &agui.ToolCallEnd{ToolCallID: id}), nil
	case body.Delta == nil:
		return dst, missing(f.event, "delta")
	}
	return event(dst, &agui.ToolCallArgs{ToolCallID: id, Delta: string(*body.Delta)}), nil
}

// toolResult handles the result of a call that the agent ran itself (callIDs.result).
// {"id":"c1","content":"3 hits"}; content may be any JSON, which becomes its text.
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
		MessageID: t.newID(), ToolCallID: t.calls.result(body.ID), Role: agui.RoleTool, Content: agui.Text(text),
	}), nil
}

// stateSnapshot replaces the whole shared state. A null is a state like any other, so only an absent one is refused.
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

// stateDelta is a JSON Patch of the shared state. It is applied by the engine, which refuses one that does not fit.
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

// activity replaces an activity with content, or changes it with a patch. Its id is derived from the agent's id and the
// type, so that later invokes of the Turn change the same activity.
// {"id":"p","type":"PLAN","content":{"entries":[]}} or
// {"id":"p","type":"PLAN","patch":[{"op":"add","path":"/entries/-","value":{}}]}.
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

// step translates {"name":"plan","status":"started"}.
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

// custom is a CUSTOM event of the agent's own. {"name":"map","value":{…}} is passed on as it is.
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
	return event(dst, &agui.Custom{Name: bridge.AgentsEvent(body.Name), Value: body.Value}), nil
}
