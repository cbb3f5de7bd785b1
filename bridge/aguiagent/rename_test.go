package aguiagent

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"aqueduct/agui"
)

// notShown are the types of events that have another meaning than an event of the log: the run's own, the snapshot of messages,
// and chunks, of which the grammar makes START, content and END. No rule gives them ids.
var notShown = []agui.Type{
	agui.TypeRunStarted, agui.TypeRunFinished, agui.TypeRunError, agui.TypeMessagesSnapshot,
	agui.TypeTextMessageChunk, agui.TypeToolCallChunk, agui.TypeReasoningMessageChunk,
}

// idPrefix is how the ids of the agent of this file begin.
const idPrefix = "their-"

// member is a text in an event, by its name on the wire.
type member struct {
	name string
	at   reflect.Value
}

// isID reports whether a member has an id by AG-UI's own naming.
func (m member) isID() bool {
	name := strings.TrimSuffix(m.name, "s")
	return strings.HasSuffix(name, "Id") && name != "optionId"
}

// fill fills an event, or an object in one, as its layout allows and returns the texts in it. Every id begins with idPrefix.
func fill(of reflect.Value) (texts []member) {
	t := of.Type()
	for i := range t.NumField() {
		sf, field := t.Field(i), of.Field(i)
		name, rule, _ := strings.Cut(sf.Tag.Get("agui"), ",")
		switch {
		case sf.Anonymous && sf.Type == reflect.TypeFor[agui.Sub]():
			id := field.FieldByName("SubagentRunID")
			id.SetString(idPrefix + "subagent")
			texts = append(texts, member{"subagentRunId", id})
		case name == "" || sf.Name == "_":
		default:
			texts = append(texts, fillMember(field, name, rule)...)
		}
	}
	return texts
}

func fillMember(field reflect.Value, name, rule string) (texts []member) {
	switch v := field.Addr().Interface().(type) {
	case *string:
		*v = idPrefix + name
		if _, allowed, ok := strings.Cut(rule, "oneof="); ok {
			*v, _, _ = strings.Cut(allowed, "|")
		}
		return []member{{name, field}}
	case *json.RawMessage:
		*v = json.RawMessage(`{}`)
		if strings.Contains(rule, "array") {
			*v = json.RawMessage(`[]`)
		}
		return nil
	case *[]string:
		*v = []string{idPrefix + name}
		return []member{{name, field.Index(0)}}
	}
	switch field.Kind() {
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
		if field.Elem().Kind() == reflect.Struct {
			return fill(field.Elem())
		}
	case reflect.Slice:
		field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		return fill(field.Index(0))
	case reflect.Struct:
		if field.Type() != reflect.TypeFor[agui.Content]() {
			return fill(field)
		}
	}
	return nil
}

