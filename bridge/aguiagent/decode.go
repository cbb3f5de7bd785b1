// This file reads one event of the agent: as agui.Decode does, and with what back ends of TDesign's page about AG-UI leave out.

package aguiagent

import (
	"encoding/json"
	"errors"

	"aqueduct/agui"
	"aqueduct/internal/strictjson"
)

// decode reads an event. An event of a type that is not known, which a later version of AG-UI may have, becomes RAW: every
// client takes that, and clients before 1.0 end at a type that they do not know.
func decode(data []byte) (agui.Event, error) {
	ev, err := agui.Decode(data)
	if unknown, ok := errors.AsType[*agui.UnknownTypeError](err); ok {
		return &agui.Raw{Event: data, Source: "agui:" + unknown.Type}, nil
	}
	if in, ok := errors.AsType[*agui.InputError](err); ok && in.Path == "/messageId" {
		if whole, ok := withMessageID(data); ok {
			return agui.Decode(whole)
		}
	}
	return ev, err
}

// withMessageID is a TOOL_CALL_RESULT with the messageId that it was sent without: one for each call, so that a result that
// comes again is the same message.
func withMessageID(data []byte) (whole []byte, ok bool) {
	var of struct {
		Type       string  `json:"type"`
		MessageID  *string `json:"messageId"`
		ToolCallID string  `json:"toolCallId"`
	}
	if strictjson.Unmarshal(data, &of) != nil || of.Type != string(agui.TypeToolCallResult) || of.MessageID != nil && *of.MessageID != "" {
		return nil, false
	}
	id, _ := json.Marshal("result:" + of.ToolCallID) // a string always encodes
	return withMember(data, "messageId", id), true
}

// TypeOf is the type that an event has by its own words; "" when it has none.
func TypeOf(data []byte) string {
	var of struct {
		Type string `json:"type"`
	}
	_ = strictjson.Unmarshal(data, &of) // one that cannot be read has none
	return of.Type
}
