package trace

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"aqueduct/store"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID  = "00f067aa0ba902b7"
	parent  = "00-" + traceID + "-" + spanID + "-01"
)

// If this fails, a caller's trace breaks off at this server, or a broken header is passed on to agents and tools.
func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		parent, state string
		ok            bool
		want          string // the tracestate that is kept
	}{
		"valid":                     {parent, "a=1", true, "a=1"},
		"spaces around":             {" " + parent + " ", " a=1 ", true, "a=1"},
		"a later version":           {"01" + parent[2:], "", true, ""},
		"a later version with more": {"01" + parent[2:] + "-extra", "", true, ""},
		"more in this version":      {parent + "-extra", "", false, ""},
		"the version that is none":  {"ff" + parent[2:], "", false, ""},
		"nothing":                   {"", "a=1", false, ""},
		"too few parts":             {"00-" + traceID + "-" + spanID, "", false, ""},
		"upper case":                {strings.ToUpper(parent), "", false, ""},
		"a trace of zeros":          {"00-" + strings.Repeat("0", 32) + "-" + spanID + "-01", "", false, ""},
		"a span of zeros":           {"00-" + traceID + "-" + strings.Repeat("0", 16) + "-01", "", false, ""},
		"a short trace":             {"00-" + traceID[1:] + "-" + spanID + "-01", "", false, ""},
		"a short span":              {"00-" + traceID + "-" + spanID[1:] + "-01", "", false, ""},
		"long flags":                {parent + "1", "", false, ""},
		"no hex":                    {"00-" + traceID[1:] + "g-" + spanID + "-01", "", false, ""},
		"a state as long as may be": {parent, strings.Repeat("x", maxState), true, strings.Repeat("x", maxState)},
		"a state that is too long":  {parent, strings.Repeat("x", maxState+1), true, ""},
		"a state with a newline":    {parent, "a=1\r\nb: 2", true, ""},
		"a state that is not ASCII": {parent, "a=ä", true, ""},
	} {
		got, ok := Parse(c.parent, c.state)
		if ok != c.ok || got.State != c.want {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
		if ok && (got.TraceID != traceID || got.SpanID != spanID || got.Flags != "01") {
			t.Errorf("%s: read is %+v", name, got)
		}
		if !ok && got != (Context{}) {
			t.Errorf("%s: refused, and read is %+v", name, got)
		}
	}
}

// If this fails, the calls of one answer appear in a tracing tool as several traces, or as one span.
func TestContinue(t *testing.T) {
	t.Parallel()
	c := Continue(parent, "a=1")
	if c.TraceID != traceID || c.SpanID == spanID || c.Flags != "01" || c.State != "a=1" {
		t.Errorf("a request's trace goes on as %+v", c)
	}
	child := c.Child()
	if child.TraceID != c.TraceID || child.SpanID == c.SpanID || child.State != c.State || child.Flags != c.Flags {
		t.Errorf("the child of %+v is %+v", c, child)
	}
	own := Continue("broken", "a=1")
	if own.State != "" || own.TraceID == traceID || !own.Sampled() {
		t.Errorf("without a valid header the trace is %+v", own)
	}
	if again, ok := Parse(own.Traceparent(), ""); !ok || again != own {
		t.Errorf("the header %q is read as %+v, %v", own.Traceparent(), again, ok)
	}
	if unknown := (Context{}).Under(); unknown.TraceID == "" || c.Under().TraceID != c.TraceID || c.Under().SpanID == c.SpanID {
		t.Errorf("under no span is %+v, and under %+v is %+v", unknown, c, c.Under())
	}
	for flags, want := range map[string]bool{"00": false, "01": true, "02": false, "ff": true, "": false} {
		if got := (Context{Flags: flags}).Sampled(); got != want {
			t.Errorf("flags %q: sampled is %v", flags, got)
		}
	}
	if first, second := New(), New(); first.TraceID == second.TraceID {
		t.Error("two traces have one id")
	}
}

// If this fails, an agent that is called outside of a trace gets a header that its library refuses.
func TestSetHeaders(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	Context{}.SetHeaders(h)
	if len(h) != 0 {
		t.Errorf("without a trace the headers are %v", h)
	}
	c, _ := Parse(parent, "")
	c.SetHeaders(h)
	if h.Get("Traceparent") != parent || len(h) != 1 {
		t.Errorf("without a state the headers are %v", h)
	}
	c.State = "a=1"
	c.SetHeaders(h)
	if h.Get("Tracestate") != "a=1" {
		t.Errorf("the headers are %v", h)
	}
}

