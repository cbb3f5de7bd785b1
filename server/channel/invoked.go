// This file reads a session for the agent that called the session's agent: in the events of the contract's §6.2, which an
// agent streams to the platform, and the platform to the agent that called.

package channel

import (
	"context"
	"encoding/json"

	"aqueduct/bridge"
	"aqueduct/store"
)

// The events of an invocation (§6.2).
const (
	InvokedDelta = "delta"
	InvokedState = "state"
	InvokedDone  = "done"
	InvokedError = "error"
)

// CodeChildCancelled is the code of the error that ends an invocation which was cancelled.
const CodeChildCancelled = bridge.CodeChildCancelled

// Invoked is one event of an invocation.
type Invoked struct {
	Seq   int64 // as on the channel: the same for every reader
	Event string
	Data  json.RawMessage
}

// Invocation reads the Session of a called agent from the first event of its Run on. One goroutine uses it.
type Invocation struct{ log *logReader }

// NewInvocation makes one for a Session.
func NewInvocation(r store.Store, in store.Scope, s store.Session) *Invocation {
	return &Invocation{log: &logReader{store: r, in: in, session: s, answersOnly: true}}
}

// Read gives the events of what the log holds next. over is set with the last one: the called agent is done, failed or was
// cancelled. A Run that ends to ask is not its end.
func (i *Invocation) Read(ctx context.Context, items []bridge.Item) (events []Invoked, over bool, err error) {
	messages, err := i.log.read(ctx, items)
	if err != nil {
		return nil, false, err
	}
	for n := range messages {
		m := &messages[n]
		e, last := invoked(m)
		if e.Event == "" {
			continue
		}
		e.Seq = m.Seq
		if events = append(events, e); last {
			return events, true, nil
		}
	}
	return events, false, nil
}

// invoked is one message of the channel as an event of an invocation; one without an event is left out. A cancelled Turn
// ends with a state and then done, as every Turn that has no error does; its caller gets one error.
func invoked(m *Message) (e Invoked, last bool) {
	var data any
	switch {
	case m.Type == typeDelta:
		e.Event, data = InvokedDelta, struct {
			RunID string `json:"run_id"`
			Text  string `json:"text"`
		}{m.RunID, m.Text}
	case m.Type == typeState && m.State == string(store.TurnCancelled) && m.Source == "": // an agent reports states of its own, by any name
		return failed(CodeChildCancelled, "The agent that was called was cancelled."), true
	case m.Type == typeState && (m.State == string(store.TurnDone) || m.State == string(store.TurnFailed)) && m.Source == "":
		return e, false // done or error follows
	case m.Type == typeState:
		e.Event, data = InvokedState, struct {
			RunID  string  `json:"run_id"`
			State  string  `json:"state"`
			Source string  `json:"source,omitempty"`
			Detail *detail `json:"detail,omitempty"`
		}{m.RunID, m.State, m.Source, m.Detail}
	case m.Type == typeDone:
		e.Event, data, last = InvokedDone, struct {
			RunID string    `json:"run_id"`
			Usage *usageSum `json:"usage"`
		}{m.RunID, m.Usage}, true
	case m.Type == typeError && m.ToolCallID == "":
		return failed(m.Code, m.Message), true
	default:
		return e, false
	}
	e.Data, _ = json.Marshal(data) // of texts, numbers and JSON that was read before
	return e, last
}

func failed(code, message string) Invoked {
	data, _ := json.Marshal(struct { // two texts always can be written
		Code    string `json:"code"`
		Message string `json:"message"`
	}{code, message})
	return Invoked{Event: InvokedError, Data: data}
}