// TestEachEventHasARule: every member that is an id of every event that clients are shown becomes an id of ours, and nothing else
// changes. The members are those of the layouts of package agui: a new type, or a new id, fails here until it has a rule.
func TestEachEventHasARule(t *testing.T) {
	t.Parallel()
	for _, typ := range agui.Types() {
		ev := agui.Blank(typ)
		texts := fill(reflect.ValueOf(ev).Elem())
		before := make([]string, len(texts))
		for i, m := range texts {
			before[i] = m.at.String()
		}
		n := newNames(uuid.NewString(), "run")
		err := n.event(ev)
		if slices.Contains(notShown, typ) {
			if _, refused := errors.AsType[*unknownEventError](err); !refused {
				t.Errorf("%s is no event of the log, and has a rule", typ)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", typ, err)
			continue
		}
		for i, m := range texts {
			switch is := m.at.String(); {
			case m.isID() && uuid.Validate(is) != nil:
				t.Errorf("%s.%s is the agent's own: %q", typ, m.name, is)
			case !m.isID() && is != before[i]:
				t.Errorf("%s.%s was %q and is %q", typ, m.name, before[i], is)
			}
		}
	}
}

// TestNoEventPassesWithAnAgentsIDs: whatever type an event has, what the translator makes of it has the agent's ids in
// metadata.aqueduct alone.
func TestNoEventPassesWithAnAgentsIDs(t *testing.T) {
	t.Parallel()
	begin := map[agui.Type][]string{ // what has to come before
		agui.TypeTextMessageContent: {"TEXT_MESSAGE_START"}, agui.TypeTextMessageEnd: {"TEXT_MESSAGE_START"},
		agui.TypeToolCallArgs: {"TOOL_CALL_START"}, agui.TypeToolCallEnd: {"TOOL_CALL_START"}, agui.TypeToolCallResult: {"TOOL_CALL_START"},
		agui.TypeReasoningMessageContent: {"REASONING_MESSAGE_START"}, agui.TypeReasoningMessageEnd: {"REASONING_MESSAGE_START"},
		agui.TypeReasoningEnd: {"REASONING_START"}, agui.TypeStepFinished: {"STEP_STARTED"},
		agui.TypeSubagentFinished: {"SUBAGENT_STARTED"}, agui.TypeSubagentError: {"SUBAGENT_STARTED"},
	}
	for _, typ := range agui.Types() {
		tr := newTranslator(newNames(uuid.NewString(), "run"), "run", nil, []agui.Tool{{Name: idPrefix + "toolCallName"}})
		for _, one := range append(begin[typ], string(typ)) {
			ev := agui.Blank(agui.Type(one))
			fill(reflect.ValueOf(ev).Elem())
			switch e := ev.(type) {
			case *agui.TextMessageStart:
				e.Role = agui.RoleAssistant
			case *agui.TextMessageChunk:
				e.Role = agui.RoleAssistant
			case *agui.MessagesSnapshot:
				e.Messages[0].Role = agui.RoleAssistant
			case *agui.RunFinished:
				e.Outcome.Type, e.Outcome.PendingToolCallIDs = agui.OutcomeInterrupt, nil
			case *agui.SubagentStarted:
				e.ParentSubagentRunID = ""
			case *agui.SubagentFinished:
				e.Outcome.Type = "suspended"
			}
			outputs, err := tr.Translate(nil, ev.AppendJSON(nil))
			if err != nil {
				t.Errorf("%s: %v", one, err)
			}
			for _, o := range outputs {
				if o.Event == nil {
					continue
				}
				base := agui.Shared(o.Event)
				base.Metadata, base.RawEvent = nil, nil
				shown := string(o.Event.AppendJSON(nil))
				for _, name := range []string{"messageId", "toolCallId", "parentMessageId", "subagentRunId", "entityId", "parentToolCallId", "parentSubagentRunId", "interruptIds", "id"} {
					if strings.Contains(shown, `"`+name+`":"`+idPrefix) || strings.Contains(shown, `"`+name+`":["`+idPrefix) {
						t.Errorf("%s is shown with the agent's %s: %s", one, name, shown)
					}
				}
			}
		}
	}
}

// newerEvent is an event of a type that came after the rules were written.
type newerEvent struct{ agui.Custom }

// TestAnEventWithoutARuleIsRefused by its name, and nothing of it is shown.
func TestAnEventWithoutARuleIsRefused(t *testing.T) {
	t.Parallel()
	tr := newTranslator(newNames("turn", "run"), "run", nil, nil)
	outputs, err := tr.admit(nil, &newerEvent{agui.Custom{Name: idPrefix}})
	if _, ok := errors.AsType[*unknownEventError](err); !ok || len(outputs) > 0 {
		t.Errorf("%v, with %v", err, outputs)
	}
	refused := &RefusedError{agui.TypeCustom, err}
	if said := refused.Sentence(); !strings.Contains(said, "CUSTOM") || !strings.Contains(said, "no rule for its ids") {
		t.Error(said)
	}
}
