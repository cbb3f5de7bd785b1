package aguiagent

import (
	"encoding/json"

	"aqueduct/agui"
	"aqueduct/bridge"
)

// What an agent sends that AG-UI 1.0 has no place for. The log is 1.0, which its RUN_STARTED declares: an official client takes any
// other member out of an event, with a warning. What it takes as it is, and gives back, is metadata, and RAW.

const (
	// membersKey is the member of metadata that has the members which 1.0 does not know, as they came.
	membersKey = agui.UnknownMembersKey
	// kindKey is the member of metadata that has the kind of an encrypted value, which is a member of its own in the draft of 1.1.
	kindKey = "aqueduct.encryptedValueType"
)

// setApart puts what 1.0 does not have of an event into its metadata. The events of a run itself are not passed on, so RAW
// has what they say beside their meaning.
func setApart(dst []bridge.Output, ev agui.Event) []bridge.Output {
	base := agui.Shared(ev)
	switch ev.(type) {
	case *agui.RunStarted, *agui.RunFinished, *agui.RunError, *agui.MessagesSnapshot:
		if base.Unknown == nil && base.Metadata == nil {
			return dst
		}
		return append(dst, raw(ev.EventType(), restOf(ev.EventType(), base)))
	}
	base.Metadata = withUnknown(base.Metadata, base.Unknown)
	return dst
}

// restOf is an event without the members that mean something here.
func restOf(t agui.Type, base *agui.Base) json.RawMessage {
	out := append(agui.AppendString([]byte(`{"type":`), string(t)), '}')
	if base.Metadata != nil {
		out = append(append(append(out[:len(out)-1], `,"metadata":`...), base.Metadata...), '}')
	}
	if base.Unknown != nil {
		out = append(append(out[:len(out)-1], ','), base.Unknown[1:]...)
	}
	return out
}

// raw is an event that is passed on untouched.
func raw(t agui.Type, event json.RawMessage) bridge.Output {
	return bridge.Output{Event: &agui.Raw{Event: event, Source: "agui:" + string(t)}}
}

// withUnknown is metadata with members that 1.0 does not know.
func withUnknown(metadata, unknown json.RawMessage) json.RawMessage {
	if unknown == nil {
		return metadata
	}
	return withMember(metadata, membersKey, unknown)
}

// withMember is an object with one member more, or another value of it.
func withMember(object json.RawMessage, key string, value json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if _ = json.Unmarshal(object, &members); members == nil { // null, or no object
		members = make(map[string]json.RawMessage, 1)
	}
	members[key] = value
	out, _ := json.Marshal(members) // as do members that were decoded
	return out
}

// withoutMember returns an object without one member.
func withoutMember(object json.RawMessage, key string) json.RawMessage {
	members := make(map[string]json.RawMessage)
	if json.Unmarshal(object, &members) != nil || members[key] == nil {
		return object
	}
	delete(members, key)
	out, _ := json.Marshal(members) // as do members that were decoded
	return out
}
