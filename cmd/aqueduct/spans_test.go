package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"aqueduct/store/storetest"
)

// collector is an endpoint of OTLP over HTTP, as a collector has one.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	spans  []*tracepb.Span
	attr   map[string]string // of the resource
	header http.Header
	refuse bool
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{attr: make(map[string]string)}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var req collectorpb.ExportTraceServiceRequest
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.refuse || r.URL.Path != "/v1/traces" || proto.Unmarshal(raw, &req) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.header = r.Header.Clone()
		for _, of := range req.GetResourceSpans() {
			for _, a := range of.GetResource().GetAttributes() {
				c.attr[a.GetKey()] = a.GetValue().GetStringValue()
			}
			for _, scope := range of.GetScopeSpans() {
				c.spans = append(c.spans, scope.GetSpans()...)
			}
		}
		raw, _ = proto.Marshal(new(collectorpb.ExportTraceServiceResponse))
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(raw)
	}))
	t.Cleanup(c.Close)
	return c
}

// named waits for a span of a name, the n-th there is.
func (c *collector) named(t *testing.T, name string, n int) *tracepb.Span {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if all := c.all(name); len(all) > n {
			return all[n]
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t.Fatalf("no span %q %d among %v", name, n, c.spans)
	return nil
}

// all are the spans of a name.
func (c *collector) all(name string) (found []*tracepb.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.GetName() == name {
			found = append(found, s)
		}
	}
	return found
}

// has reports whether a span has an attribute.
func has(s *tracepb.Span, key string) bool {
	return slices.ContainsFunc(s.GetAttributes(), func(a *commonpb.KeyValue) bool { return a.GetKey() == key })
}

// downstream are the ids that the agent, the tool and the model were given in traceparent.
type downstream struct {
	mu  sync.Mutex
	got map[string][]string
}

func (d *downstream) note(who string, h http.Header) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.got[who] = append(d.got[who], h.Get("traceparent"))
}

// ids are trace and span of the n-th call.
func (d *downstream) ids(t *testing.T, who string, n int) string {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.got[who]) <= n {
		t.Fatalf("%s was called %d times", who, len(d.got[who]))
	}
	parts := strings.Split(d.got[who][n], "-")
	if len(parts) != 4 || parts[3] != "01" {
		t.Fatalf("%s got %q", who, d.got[who][n])
	}
	return parts[1] + " " + parts[2]
}

// spanIDs are those of a span, in the form of downstream.
func spanIDs(s *tracepb.Span) string {
	return hex.EncodeToString(s.GetTraceId()) + " " + hex.EncodeToString(s.GetSpanId())
}

// working is an agent that calls a model, then a tool that a person has to approve, and ends. Its tool and its model are
// there too.
func working(t *testing.T) (args []string, seen *downstream) {
	t.Helper()
	seen = &downstream{got: make(map[string][]string)}
	tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.note("tool", r.Header)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"cut":true}`)
	}))
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.note("model", r.Header)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"cut it"},"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}`)
	}))
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/invoke" {
			return
		}
		seen.note("agent", r.Header)
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		base, token := r.Header.Get("X-Aqueduct-Base-Url"), r.Header.Get("X-Aqueduct-Run-Token")
		call := func(path, body string) (got map[string]any) {
			req, _ := http.NewRequestWithContext(r.Context(), http.MethodPost, base+path, strings.NewReader(body))
			req.Header.Set("Authorization", "Bearer "+token)
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return nil
			}
			defer resp.Body.Close()
			_ = json.NewDecoder(resp.Body).Decode(&got)
			return got
		}
		call("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
		got := call("/v1/tools/cut:invoke", fmt.Sprintf(`{"run_id":%q,"args":{}}`, r.Header.Get("X-Run-Id")))
		for got["status"] == "pending" {
			got = call(fmt.Sprintf("/v1/tool_calls/%v:wait?timeout_ms=20000", got["tool_call_id"]), "{}")
		}
		fmt.Fprintf(w, "event: delta\ndata: {\"text\":\"%v\"}\n\nevent: done\ndata: {}\n\n", got["status"])
	}))
	for _, s := range []*httptest.Server{agent, tool, model} {
		t.Cleanup(s.Close)
	}
	return []string{
		"--agent", "works=" + agent.URL, "--outbound", "127.0.0.1/32",
		"--tools-file", write(t, "tools.yaml", fmt.Sprintf("tools:\n  - {name: cut, kind: server_tool, endpoint: %q, policy: {verdict: require_approval}, schema: {type: object}}\n", tool.URL)),
		"--models-file", write(t, "models.yaml", fmt.Sprintf("upstreams:\n  - {name: loopback, url: %q, models: [m]}\n", model.URL+"/v1")),
	}, seen
}

