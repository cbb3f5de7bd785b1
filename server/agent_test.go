package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

// script is what an agent sends for a prompt, or for the answers of its questions. It may
// block on what a test holds; ctx ends when its output is no longer wanted.
type script func(ctx context.Context, say func(...bridge.Output), call bridge.Call, answers []approval.Delivery)

// scripted is a bridge.Agent that follows a script and always ends.
type scripted struct {
	script script

	mu    sync.Mutex
	calls []bridge.Call
}

func (a *scripted) Start(ctx context.Context, call bridge.Call) (bridge.Turn, error) {
	return a.begin(ctx, call, nil), nil
}

func (a *scripted) Resume(ctx context.Context, call bridge.Call, answers []approval.Delivery) (bridge.Turn, error) {
	if len(answers) == 0 {
		return nil, bridge.ErrCannotResume
	}
	return a.begin(ctx, call, answers), nil
}

func (a *scripted) begin(ctx context.Context, call bridge.Call, answers []approval.Delivery) bridge.Turn {
	a.mu.Lock()
	a.calls = append(a.calls, call)
	a.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	t := &scriptedTurn{outputs: make(chan []bridge.Output), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		defer close(t.outputs)
		say := func(o ...bridge.Output) {
			select {
			case t.outputs <- o:
			case <-ctx.Done():
			}
		}
		a.script(ctx, say, call, answers)
		say(bridge.Output{End: &bridge.End{}})
	}()
	return t
}

// prompts are the calls the agent got.
func (a *scripted) prompts() []bridge.Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.calls)
}

// last is the newest call the agent got.
func (a *scripted) last() bridge.Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[len(a.calls)-1]
}

type scriptedTurn struct {
	outputs chan []bridge.Output
	cancel  context.CancelFunc
	done    chan struct{}
}

func (t *scriptedTurn) Next(ctx context.Context) ([]bridge.Output, error) {
	select {
	case o := <-t.outputs:
		return o, ctx.Err()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (t *scriptedTurn) Cancel(context.Context) error {
	t.cancel()
	return nil
}

func (t *scriptedTurn) Release() {
	t.cancel()
	<-t.done
}

// event is one Output.
func event(ev agui.Event) bridge.Output { return bridge.Output{Event: ev} }

// saysN sends n numbered deltas in one message.
func saysN(n int) script {
	return func(_ context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
		say(event(&agui.TextMessageStart{MessageID: "m", Role: agui.RoleAssistant}))
		for i := range n {
			say(event(&agui.TextMessageContent{MessageID: "m", Delta: fmt.Sprintf("%d <é&> ", i)}))
		}
		say(event(&agui.TextMessageEnd{MessageID: "m"}))
	}
}

// waits sends a word, then waits for the gate.
func waits(gate <-chan struct{}) script {
	return func(ctx context.Context, say func(...bridge.Output), call bridge.Call, answers []approval.Delivery) {
		saysN(1)(ctx, say, call, answers)
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
}

// asks asks for a permission each time it is called with a prompt, and then repeats the answer.
func asks(_ context.Context, say func(...bridge.Output), _ bridge.Call, answers []approval.Delivery) {
	if len(answers) == 0 {
		say(permission("q1"))
		return
	}
	said, _ := json.Marshal(answers)
	say(event(&agui.TextMessageStart{MessageID: "m", Role: agui.RoleAssistant}),
		event(&agui.TextMessageContent{MessageID: "m", Delta: string(said)}),
		event(&agui.TextMessageEnd{MessageID: "m"}))
}

func permission(id string) bridge.Output {
	return bridge.Output{Question: &approval.Request{
		UpstreamID: id, Kind: approval.AskPermission, Tool: "rm", Title: "Delete it?", Args: json.RawMessage(`{"path":"/x"}`),
		Options: []approval.Option{
			{ID: "yes", Label: "Yes", Kind: "allow_once"}, {ID: "ever", Label: "Always", Kind: "allow_always"},
			{ID: "no", Label: "No", Kind: "reject_once"},
		},
	}}
}

// input asks for a value with a schema.
func input(_ context.Context, say func(...bridge.Output), _ bridge.Call, answers []approval.Delivery) {
	if len(answers) == 0 {
		say(bridge.Output{Question: &approval.Request{
			UpstreamID: "i1", Kind: approval.AskInput, ToolName: "collect", Title: "How many?",
			ResponseSchema: json.RawMessage(`{"type":"object","required":["n"]}`),
		}})
	}
}
