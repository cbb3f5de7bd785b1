package httpagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/outbound"
	"aqueduct/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func gate(t *testing.T, limits Limits, allow ...string) *outbound.Gate {
	t.Helper()
	g, err := outbound.New(outbound.Config{Allow: allow, Limits: limits.Outbound()})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// serve starts an agent that answers POST /invoke with handler.
func serve(t *testing.T, limits Limits, handler http.HandlerFunc) *Agent {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /invoke", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // net/http notices that a client left only then
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler(w, r)
	})
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	server := httptest.NewServer(mux)
	agent := New(Config{ID: "a", URL: server.URL + "/", SelfURL: "http://self", Limits: limits, Gate: gate(t, limits, "127.0.0.1/32")})
	t.Cleanup(func() {
		agent.Close()
		server.CloseClientConnections()
		server.Close()
	})
	return agent
}

func call() bridge.Call {
	return bridge.Call{
		SessionID: "ours", ThreadID: "s 1", TurnID: uuid.NewString(), AgentID: "a", UserID: "u1", Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", RunToken: "tok",
		Messages: []agui.Message{{ID: "m1", Role: "user", Content: agui.Text("hi")}},
		Tools:    []agui.Tool{{Name: "pick", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`)}},
		State:    json.RawMessage(`{"n":9007199254740993}`), Context: []agui.Context{{Description: "c", Value: "v"}},
		ForwardedProps: json.RawMessage(`{"x":1}`),
	}
}

// run plays a Turn to its end: the event types, then the End or the Failure.
func run(t *testing.T, agent *Agent, answers []approval.Delivery) (events []agui.Event, end *bridge.End, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	open := func() (bridge.Turn, error) { return agent.Start(ctx, call()) }
	if answers != nil {
		open = func() (bridge.Turn, error) { return agent.Resume(ctx, call(), answers) }
	}
	turn, err := open()
	if err != nil {
		return nil, nil, err
	}
	defer turn.Release()
	for {
		outputs, err := turn.Next(ctx)
		if err != nil {
			return events, nil, err
		}
		for _, o := range outputs {
			if o.End != nil {
				return events, o.End, nil
			}
			if o.Event != nil {
				events = append(events, o.Event)
			}
		}
	}
}

func stream(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	fmt.Fprint(w, text)
	w.(http.Flusher).Flush()
}

func TestInvokeCarriesTheContractsHeadersAndBody(t *testing.T) {
	t.Parallel()
	var header http.Header
	var body map[string]json.RawMessage
	agent := serve(t, Limits{}, func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		raw, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Error(err)
		}
		stream(w, "event: done\ndata: {}\n\n")
	})
	answers := []approval.Delivery{{UpstreamID: "q1", Status: "resolved", Payload: json.RawMessage(`{"approved":true}`)}}
	if _, _, err := run(t, agent, answers); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "x-session-id": "s%201", "x-aqueduct-session-id": "ours", "x-aqueduct-base-url": "http://self", "x-aqueduct-run-token": "tok",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if header.Get("x-run-id") == "" || string(body["run_id"]) != `"`+header.Get("x-run-id")+`"` {
		t.Errorf("x-run-id %q, run_id %s", header.Get("x-run-id"), body["run_id"])
	}
	for name, want := range map[string]string{
		"agent_id": `"a"`, "session_id": `"s 1"`, "input_message": `{"id":"m1","role":"user","content":"hi"}`,
		"messages": `[{"id":"m1","role":"user","content":"hi"}]`, "context": `{"user_id":"u1"}`,
		"tools": `[{"name":"pick","description":"d","parameters":{"type":"object"}}]`, "state": `{"n":9007199254740993}`,
		"client_context": `[{"description":"c","value":"v"}]`, "forwarded_props": `{"x":1}`,
		"resume": `[{"id":"q1","status":"resolved","payload":{"approved":true}}]`,
	} {
		if got := string(body[name]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestAnUpstreamThatMisbehavesEndsInACodeOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits  Limits
		handler http.HandlerFunc
		want    string
	}{
		"HTTP 500":       {Limits{}, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret", http.StatusInternalServerError) }, CodeStatus},
		"a redirect":     {Limits{}, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusTemporaryRedirect) }, CodeStatus},
		"no stream":      {Limits{}, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }, CodeNotStream},
		"no done":        {Limits{}, func(w http.ResponseWriter, _ *http.Request) { stream(w, "event: delta\ndata: {\"text\":\"x\"}\n\n") }, CodeTruncated},
		"cut in a frame": {Limits{}, func(w http.ResponseWriter, _ *http.Request) { stream(w, "event: done\ndata: {}\n") }, CodeTruncated},
		"malformed JSON": {Limits{}, func(w http.ResponseWriter, _ *http.Request) { stream(w, "event: delta\ndata: {\"text\":\n\n") }, CodeMalformed},
		"wrong type":     {Limits{}, func(w http.ResponseWriter, _ *http.Request) { stream(w, "event: delta\ndata: {\"text\":7}\n\n") }, CodeMalformed},
		"no text":        {Limits{}, func(w http.ResponseWriter, _ *http.Request) { stream(w, "event: delta\ndata: {}\n\n") }, CodeMalformed},
		"its own error": {Limits{}, func(w http.ResponseWriter, _ *http.Request) {
			stream(w, "event: error\ndata: {\"code\":\"quota\",\"message\":\"m\"}\n\n")
		}, "quota"},
		"a 1 GiB event": {Limits{FrameBytes: 1 << 20}, func(w http.ResponseWriter, r *http.Request) {
			stream(w, "event: delta\ndata: {\"text\":\"")
			_, _ = io.CopyN(w, repeat('x'), 1<<30)
		}, CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, end, err := run(t, serve(t, c.limits, c.handler), nil)
			var f *fault.Error
			if end != nil && end.Failure != nil {
				f = end.Failure
			} else if !errors.As(err, &f) {
				t.Fatalf("no failure: %v, %v", end, err)
			}
			if f.Code != c.want || strings.Contains(f.Message, "secret") {
				t.Fatalf("%s %q (%v), want %s", f.Code, f.Message, f.Cause, c.want)
			}
		})
	}
}

func TestAnAgentThatIsNotThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close()
	agent := New(Config{ID: "a", URL: url, Gate: gate(t, Limits{}, "127.0.0.1/32")})
	defer agent.Close()
	var f *fault.Error
	if _, _, err := run(t, agent, nil); !errors.As(err, &f) || f.Code != CodeUnreachable {
		t.Fatalf("%v", err)
	}
	if agent.Healthy(t.Context()) == nil {
		t.Fatal("it is taken to be healthy")
	}
}

// An agent whose name resolves to what its operator did not open is not called.
func TestAnAgentAtARefusedAddress(t *testing.T) {
	t.Parallel()
	for url, allow := range map[string]string{"http://127.0.0.1:1": "10.0.0.0/8", "http://localhost:1": "10.0.0.0/8", "http://169.254.169.254": "169.254.169.254"} {
		agent := New(Config{ID: "a", URL: url, Gate: gate(t, Limits{}, allow)})
		var f *fault.Error
		if _, _, err := run(t, agent, nil); !errors.As(err, &f) || f.Code != CodeRefused {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestCancelClosesTheConnection(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	agent := serve(t, Limits{}, func(w http.ResponseWriter, r *http.Request) {
		stream(w, "event: delta\ndata: {\"text\":\"x\"}\n\n")
		<-r.Context().Done()
		close(closed)
	})
	if err := agent.Healthy(t.Context()); err != nil {
		t.Fatal(err)
	}
	turn, err := agent.Start(t.Context(), call())
	if err != nil {
		t.Fatal(err)
	}
	defer turn.Release()
	if _, err := turn.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := turn.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-closed:
	case <-time.After(time.Second):
		t.Fatal("the connection is still open after a second")
	}
}

// TestTakesNoAnswersWhileItStreams checks that an HTTP agent gets no answer on its stream: it is called again when the
// stream has ended, with all answers.
func TestTakesNoAnswersWhileItStreams(t *testing.T) {
	agent := serve(t, Limits{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: done\ndata: {}\n\n")
	})
	turn, err := agent.Start(t.Context(), call())
	if err != nil {
		t.Fatal(err)
	}
	defer turn.Release()
	if _, ok := turn.(bridge.Answerer); ok {
		t.Error("it says that it can be told answers")
	}
}
