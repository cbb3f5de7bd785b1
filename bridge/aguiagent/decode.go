// This file reads an event of the agent as the official clients do. Package agui, which also reads logs, is stricter than
// they are in some places and less strict in others. test/aguiagents/streams.test.mjs compares with the clients. Back ends of
// TDesign's page about AG-UI send results without a messageId; such results get a stand-in too.

package aguiagent

import (
	"bytes"
	"encoding/json"
	"errors"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
)

// These stand in for empty ids and names, which the clients accept. An id that the agent did not give is not sent back to it;
// the name of a tool is (ownTool).
const (
	noID   = keyMark
	noName = "unnamed"
	noTool = approval.AgentPrefix
)

// standIns maps the members that get a stand-in when they are empty: of an event, of a message of a snapshot, of a call in
// one.
var standIns = map[string]string{
	"messageId": noID, "toolCallId": noID, "entityId": noID, "id": noID,
	"stepName": noName, "activityType": noName, "name": noName, "toolCallName": noTool,
}

// decode reads an event. It refuses, by name, members that are absent or null though both clients require them.
func decode(data []byte) (agui.Event, error) {
	ev, err := agui.Decode(data)
	if in, ok := errors.AsType[*agui.InputError](err); ok && in.Reason == "is required" && bytes.Contains(data, []byte(`""`)) {
		ev, err = agui.Decode(standIn(data))
	}
	if in, ok := errors.AsType[*agui.InputError](err); ok && in.Path == "/messageId" && agui.TypeIn(data) == agui.TypeToolCallResult {
		id, _ := json.Marshal(noID) // a string always encodes
		ev, err = agui.Decode(withMember(data, "messageId", id))
	}
	if err != nil {
		return nil, err
	}
	if chunk, ok := ev.(*agui.ToolCallChunk); ok && chunk.ToolCallName == "" && chunk.ToolCallID != "" && string(memberOf(data, "toolCallName")) == `""` {
		chunk.ToolCallName = noTool
	}
	if name := wanted(ev); name != "" && memberOf(data, name) == nil {
		return nil, &agui.InputError{Path: "/" + name, Reason: "is required"}
	}
	return ev, nil
}

// wanted returns the first member that both clients require and that a decoded event does not have or has empty; "" if none
// is missing.
func wanted(ev agui.Event) string {
	switch e := ev.(type) {
	case *agui.TextMessageContent:
		return unless(e.Delta != "", "delta")
	case *agui.ToolCallArgs:
		return unless(e.Delta != "", "delta")
	case *agui.ReasoningMessageContent:
		return unless(e.Delta != "", "delta")
	case *agui.ToolCallResult:
		return unless(e.Content.Text != "" || e.Content.Parts != nil, "content")
	case *agui.ReasoningEncryptedValue:
		return unless(e.EncryptedValue != "", "encryptedValue")
	case *agui.MessagesSnapshot:
		return unless(len(e.Messages) > 0, "messages")
	}
	return ""
}

func unless(has bool, name string) string {
	if has {
		return ""
	}
	return name
}

// memberOf returns a member of a valid JSON object, or nil if it is absent or null.
func memberOf(object []byte, name string) (value json.RawMessage) {
	_ = agui.EachMember(object, func(key, val []byte) error { // an object, as it was decoded
		if string(key) == name && string(val) != "null" {
			value = val
		}
		return nil
	})
	return value
}

// standIn fills empty members of an event, and of the messages of a snapshot, with stand-ins. It runs only before a refusal,
// so it may decode the whole event.
func standIn(event []byte) []byte {
	var tree map[string]any
	dec := json.NewDecoder(bytes.NewReader(event))
	dec.UseNumber()
	if dec.Decode(&tree) != nil {
		return event
	}
	fillEmpty(tree, standIns)
	for _, m := range objects(tree["messages"]) {
		fillEmpty(m, map[string]string{"id": noID, "toolCallId": noID, "activityType": noName})
		for _, call := range objects(m["toolCalls"]) {
			fillEmpty(call, map[string]string{"id": noID})
			if function, ok := call["function"].(map[string]any); ok {
				fillEmpty(function, map[string]string{"name": noTool})
			}
		}
	}
	out, err := json.Marshal(tree)
	if err != nil {
		return event
	}
	return out
}

func objects(list any) (out []map[string]any) {
	elements, _ := list.([]any)
	for _, one := range elements {
		if object, ok := one.(map[string]any); ok {
			out = append(out, object)
		}
	}
	return out
}

func fillEmpty(object map[string]any, by map[string]string) {
	for name, value := range by {
		if object[name] == "" {
			object[name] = value
		}
	}
}
