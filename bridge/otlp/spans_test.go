package otlp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"aqueduct/bridge/trace"
	"aqueduct/internal/bubbletest"
	"aqueduct/store"
)

// The ids of the test's spans.
const (
	traceID = "abababababababababababababababab"
	turnID  = "0000000000000001"
	callID  = "0000000000000002"
	toolID  = "0000000000000003"
)

// at is a time of the test, in seconds from its beginning.
func at(seconds int) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(seconds) * time.Second)
}

func parent(id string) string { return "00-" + traceID + "-" + id + "-01" }

// rec is a Record of the test's Turn.
func rec(seconds int, kind string, payload any) store.Record {
	raw, err := json.Marshal(payload)
	if err != nil {
		panic(err)
	}
	return store.Record{ID: fmt.Sprintf("%s-%d", kind, seconds), TurnID: "t", Source: store.SourcePlatform, Type: kind, TS: at(seconds), Payload: raw}
}

// example is a Turn in which an agent was called, called a tool that was run after an approval, and a model.
func example(more ...store.Record) turn {
	return turn{
		row:  store.Turn{ID: "t", AgentID: "a", SessionID: "s", Status: store.TurnDone, Traceparent: parent(turnID), CreatedAt: at(0), EndedAt: at(100)},
		runs: []store.Run{{ID: "t", StartedAt: at(1), EndedAt: at(50)}, {ID: "r2", StartedAt: at(60), EndedAt: at(100)}, {ID: "never"}},
		records: append([]store.Record{
			rec(1, trace.RunStarted, trace.Started{AgentID: "a", ParentSpan: "00000000000000ff"}),
			rec(2, trace.AgentInvokeStarted, trace.Invoked{AgentID: "a", Reason: trace.BecausePrompt, Traceparent: parent(callID)}),
			rec(3, trace.ToolCallCreated, trace.Call{ToolCallID: "tc", ToolName: "cut", Kind: store.KindServer}),
			rec(4, trace.ApprovalCreated, trace.Asked{ApprovalID: "tc", ToolCallID: "tc"}),
			rec(54, trace.ApprovalDecision, trace.Decided{ApprovalID: "tc", ToolCallID: "tc", Status: "APPROVED", WaitedMS: 50_000}),
			rec(55, trace.ToolDispatched, trace.Dispatch{ToolCallID: "tc", ToolName: "cut", Traceparent: parent(toolID)}),
			rec(58, trace.ToolResult, trace.Result{ToolCallID: "tc", Status: store.ToolFailed, Error: json.RawMessage(`{"code":"tool_failed"}`)}),
			rec(90, trace.AgentInvokeDone, trace.InvokeEnded{AgentID: "a", Status: trace.InvokeDone}),
			rec(100, trace.RunDone, trace.TurnEnd{Status: "DONE", PausedMS: 50_000}),
		}, more...),
	}
}

// find is the span of a name.
func find(t *testing.T, spans []*span, name string) *span {
	t.Helper()
	i := slices.IndexFunc(spans, func(s *span) bool { return s.name == name })
	if i < 0 {
		t.Fatalf("no span %s", name)
	}
	return spans[i]
}

