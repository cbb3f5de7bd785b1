// This file reads an event of the agent as the official clients do, where package agui, which reads logs too, is stricter or
// less strict than they are. test/aguiagents/streams.test.mjs asks the clients. Back ends of TDesign's page about AG-UI send
// results without a messageId: they have a stand-in too.

package aguiagent

import (
	"bytes"
	"encoding/json"
	"errors"

	"aqueduct/agui"
)

// Stand-ins for ids and names that are there and empty, which the clients take. An id that the agent did not give is not given
// back; the name of a tool is (ownTool).
const (
	noID   = keyMark
	noName = "unnamed"
	noTool = cardPrefix
)

// standIns are the members that have one when they are empty: of an event, of a message of a snapshot, of a call in one.
var standIns = map[string]string{
	"messageId": noID, "toolCallId": noID, "entityId": noID, "id": noID,
	"stepName": noName, "activityType": noName, "name": noName, "toolCallName": noTool,
}

// decode reads an event. Members that are absent or null though both clients want them are refused by their names.
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

// wanted is a member without which both clients refuse an event, and that a decoded event does not have or has empty; "" for none.
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

// memberOf is a member of a valid JSON object; nil where it is absent or null.
func memberOf(object []byte, name string) (value json.RawMessage) {
	_ = agui.EachMember(object, func(key, val []byte) error { // an object, as it was decoded
		if string(key) == name && string(val) != "null" {
			value = val
		}
		return nil
	})
	return value
}

// standIn puts stand-ins for what is empty into an event, and into the messages of a snapshot.
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