// approveAll approves every question until done is closed.
func (r *running) approveAll(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(50 * time.Millisecond):
		}
		resp, err := r.client.Get(r.URL + "/api/approvals?status=PENDING")
		if err != nil {
			return
		}
		var page struct {
			Approvals []struct {
				ID string `json:"approval_id"`
			}
		}
		_ = json.NewDecoder(resp.Body).Decode(&page)
		resp.Body.Close()
		for _, a := range page.Approvals {
			resp, err := r.client.Post(r.URL+"/api/approvals/"+a.ID+"/decision", "application/json", strings.NewReader(`{"decision":"approve"}`))
			if err == nil {
				resp.Body.Close()
			}
		}
	}
}

// chat prompts, with a trace context, and reads to the end of the Turn.
func (r *running) chat(body, traceparent string) {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.URL+"/api/agui/chat?follow=1", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if traceparent != "" {
		req.Header.Set("traceparent", traceparent)
		req.Header.Set("tracestate", "v=1")
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	if raw, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("%d %s %v", resp.StatusCode, raw, err)
	}
}

// TestSpans: the tree of spans that a collector gets, whose ids are those that agent, tool and model were given.
func TestSpans(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "a.db") },
		"postgres": func(t *testing.T) string { return storetest.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t)
			args, seen := working(t)
			r := start(t, append(args, "--database", database(t), "--otlp-endpoint", c.URL)...)
			done := make(chan struct{})
			defer close(done)
			go r.approveAll(done)
			caller := strings.Repeat("ab", 16)
			r.chat(hello, "00-"+caller+"-00f067aa0ba902b7-01")
			turn := c.named(t, "turn works", 0)
			if hex.EncodeToString(turn.GetTraceId()) != caller || hex.EncodeToString(turn.GetParentSpanId()) != "00f067aa0ba902b7" || turn.GetTraceState() != "v=1" || turn.GetKind() != tracepb.Span_SPAN_KIND_SERVER {
				t.Errorf("the Turn: %v", turn)
			}
			invoke, model, tool := c.named(t, "invoke works", 0), c.named(t, "chat/completions m", 0), c.named(t, "execute_tool cut", 0)
			for who, s := range map[string]*tracepb.Span{"agent": invoke, "model": model, "tool": tool} {
				if spanIDs(s) != seen.ids(t, who, 0) {
					t.Errorf("the %s was given %s, and its span is %s", who, seen.ids(t, who, 0), spanIDs(s))
				}
			}
			runs := c.all("run")
			for s, parent := range map[*tracepb.Span]*tracepb.Span{invoke: turn, model: invoke, tool: invoke, runs[0]: turn} {
				if !bytes.Equal(s.GetParentSpanId(), parent.GetSpanId()) || s.GetStartTimeUnixNano() < parent.GetStartTimeUnixNano() || s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() || s.GetEndTimeUnixNano() > turn.GetEndTimeUnixNano() {
					t.Errorf("%s is not within %s: %v\n%v", s.GetName(), parent.GetName(), s, parent)
				}
				if has(s, "aqueduct.unfinished") {
					t.Errorf("%s has no end", s.GetName())
				}
			}
			var events []string
			for _, e := range tool.GetEvents() {
				events = append(events, e.GetName())
			}
			if want := []string{"policy_decision", "approval_created", "approval_decision", "tool_dispatched"}; !slices.Equal(events, want) {
				t.Errorf("the tool's events are %v", events)
			}
			if waited := tool.GetEvents()[2].GetTimeUnixNano() - tool.GetEvents()[1].GetTimeUnixNano(); waited == 0 || len(runs) == 0 {
				t.Errorf("the wait for a person took %d ns, in %d runs", waited, len(runs))
			}
			for key, want := range map[string]string{"service.name": "aqueduct", "service.version": version()} {
				if c.attr[key] != want {
					t.Errorf("%s is %q", key, c.attr[key])
				}
			}
			r.begins(c)
		})
	}
}