// attr is an attribute as text; "" for none.
func attr(s *span, key string) string {
	for _, a := range s.attributes {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// TestTree: who is under whom, for how long, and what happened meanwhile.
func TestTree(t *testing.T) {
	t.Parallel()
	spans := example().spans()
	root, call, tool := find(t, spans, "turn a"), find(t, spans, "invoke a"), find(t, spans, "execute_tool cut")
	for _, c := range []struct {
		*span
		id, parent string
		from, to   int
		failed     string
	}{
		{root, turnID, "00000000000000ff", 0, 100, ""}, {call, callID, turnID, 2, 90, ""}, {tool, toolID, callID, 3, 58, "tool_failed"},
		{spans[1], derived("t", "run t"), turnID, 1, 50, ""},
	} {
		if c.traceID != traceID || c.span.id != c.id || c.span.parent != c.parent || !c.span.from.Equal(at(c.from)) || !c.span.to.Equal(at(c.to)) || c.span.failed != c.failed {
			t.Errorf("%s: %+v", c.name, c.span)
		}
	}
	var events []string
	for _, e := range tool.events {
		events = append(events, e.name)
	}
	if want := []string{trace.ApprovalCreated, trace.ApprovalDecision, trace.ToolDispatched}; !slices.Equal(events, want) || !tool.events[1].at.Equal(at(54)) {
		t.Errorf("%v", events)
	}
	if len(spans) != 5 || attr(root, "aqueduct.turn.paused_ms") != "50000" || spans[0] != root {
		t.Errorf("%d spans, %v", len(spans), root.attributes)
	}
	for i, again := range example().spans() {
		if again.id != spans[i].id {
			t.Errorf("%s has another id the second time", again.name)
		}
	}
}

// TestModels: a call of a model is under the call of the agent that is open, else under the Turn.
func TestModels(t *testing.T) {
	t.Parallel()
	turn := example()
	started := func(at int, id string) store.Record {
		return rec(at, trace.LLMCallStarted, trace.ModelStarted{RequestID: id, Route: "embeddings", Model: id, Traceparent: parent("00000000000000a" + id)})
	}
	turn.records = slices.Insert(turn.records, 2, started(2, "1"),
		rec(3, trace.LLMCallDone, trace.ModelEnded{RequestID: "1", Status: "DONE", FirstTokenMS: 500, Tokens: trace.ModelTokens{Input: 11, Output: 7}}))
	turn.records = append(turn.records, started(95, "2"), rec(99, trace.LLMCallDone, trace.ModelEnded{RequestID: "2", Error: &trace.ModelError{Code: "model_unreachable"}}),
		started(96, "3"), rec(99, trace.LLMCallDone, trace.ModelEnded{RequestID: "another"}),
		started(97, "4"), rec(99, trace.LLMCallDone, trace.ModelEnded{RequestID: "4", Error: &trace.ModelError{Code: "what Ann said"}}))
	spans := turn.spans()
	one, two, open := find(t, spans, "embeddings 1"), find(t, spans, "embeddings 2"), find(t, spans, "embeddings 3")
	if one.parent != callID || one.id != "00000000000000a1" || !one.to.Equal(at(3)) || attr(one, "gen_ai.usage.input_tokens") != "11" || attr(one, "gen_ai.operation.name") != "embeddings" || !one.events[0].at.Equal(at(2).Add(500*time.Millisecond)) {
		t.Errorf("%+v", one)
	}
	if two.parent != turnID || two.failed != "model_unreachable" {
		t.Errorf("%+v", two)
	}
	if four := find(t, spans, "embeddings 4"); four.failed != otherCode {
		t.Errorf("a text of the upstream's is exported as a code: %+v", four)
	}
	if !open.to.Equal(at(100)) || attr(open, "aqueduct.unfinished") != "true" {
		t.Errorf("a call without an end: %+v", open)
	}
}

// TestApprovalsOfAgents: a permission that an agent asked for by itself stands on its call, or on the Turn.
func TestApprovalsOfAgents(t *testing.T) {
	t.Parallel()
	turn := example(rec(95, trace.ApprovalCreated, trace.Asked{ApprovalID: "p2", ToolCallID: "p2"}))
	turn.records = slices.Insert(turn.records, 2, rec(2, trace.ApprovalCreated, trace.Asked{ApprovalID: "p1", ToolCallID: "p1"}),
		rec(2, trace.ToolResult, trace.Result{ToolCallID: "p1"}))
	spans := turn.spans()
	if call, root := find(t, spans, "invoke a"), find(t, spans, "turn a"); len(call.events) != 1 || len(root.events) != 1 {
		t.Errorf("%v\n%v", call.events, root.events)
	}
}

// TestWhatIsNotExported: a Turn without a trace, one whose caller records nothing, and spans beyond the bound.
func TestWhatIsNotExported(t *testing.T) {
	t.Parallel()
	for _, traceparent := range []string{"", "00-" + traceID + "-" + turnID + "-00", "00-x"} {
		turn := example()
		turn.row.Traceparent = traceparent
		if spans := turn.spans(); spans != nil {
			t.Errorf("%q: %d spans", traceparent, len(spans))
		}
	}
	var many []store.Record
	for i := range mostSpans + 10 {
		many = append(many, rec(60, trace.ToolCallCreated, trace.Call{ToolCallID: fmt.Sprint(i), ToolName: "n"}), rec(61, trace.ToolResult, trace.Result{ToolCallID: fmt.Sprint(i)}))
	}
	if spans := example(many...).spans(); len(spans) != mostSpans || attr(spans[0], "aqueduct.spans_left_out") != "15" {
		t.Errorf("%d spans, %s left out", len(spans), attr(spans[0], "aqueduct.spans_left_out"))
	}
}

// TestNoText: what an agent writes where a code or a name belongs is not exported.
func TestNoText(t *testing.T) {
	t.Parallel()
	const text = "please wire 100 to Ada"
	turn := example(
		rec(91, trace.AgentInvokeStarted, trace.Invoked{AgentID: "a"}),
		rec(92, trace.LLMCallStarted, trace.ModelStarted{RequestID: "m", Route: "chat/completions", Model: text}),
		rec(93, trace.ToolCallCreated, trace.Call{ToolCallID: "x", ToolName: text}),
		rec(94, trace.ToolResult, trace.Result{ToolCallID: "x", Error: json.RawMessage(`{"code":"` + text + `"}`)}),
		rec(95, trace.ApprovalCreated, trace.Asked{ApprovalID: "own", ToolCallID: "own", ToolName: text}),
		rec(96, trace.AgentInvokeDone, trace.InvokeEnded{AgentID: "a", Status: trace.InvokeFailed, Code: text}),
		rec(97, trace.RunFailed, trace.TurnEnd{Status: "FAILED", Code: text}),
	)
	turn.runs[1].ErrorCode = text
	failed := 0
	for _, s := range turn.spans() {
		said := s.name + s.failed
		for _, a := range s.attributes {
			said += a.Value.String()
		}
		for _, e := range s.events {
			said += fmt.Sprint(e)
		}
		if strings.Contains(said, "Ada") {
			t.Errorf("the span %s has %s", s.name, said)
		}
		if s.failed == "other" {
			failed++
		}
	}
	if failed != 4 {
		t.Errorf("%d spans have failed", failed)
	}
}

// TestForeign: a span of another trace, and times that two clocks made, do no harm.
func TestForeign(t *testing.T) {
	t.Parallel()
	turn := example()
	turn.records[1] = rec(2, trace.AgentInvokeStarted, trace.Invoked{AgentID: "a", Traceparent: "00-" + strings.Repeat("c", 32) + "-" + callID + "-01"})
	turn.records[7] = rec(1, trace.AgentInvokeDone, trace.InvokeEnded{AgentID: "a", Status: trace.InvokeFailed, Code: "upstream_status"})
	call := find(t, turn.spans(), "invoke a")
	if call.id == callID || !call.to.Equal(call.from) || call.failed != "upstream_status" {
		t.Errorf("%+v", call)
	}
}

// records is a store with one Turn.
type records struct {
	turn
	pages int
	err   error
}

func (r *records) Turn(context.Context, store.Scope, string) (store.Turn, error) { return r.row, r.err }
func (r *records) RunsOfTurn(context.Context, store.Scope, string) ([]store.Run, error) {
	return r.runs, nil
}

func (r *records) RecordsOfTurn(_ context.Context, _ store.Scope, _ string, page store.Page) ([]store.Record, error) {
	r.pages++
	if page.After != "" {
		return r.records, nil
	}
	frames := make([]store.Record, page.Size())
	for i := range frames {
		frames[i] = store.Record{ID: fmt.Sprint(i), Source: store.SourceACP, Type: "acp.update.received", Payload: []byte("{}")}
	}
	return frames, nil
}

// counting counts outcomes.
type counting struct{ exported, unsampled, failed, dropped atomic.Int64 }

func (c *counting) count(o Outcome) {
	map[Outcome]*atomic.Int64{Exported: &c.exported, Unsampled: &c.unsampled, Failed: &c.failed, Dropped: &c.dropped}[o].Add(1)
}

func exporter(t *testing.T, st Reader, c *counting) *Exporter {
	t.Helper()
	e, err := New(Config{Endpoint: "http://127.0.0.1:1", Client: &http.Client{Transport: none{}}, Store: st, Logger: slog.New(slog.DiscardHandler), Count: c.count})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// none is a way out that refuses everything at once.
type none struct{}

func (none) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusForbidden, Body: http.NoBody, Header: http.Header{}}, nil
}

// TestRead passes over an agent's frames, page by page.
func TestRead(t *testing.T) {
	t.Parallel()
	st := &records{turn: example()}
	spans, err := exporter(t, st, new(counting)).spans(t.Context(), "t")
	if err != nil || len(spans) != 5 || st.pages != 2 {
		t.Fatalf("%d spans of %d pages: %v", len(spans), st.pages, err)
	}
	names := slices.IndexFunc(spans, func(s sdktrace.ReadOnlySpan) bool {
		return s.SpanContext().SpanID().String() == toolID && s.Parent().SpanID().String() == callID && s.EndTime().Equal(at(58))
	})
	if names < 0 {
		t.Error("the tool's span is not as it was")
	}
}

// TestQueue: Turns wait until they are settled; the queue is bounded, and what a server that ends cannot export in time
// is dropped and counted.
func TestQueue(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		var c counting
		e := exporter(t, &records{err: errors.New("away")}, &c)
		for range mostWaiting + 3 {
			e.TurnEnded("t")
		}
		if c.dropped.Load() != 3 {
			t.Errorf("%d dropped", c.dropped.Load())
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		time.Sleep(settleTime - time.Millisecond)
		bubbletest.Wait()
		if c.failed.Load() != 0 {
			t.Error("read before its Records are complete")
		}
		time.Sleep(time.Minute)
		bubbletest.Wait()
		if c.failed.Load() != mostWaiting {
			t.Errorf("%d of %d came to their end", c.failed.Load(), mostWaiting)
		}
		e.TurnEnded("t")
		cancel()
		if err := <-done; err != nil || c.failed.Load() != mostWaiting+1 {
			t.Errorf("at the end: %v, %d", err, c.failed.Load())
		}
	})
}

