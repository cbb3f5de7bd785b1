package goclients_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"github.com/ag-ui-protocol/ag-ui/sdks/community/go/pkg/client/sse"
	"github.com/ag-ui-protocol/ag-ui/sdks/community/go/pkg/core/events"
	"github.com/ag-ui-protocol/ag-ui/sdks/community/go/pkg/core/types"
	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/uuid"
	"github.com/sirupsen/logrus"

	"aqueduct/test/program"
)

// talk is the community client on one thread. It keeps what a frontend keeps: the messages, in
// the shape in which they go back, the state, and what is open.
type talk struct {
	t        *testing.T
	s        *server
	thread   string
	tools    []types.Tool
	messages []types.Message
	state    json.RawMessage
	open     []types.Interrupt
}

func newTalk(t *testing.T, s *server) *talk {
	return &talk{t: t, s: s, thread: uuid.NewString(), state: json.RawMessage(`{}`)}
}

// again is another page of the same thread, which knows only the thread's id.
func (k *talk) again() *talk {
	return &talk{t: k.t, s: k.s, thread: k.thread, state: json.RawMessage(`{}`)}
}

// answer is what came of one request.
type answer struct {
	events []events.Event
	err    error // of a stream that was not taken
}

func (a *answer) last() events.Event { return a.events[len(a.events)-1] }

// run posts what there is and reads the stream: to its end, or up to the event after which
// stop returns true; then it leaves as a closed page does.
func (k *talk) run(resume []types.ResumeEntry, stop func(events.Event) bool) *answer {
	k.t.Helper()
	ctx, leave := context.WithTimeout(k.t.Context(), patience)
	defer leave()
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	client := sse.NewClient(sse.Config{Endpoint: k.s.url("/api/agui/chat"), APIKey: program.Token(), Logger: quiet})
	defer client.Close()
	messages := k.messages
	if messages == nil {
		messages = []types.Message{}
	}
	frames, failed, err := client.Stream(sse.StreamOptions{Context: ctx, Payload: types.RunAgentInput{
		ThreadID: k.thread, RunID: uuid.NewString(), State: k.state, Messages: messages, Tools: k.tools, Resume: resume,
	}})
	if err != nil {
		return &answer{err: err}
	}
	a := &answer{}
	for frame := range frames {
		ev, err := events.EventFromJSON(frame.Data)
		if err != nil {
			k.t.Fatalf("the client cannot decode %s: %v", frame.Data, err)
		}
		if err := ev.Validate(); err != nil {
			k.t.Fatalf("the client finds %s invalid: %v", frame.Data, err)
		}
		a.events = append(a.events, ev)
		k.apply(ev)
		if stop != nil && stop(ev) {
			return a
		}
	}
	a.err = <-failed
	if len(a.events) == 0 {
		k.t.Fatalf("nothing came: %v", a.err)
	}
	if err := events.ValidateSequence(a.events); err != nil {
		k.t.Fatalf("the client finds the sequence invalid: %v", err)
	}
	return a
}

// send sends what a person typed.
func (k *talk) send(content any) *answer {
	k.t.Helper()
	k.messages = append(k.messages, types.Message{ID: uuid.NewString(), Role: types.RoleUser, Content: content})
	return k.run(nil, nil)
}

// apply keeps what an event means.
func (k *talk) apply(ev events.Event) {
	switch e := ev.(type) {
	case *events.RunFinishedEvent:
		k.open = nil
		if e.Outcome != nil {
			k.open = e.Outcome.Interrupts
		}
	case *events.MessagesSnapshotEvent:
		raw, _ := json.Marshal(e.Messages)
		k.messages = nil
		if err := json.Unmarshal(raw, &k.messages); err != nil {
			k.t.Fatal(err)
		}
	case *events.TextMessageStartEvent:
		k.message(e.MessageID)
	case *events.TextMessageContentEvent:
		m := k.message(e.MessageID)
		before, _ := m.Content.(string)
		m.Content = before + e.Delta
	case *events.ToolCallStartEvent:
		id := e.ToolCallID
		if e.ParentMessageID != nil {
			id = *e.ParentMessageID
		}
		m := k.message(id)
		m.ToolCalls = append(m.ToolCalls, types.ToolCall{ID: e.ToolCallID, Type: "function", Function: types.FunctionCall{Name: e.ToolCallName}})
	case *events.ToolCallArgsEvent:
		if call := k.call(e.ToolCallID); call != nil {
			call.Function.Arguments += e.Delta
		}
	case *events.ToolCallResultEvent:
		k.messages = append(k.messages, types.Message{ID: e.MessageID, Role: types.RoleTool, ToolCallID: e.ToolCallID, Content: e.Content})
	case *events.StateSnapshotEvent:
		k.state, _ = json.Marshal(e.Snapshot)
	case *events.StateDeltaEvent:
		k.patch(e)
	}
}

func (k *talk) patch(e *events.StateDeltaEvent) {
	raw, _ := json.Marshal(e.Delta)
	patch, err := jsonpatch.DecodePatch(raw)
	if err == nil {
		k.state, err = patch.Apply(k.state)
	}
	if err != nil {
		k.t.Fatalf("a delta does not apply: %v", err)
	}
}

// message is the assistant's message of an id, begun when it is new.
func (k *talk) message(id string) *types.Message {
	for i := range k.messages {
		if k.messages[i].ID == id {
			return &k.messages[i]
		}
	}
	k.messages = append(k.messages, types.Message{ID: id, Role: types.RoleAssistant})
	return &k.messages[len(k.messages)-1]
}

func (k *talk) call(id string) *types.ToolCall {
	for i := range k.messages {
		for j := range k.messages[i].ToolCalls {
			if k.messages[i].ToolCalls[j].ID == id {
				return &k.messages[i].ToolCalls[j]
			}
		}
	}
	return nil
}

// words is the newest text of the assistant.
func (k *talk) words() string {
	for i := len(k.messages) - 1; i >= 0; i-- {
		if text, _ := k.messages[i].Content.(string); k.messages[i].Role == types.RoleAssistant && text != "" {
			return text
		}
	}
	return ""
}

// picture is what a frontend draws.
func (k *talk) picture() string {
	out := ""
	for _, m := range k.messages {
		if m.Role == types.RoleReasoning || m.Role == types.RoleActivity {
			continue // the client has no history of either
		}
		out += fmt.Sprintf("%s %s %v", m.Role, m.ID, m.Content)
		for _, c := range m.ToolCalls {
			out += fmt.Sprintf(" %s:%s(%s)", c.ID, c.Function.Name, c.Function.Arguments)
		}
		out += " " + m.ToolCallID + "\n"
	}
	return out
}

// finished fails unless an answer was taken and ended well.
func (k *talk) finished(a *answer) {
	k.t.Helper()
	if a.err != nil {
		k.t.Fatalf("not taken: %v", a.err)
	}
	done, ok := a.last().(*events.RunFinishedEvent)
	if !ok || done.Outcome != nil && done.Outcome.Type != events.RunFinishedOutcomeTypeSuccess {
		raw, _ := a.last().ToJSON()
		k.t.Fatalf("ends with %s", raw)
	}
}
