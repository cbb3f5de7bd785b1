package agents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/acpgateway/proxy"
	"aqueduct/acpgateway/wire"
)

// gateway is the other end of our proxy, with nothing of the real one in it.
type gateway struct {
	t    *testing.T
	conn *websocket.Conn
	in   chan wire.Frame
	// history is every update so far of the prompt under way.
	history []*wire.ACPUpdate
	stop    func()
}

// behind starts our proxy with the agent and accepts its link.
func behind(t *testing.T, o *opencode) *gateway {
	t.Helper()
	g := &gateway{t: t, in: make(chan wire.Frame, 1<<12)}
	conns := make(chan *websocket.Conn, 1)
	up := websocket.Upgrader{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, err := up.Upgrade(w, r, nil); err == nil {
			conns <- conn
		}
	}))
	p, err := proxy.New(proxy.Config{
		URL: "ws" + strings.TrimPrefix(srv.URL, "http"), ID: "p", Token: func(context.Context) (string, error) { return "t", nil },
		Command: o.command(), Env: o.env(), Cwd: o.workspace, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	select {
	case g.conn = <-conns:
	case <-time.After(patience):
		t.Fatal("no link")
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		g.read()
	}()
	g.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = g.conn.Close()
		<-read
		srv.Close()
		g.stop = func() {}
	}
	t.Cleanup(func() { g.stop() })
	g.send(map[string]any{"type": "register_ack", "success": true})
	return g
}

func (g *gateway) read() {
	defer close(g.in)
	for {
		_, data, err := g.conn.ReadMessage()
		if err != nil {
			return
		}
		_, f, err := wire.Decode(data)
		if err != nil {
			g.t.Errorf("%s: %v", data, err)
			return
		}
		g.in <- f
	}
}

func (g *gateway) send(message map[string]any) {
	g.t.Helper()
	if err := g.conn.WriteJSON(message); err != nil {
		g.t.Fatal(err)
	}
}

// next reads until a frame of this type comes, and keeps the updates on the way.
func next[F wire.Frame](g *gateway) F {
	g.t.Helper()
	late := time.After(patience)
	for {
		select {
		case f, ok := <-g.in:
			if !ok {
				g.t.Fatal("the link ended")
			}
			if u, ok := f.(*wire.ACPUpdate); ok {
				g.history = append(g.history, u)
			}
			if f, ok := f.(F); ok {
				return f
			}
		case <-late:
			g.t.Fatalf("no %T came; updates so far:\n%s", *new(F), g.updates())
		}
	}
}

// question reads until the agent asks.
func (g *gateway) question() *wire.PermissionRequest {
	g.t.Helper()
	for {
		s, err := wire.DecodeSignal(next[*wire.ProxyUpdate](g).Content)
		if err != nil {
			g.t.Fatal(err)
		}
		if q, ok := s.(*wire.PermissionRequest); ok {
			return q
		}
	}
}

// prompt sends one, in a session or, with none, a new one.
func (g *gateway) prompt(id, session, text string) {
	g.t.Helper()
	g.history = nil
	m := map[string]any{"type": "prompt_send", "run_id": "r", "prompt_id": id, "prompt": []any{map[string]string{"type": "text", "text": text}}}
	if session != "" {
		m["session_id"] = session
	}
	g.send(m)
}

// answer gives the option of that kind.
func (g *gateway) answer(q *wire.PermissionRequest, kind string) {
	g.t.Helper()
	for _, raw := range q.Options {
		var o wire.PermissionOption
		if err := json.Unmarshal(raw, &o); err != nil {
			g.t.Fatal(err)
		}
		if o.Kind == kind {
			g.send(map[string]any{
				"type": "session_permission", "run_id": "r", "session_id": q.SessionID, "request_id": q.RequestID,
				"outcome": "selected", "option_id": o.OptionID,
			})
			return
		}
	}
	g.t.Fatalf("no option of kind %s in %s", kind, q.Options)
}

// ended reads to the end of a prompt and checks how it ended.
func (g *gateway) ended(id, reason string) *wire.PromptResult {
	g.t.Helper()
	r := next[*wire.PromptResult](g)
	if r.PromptID != id || !r.OK || r.StopReason == nil || *r.StopReason != reason {
		body, _ := json.Marshal(r)
		g.t.Fatalf("prompt %s ended with %s", id, body)
	}
	return r
}

// texts joins the words of one kind of update, of the prompt or of the replay before it.
func (g *gateway) texts(kind string, replay bool) string {
	var out strings.Builder
	for _, u := range g.history {
		var v struct {
			SessionUpdate string
			Content       struct{ Text string }
		}
		if json.Unmarshal(u.Update, &v) == nil && v.SessionUpdate == kind && u.Replay == replay {
			out.WriteString(v.Content.Text)
		}
	}
	return out.String()
}

// calls are the tool calls of the prompt as all their updates left them.
func (g *gateway) calls() []wire.ToolCall {
	var out []wire.ToolCall
	for _, u := range g.history {
		var v struct{ SessionUpdate, ToolCallID string }
		if json.Unmarshal(u.Update, &v) != nil || u.Replay || !strings.HasPrefix(v.SessionUpdate, "tool_call") {
			continue
		}
		call := wire.ReadToolCall(u.Update)
		if n := len(out) - 1; n >= 0 && out[n].ID == call.ID {
			out[n].Merge(call)
		} else {
			out = append(out, call)
		}
	}
	return out
}

func (g *gateway) updates() string {
	var out strings.Builder
	for _, u := range g.history {
		fmt.Fprintf(&out, "replay=%v %s\n", u.Replay, u.Update)
	}
	return out.String()
}