// TestRefused: a collector that refuses is counted once for each Turn.
func TestRefused(t *testing.T) {
	t.Parallel()
	var c counting
	e := exporter(t, &records{turn: example()}, &c)
	e.export(t.Context(), []string{"t", "t"})
	e.export(t.Context(), []string{"t"})
	if c.failed.Load() != 3 || c.exported.Load() != 0 {
		t.Errorf("%d failed, %d exported", c.failed.Load(), c.exported.Load())
	}
}

// collector takes every request after a while.
type collector struct{ requests atomic.Int64 }

func (c *collector) RoundTrip(*http.Request) (*http.Response, error) {
	c.requests.Add(1)
	time.Sleep(200 * time.Millisecond)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}}, nil
}

// TestBatches: Turns that end while a request is under way go out together, so a slow collector keeps up with a busy server; one
// whose caller does not record is none that was exported.
func TestBatches(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		var c counting
		slow := &collector{}
		e, err := New(Config{Endpoint: "http://127.0.0.1:1", Client: &http.Client{Transport: slow}, Store: &records{turn: example()}, Logger: slog.New(slog.DiscardHandler), Count: c.count})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		for range 500 {
			e.TurnEnded("t")
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(settleTime + time.Second)
		bubbletest.Wait()
		if c.exported.Load() != 500 || slow.requests.Load() > 40 {
			t.Errorf("%d of 500 exported by %d requests", c.exported.Load(), slow.requests.Load())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		unsampled := example()
		unsampled.row.Traceparent = strings.TrimSuffix(unsampled.row.Traceparent, "01") + "00"
		e.cfg.Store = &records{turn: unsampled}
		e.export(t.Context(), []string{"t"})
		if c.unsampled.Load() != 1 || c.exported.Load() != 500 {
			t.Errorf("%d unsampled, %d exported", c.unsampled.Load(), c.exported.Load())
		}
	})
}
