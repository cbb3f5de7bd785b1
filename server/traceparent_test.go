package server_test

import (
	"context"
	"strings"
	"testing"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// TestTraceparent: a Turn goes on with a trace that is valid, in a span of its own, and begins one for a request that has
// none or a broken one; each call of its agent is a span of that, and all is kept.
func TestTraceparent(t *testing.T) {
	t.Parallel()
	const id, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	calls := make(chan bridge.Call, 8)
	h := newEnv(t, func(_ context.Context, say func(...bridge.Output), call bridge.Call, answers []approval.Delivery) {
		calls <- call
		asks(context.Background(), say, call, answers)
	})
	seen := make(map[string]bool)
	for name, c := range map[string]struct {
		given, state string
		goesOn       bool
		keeps        string
	}{
		"none":             {"", "v=1", false, ""},
		"valid":            {"00-" + id + "-" + span + "-01", "rojo=1,congo=2", true, "rojo=1,congo=2"},
		"valid alone":      {"00-" + id + "-" + span + "-00", "", true, ""},
		"a later version":  {"01-" + id + "-" + span + "-01-more", "", true, ""},
		"version ff":       {"ff-" + id + "-" + span + "-01", "v=1", false, ""},
		"longer":           {"00-" + id + "-" + span + "-01-more", "", false, ""},
		"upper case":       {"00-" + strings.ToUpper(id) + "-" + span + "-01", "", false, ""},
		"zero trace":       {"00-" + strings.Repeat("0", 32) + "-" + span + "-01", "", false, ""},
		"zero span":        {"00-" + id + "-" + strings.Repeat("0", 16) + "-01", "", false, ""},
		"no hex":           {"00-" + strings.Repeat("g", 32) + "-" + span + "-01", "", false, ""},
		"words":            {"hello", "v=1", false, ""},
		"state too long":   {"00-" + id + "-" + span + "-01", "v=" + strings.Repeat("1", 600), true, ""},
		"two header lines": {"00-" + id + "-" + span + "-01", "a=1,b=2", true, "a=1,b=2"},
	} {
		thread := "T-" + strings.ReplaceAll(name, " ", "-")
		req := h.request("POST", "/api/agui/chat", `{"threadId":"`+thread+`","runId":"R","protocolVersion":"1.0","messages":[{"id":"u","role":"user","content":"may I?"}]}`)
		if c.given != "" {
			req.Header.Set("traceparent", c.given)
		}
		for part := range strings.SplitSeq(c.state, ",") {
			if part != "" {
				req.Header.Add("tracestate", part)
			}
		}
		h.send(req)
		call := <-calls
		turn, err := h.store.Turn(t.Context(), store.System(), call.TurnID)
		if err != nil {
			t.Fatal(err)
		}
		of, ok := trace.Parse(turn.Traceparent, turn.Tracestate)
		mine, ok2 := trace.Parse(call.Traceparent, call.Tracestate)
		if !ok || !ok2 || of.TraceID != mine.TraceID || of.SpanID == mine.SpanID || mine.State != c.keeps || of.State != c.keeps {
			t.Errorf("%s: the turn has %q %q, its agent %q %q", name, turn.Traceparent, turn.Tracestate, call.Traceparent, call.Tracestate)
		}
		if (of.TraceID == id) != c.goesOn || of.SpanID == span || c.goesOn && of.Flags != c.given[53:55] {
			t.Errorf("%s: %q became %q", name, c.given, turn.Traceparent)
		}
		for _, one := range []string{of.SpanID, mine.SpanID} {
			if seen[one] {
				t.Errorf("%s: the span %s is there twice", name, one)
			}
			seen[one] = true
		}
		if !c.goesOn && seen[of.TraceID] {
			t.Errorf("%s: the trace %s is another's", name, of.TraceID)
		}
		seen[of.TraceID] = !c.goesOn
		rows := h.do("GET", "/v1/runs/"+call.TurnID+"/events?type=run_started,agent_invoke_started", "").body
		if !strings.Contains(rows, turn.Traceparent) || !strings.Contains(rows, call.Traceparent) {
			t.Errorf("%s: on record is %s", name, rows)
		}
	}
}
