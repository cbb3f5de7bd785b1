package server

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"aqueduct/agui"
)

// eventTypes are the Go types of AG-UI's events and of what is in them, by the name of their schema in openapi.json.
func eventTypes() map[string]reflect.Type {
	return map[string]reflect.Type{
		"RunStartedEvent":              reflect.TypeFor[agui.RunStarted](),
		"RunFinishedEvent":             reflect.TypeFor[agui.RunFinished](),
		"RunErrorEvent":                reflect.TypeFor[agui.RunError](),
		"StepStartedEvent":             reflect.TypeFor[agui.StepStarted](),
		"StepFinishedEvent":            reflect.TypeFor[agui.StepFinished](),
		"TextMessageStartEvent":        reflect.TypeFor[agui.TextMessageStart](),
		"TextMessageContentEvent":      reflect.TypeFor[agui.TextMessageContent](),
		"TextMessageEndEvent":          reflect.TypeFor[agui.TextMessageEnd](),
		"ToolCallStartEvent":           reflect.TypeFor[agui.ToolCallStart](),
		"ToolCallArgsEvent":            reflect.TypeFor[agui.ToolCallArgs](),
		"ToolCallEndEvent":             reflect.TypeFor[agui.ToolCallEnd](),
		"ToolCallResultEvent":          reflect.TypeFor[agui.ToolCallResult](),
		"StateSnapshotEvent":           reflect.TypeFor[agui.StateSnapshot](),
		"StateDeltaEvent":              reflect.TypeFor[agui.StateDelta](),
		"MessagesSnapshotEvent":        reflect.TypeFor[agui.MessagesSnapshot](),
		"ActivitySnapshotEvent":        reflect.TypeFor[agui.ActivitySnapshot](),
		"ActivityDeltaEvent":           reflect.TypeFor[agui.ActivityDelta](),
		"ReasoningStartEvent":          reflect.TypeFor[agui.ReasoningStart](),
		"ReasoningEndEvent":            reflect.TypeFor[agui.ReasoningEnd](),
		"ReasoningMessageStartEvent":   reflect.TypeFor[agui.ReasoningMessageStart](),
		"ReasoningMessageContentEvent": reflect.TypeFor[agui.ReasoningMessageContent](),
		"ReasoningMessageEndEvent":     reflect.TypeFor[agui.ReasoningMessageEnd](),
		"ReasoningEncryptedValueEvent": reflect.TypeFor[agui.ReasoningEncryptedValue](),
		"RawEvent":                     reflect.TypeFor[agui.Raw](),
		"CustomEvent":                  reflect.TypeFor[agui.Custom](),
		"SubagentStartedEvent":         reflect.TypeFor[agui.SubagentStarted](),
		"SubagentFinishedEvent":        reflect.TypeFor[agui.SubagentFinished](),
		"SubagentErrorEvent":           reflect.TypeFor[agui.SubagentError](),
		"RunOutcome":                   reflect.TypeFor[agui.Outcome](),
		"Interrupt":                    reflect.TypeFor[agui.Interrupt](),
		"TokenUsage":                   reflect.TypeFor[agui.TokenUsage](),
		"Message":                      reflect.TypeFor[agui.Message](),
		"MessageToolCall":              reflect.TypeFor[agui.ToolCall](),
	}
}

// aguiMembers are the JSON members of one field of a type of AG-UI's, by its tag (agui/layout.go). What all events share has
// no tag, nor has what the type writes itself.
func aguiMembers(t reflect.Type, f reflect.StructField) map[string]member {
	tag := f.Tag.Get("agui")
	switch {
	case f.Type == reflect.TypeFor[agui.Base]():
		return sharedMembers()
	case f.Type == reflect.TypeFor[agui.Sub]():
		out := sharedMembers()
		out["subagentRunId"] = member{kind: "string", of: reflect.TypeFor[string](), optional: tag != ",subject"}
		return out
	case t == reflect.TypeFor[agui.Message]() && f.Name == "Content":
		return map[string]member{"content": {of: f.Type, optional: true}}
	}
	name, rules, _ := strings.Cut(tag, ",")
	words := strings.Split(rules, ",")
	if tag == "" || slices.Contains(words, "later") {
		return nil
	}
	written := slices.ContainsFunc(words, func(word string) bool {
		return word == "required" || word == "always" || strings.HasPrefix(word, "const=")
	})
	return map[string]member{name: {kind: jsonKind(f.Type), of: f.Type, optional: !written}}
}

// sharedMembers are those of agui.Base.
func sharedMembers() map[string]member {
	return map[string]member{
		"type":      {kind: "string", of: reflect.TypeFor[string]()},
		"timestamp": {kind: "integer", of: reflect.TypeFor[int64](), optional: true},
		"rawEvent":  {of: reflect.TypeFor[any](), optional: true},
		"metadata":  {of: reflect.TypeFor[any](), optional: true},
	}
}

// aguiRule are the texts that a member of a type of AG-UI's may have.
func aguiRule[T any](name string) []string {
	for f := range reflect.TypeFor[T]().Fields() {
		member, rules, _ := strings.Cut(f.Tag.Get("agui"), ",")
		if member != name {
			continue
		}
		for word := range strings.SplitSeq(rules, ",") {
			if kind, list, ok := strings.Cut(word, "="); ok && (kind == "oneof" || kind == "const") {
				return strings.Split(list, "|")
			}
		}
	}
	return nil
}

// aguiTypes are the types of the events that clients get: no chunks, which are expanded before they are kept, and for TDesign
// the names that reasoning had.
func aguiTypes() (out []string) {
	for _, t := range agui.Types() {
		if !strings.HasSuffix(string(t), "_CHUNK") {
			out = append(out, string(t))
		}
	}
	return append(out, "THINKING_START", "THINKING_TEXT_MESSAGE_START", "THINKING_TEXT_MESSAGE_CONTENT", "THINKING_TEXT_MESSAGE_END", "THINKING_END")
}

// TestOpenAPIEvents: the schema that the discriminator names for a type of events is of that type, and all are among those
// that an event is one of.
func TestOpenAPIEvents(t *testing.T) {
	t.Parallel()
	doc := readDoc(t)
	event := doc.Components.Schemas["AGUIEvent"]
	var listed []string
	for _, one := range event.OneOf {
		listed = append(listed, one.Ref)
	}
	for _, name := range aguiTypes() {
		ref := event.Discriminator.Mapping[name]
		if !slices.Contains(listed, ref) {
			t.Errorf("%s is mapped to %q, which no event is", name, ref)
		}
		if got := doc.whole(documented{Ref: ref}).Properties["type"].Const; got != name {
			t.Errorf("%s is mapped to %q, whose type is %q", name, ref, got)
		}
	}
	if want := len(aguiTypes()); len(event.Discriminator.Mapping) != want || len(listed) != want {
		t.Errorf("%d mapped and %d listed, of %d types", len(event.Discriminator.Mapping), len(listed), want)
	}
}