func payload(t *testing.T, r store.Record) map[string]json.RawMessage {
	t.Helper()
	var p map[string]json.RawMessage
	if err := json.Unmarshal(r.Payload, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// If this fails, a large prompt is kept twice in full, or the trace page shows a broken character at the cut.
func TestInputOfIsBounded(t *testing.T) {
	t.Parallel()
	small := InputOf("m", "user", "hi", json.RawMessage(`"hi"`))
	if string(small.Content) != `"hi"` || small.Truncated || small.Bytes != 0 || small.ID != "m" || small.Role != "user" {
		t.Errorf("a small message is kept as %+v", small)
	}
	text := strings.Repeat("é", MaxValue)
	content, _ := json.Marshal(text)
	in := InputOf("m", "user", "x"+text, content) // the cut would fall within a character
	var kept string
	if err := json.Unmarshal(in.Content, &kept); err != nil {
		t.Fatal(err)
	}
	if !in.Truncated || in.Bytes != len(content) || len(kept) != MaxValue-1 || !utf8.ValidString(kept) || strings.ContainsRune(kept, utf8.RuneError) {
		t.Errorf("of a large message %d bytes are kept, of %d; truncated %v", len(kept), in.Bytes, in.Truncated)
	}
	picture := InputOf("m", "user", "look", json.RawMessage(`[{"data":"`+strings.Repeat("A", MaxValue)+`"}]`))
	if string(picture.Content) != `"look"` || !picture.Truncated {
		t.Errorf("of a message with a picture %.40s is kept", picture.Content)
	}
}

// If this fails, the trace of a call shows another call's arguments, or a flood of large calls is written twice.
func TestCreated(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	call := store.ToolCall{ID: "c", SessionID: "s", TurnID: "t", Name: "f", Kind: store.KindServer, Args: []byte(`{"a":1}`), ArgsSHA256: "ab", IdempotencyKey: "k", UpstreamID: "u", CreatedAt: at}
	r := Created(call)
	if r.Type != ToolCallCreated || r.SessionID != "s" || r.TurnID != "t" || r.Source != store.SourcePlatform || r.TS != at || r.ID == "" {
		t.Errorf("the Record is %+v", r)
	}
	for member, want := range map[string]string{
		"tool_call_id": `"c"`, "tool_name": `"f"`, "args": `{"a":1}`, "args_sha256": `"ab"`, "idempotency_key": `"k"`, "upstream_id": `"u"`, "refused": "", "args_bytes": "",
	} {
		if got := string(payload(t, r)[member]); got != want {
			t.Errorf("%s is %s, want %s", member, got, want)
		}
	}
	call.Args = []byte(`"` + strings.Repeat("x", MaxValue) + `"`)
	p := payload(t, Created(call))
	if p["args"] != nil || string(p["args_bytes"]) != "16386" {
		t.Errorf("large arguments are kept as %.20s, %s bytes", p["args"], p["args_bytes"])
	}
}

// If this fails, the trace shows a failed call without its reason, or one that succeeded with an error.
func TestResultOf(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		call        store.ToolCall
		result, err string
		bytes       int
		durationMS  int64
	}{
		"succeeded":              {store.ToolCall{Status: store.ToolSucceeded, Result: []byte(`1`), EndedAt: begun.Add(time.Second)}, `1`, ``, 0, 1000},
		"with an old code":       {store.ToolCall{Status: store.ToolSucceeded, Result: []byte(`1`), ErrorCode: "x"}, `1`, ``, 0, 0},
		"failed":                 {store.ToolCall{Status: store.ToolFailed, Error: []byte(`{"code":"x","message":"m"}`)}, ``, `{"code":"x","message":"m"}`, 0, 0},
		"failed with a code":     {store.ToolCall{Status: store.ToolTimeout, ErrorCode: "x"}, ``, `{"code":"x"}`, 0, 0},
		"too large":              {store.ToolCall{Status: store.ToolSucceeded, Result: make([]byte, MaxValue+1)}, ``, ``, MaxValue + 1, 0},
		"as large as may be":     {store.ToolCall{Status: store.ToolSucceeded, Result: make([]byte, MaxValue)}, string(make([]byte, MaxValue)), ``, 0, 0},
		"a clock that went back": {store.ToolCall{Status: store.ToolSucceeded, EndedAt: begun.Add(-time.Second)}, ``, ``, 0, 0},
	} {
		c.call.CreatedAt = begun
		r := ResultOf(c.call)
		if string(r.Result) != c.result || string(r.Error) != c.err || r.ResultBytes != c.bytes || r.DurationMS != c.durationMS || r.Status != c.call.Status {
			t.Errorf("%s: result %.20q of %d bytes, error %s, %d ms", name, r.Result, r.ResultBytes, r.Error, r.DurationMS)
		}
	}
}

// If this fails, the trace shows an end that another one was faster than, beside the one that counts.
func TestEndedIsBoundToItsMove(t *testing.T) {
	t.Parallel()
	at := time.Unix(1001, 0)
	call := store.ToolCall{ID: "c", SessionID: "s", Status: store.ToolRunning, CreatedAt: time.Unix(1000, 0)}
	r := Ended(call, store.ToolCallMove{ID: "c", To: store.ToolFailed, ErrorCode: "x", EndedAt: at})
	if r.ToolCallID != "c" || r.Status != store.ToolFailed || r.At != at || r.Record.Type != ToolResult || r.Record.TS != at {
		t.Errorf("the Record is %+v", r)
	}
	p := payload(t, r.Record)
	if string(p["status"]) != `"FAILED"` || string(p["error"]) != `{"code":"x"}` || string(p["duration_ms"]) != "1000" {
		t.Errorf("its payload is %s", r.Record.Payload)
	}
}

// If this fails, a call that was refused leaves no trace, or one that cannot be read.
func TestRefused(t *testing.T) {
	t.Parallel()
	call := store.ToolCall{ID: "c", Name: "f", CreatedAt: time.Unix(1000, 0), EndedAt: time.Unix(2000, 0)}
	for args, want := range map[string]string{`{"a":1}`: `{"a":1}`, `{"a":`: ``, ``: ``} {
		records := Refused(call, []byte(args), "tool_unknown", "There is none.")
		if len(records) != 2 || records[0].Type != ToolCallCreated || records[1].Type != ToolResult {
			t.Fatalf("the Records are %+v", records)
		}
		created, result := payload(t, records[0]), payload(t, records[1])
		if string(created["refused"]) != "true" || string(created["args"]) != want || string(created["tool_call_id"]) != `"c"` {
			t.Errorf("with the arguments %s the call is %s", args, records[0].Payload)
		}
		if string(result["refused"]) != "true" || string(result["status"]) != `"FAILED"` || string(result["duration_ms"]) != "0" ||
			string(result["error"]) != `{"code":"tool_unknown","message":"There is none."}` {
			t.Errorf("its result is %s", records[1].Payload)
		}
	}
}

// If this fails, the trace shows a deadline in 1754, or an approval's question without what was asked.
func TestDispatchedAndApproval(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_000_500)
	call := store.ToolCall{ID: "c", Name: "f", Kind: store.KindClient}
	if p := payload(t, Dispatched(call, "shown", parent, at, at)); string(p["deadline_ts"]) != "1000500" || string(p["client_call_id"]) != `"shown"` {
		t.Errorf("dispatched is %v", p)
	}
	if p := payload(t, Dispatched(call, "", "", at, time.Time{})); p["deadline_ts"] != nil || p["client_call_id"] != nil || p["traceparent"] != nil {
		t.Errorf("dispatched without a deadline is %v", p)
	}
	r := ApprovalRecord(store.Approval{ID: "a", SessionID: "s", TurnID: "t", Kind: store.ApprovalPermission, Tool: "f", Title: "May I?", Risk: "high", ArgsSHA256: "ab", Options: []byte(`[]`), CreatedAt: at, ExpiresAt: at})
	p := payload(t, r)
	if r.Type != ApprovalCreated || r.TS != at || string(p["approval_id"]) != `"a"` || string(p["title"]) != `"May I?"` || string(p["expires_at"]) != "1000500" || string(p["options"]) != "[]" {
		t.Errorf("the Record is %+v, %s", r, r.Payload)
	}
}