// begins: a prompt without a trace context begins a trace; one whose caller records nothing is not exported.
func (r *running) begins(c *collector) {
	r.t.Helper()
	next := func(n int) string {
		return strings.NewReplacer(`"T"`, fmt.Sprintf(`"T%d"`, n), `"R"`, fmt.Sprintf(`"R%d"`, n), `"u1"`, fmt.Sprintf(`"u%d"`, n)).Replace(hello)
	}
	r.chat(next(1), "00-"+strings.Repeat("cd", 16)+"-00f067aa0ba902b7-00")
	r.chat(next(2), "")
	if s := c.named(r.t, "turn works", 1); len(s.GetParentSpanId()) != 0 || hex.EncodeToString(s.GetTraceId()) == strings.Repeat("cd", 16) {
		r.t.Errorf("a trace of ours: %v", s)
	}
}

// TestSpansAtTheEnd: what waits is exported when the server ends, with the headers of the environment; a collector that
// refuses stops nothing, and is counted.
func TestSpansAtTheEnd(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20of-the-collector")
	c := newCollector(t)
	db := "sqlite:" + filepath.Join(t.TempDir(), "a.db")
	r := start(t, "--demo", "--database", db, "--otlp-endpoint", c.URL+"/v1/traces")
	c.mu.Lock()
	c.refuse = true
	c.mu.Unlock()
	r.chat(hello, "")
	page := ""
	for end := time.Now().Add(30 * time.Second); !strings.Contains(page, `aqueduct_otlp_turns_total{outcome="failed"} 1`); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the refusal is not counted: %s", r.log)
		}
		resp, err := r.client.Get(r.URL + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		page = string(raw)
	}
	c.mu.Lock()
	c.refuse = false
	c.mu.Unlock()
	r.chat(strings.NewReplacer(`"R"`, `"R2"`, `"u1"`, `"u2"`).Replace(hello), "")
	if err := r.stop(); err != nil { // within the second that a Turn waits
		t.Fatal(err)
	}
	if all := c.all("turn demo"); len(all) != 1 || c.header.Get("Authorization") != "Bearer of-the-collector" {
		t.Errorf("%d Turns, %v", len(all), c.header)
	}
	if strings.Contains(r.log.String(), "of-the-collector") {
		t.Error("the credential is in the log")
	}
}

// TestSpanFlags: a mistake ends the start.
func TestSpanFlags(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"collector", "ftp://127.0.0.1/", "http://198.51.100.7:4318", "http://"} {
		_, err := program(t, env(), "serve", "--demo", "--listen", "127.0.0.1:0", "--database", "sqlite:"+filepath.Join(t.TempDir(), "a.db"), "--otlp-endpoint", endpoint)
		if err == nil {
			t.Errorf("%s is taken", endpoint)
		}
	}
}

// TestSpansFollowNoRedirect: where a collector redirects to gets neither spans nor what opens the collector.
func TestSpansFollowNoRedirect(t *testing.T) {
	t.Parallel()
	var led atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { led.Add(1) }))
	t.Cleanup(inside.Close)
	web := httptest.NewServer(http.RedirectHandler(inside.URL, http.StatusTemporaryRedirect))
	t.Cleanup(web.Close)
	f := spanFlags{OTLPEndpoint: web.URL}
	cfg, err := f.config(false)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", "secret")
	resp, err := cfg.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusTemporaryRedirect || led.Load() != 0 {
		t.Errorf("HTTP %d, %d requests elsewhere", resp.StatusCode, led.Load())
	}
}
