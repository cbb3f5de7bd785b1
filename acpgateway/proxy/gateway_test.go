package proxy

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/acpgateway/wire"
)

// patience bounds a test that waits for what does not come.
const patience = 30 * time.Second

// gateway is the other end: it speaks the contract, the old way unless ack is set.
type gateway struct {
	t     *testing.T
	ack   string
	conns chan *websocket.Conn
	url   string
	conn  *websocket.Conn
	in    chan received
	done  chan struct{} // of conn's reader
}

type received struct {
	head  wire.Head
	frame wire.Frame
}

const (
	oldAck = `{"type":"register_ack","success":true}`
	newAck = `{"type":"register_ack","success":true,"seq":true,"permission_cancelled":true,"epoch":"g"}`
)

func newGateway(t *testing.T, ack string) *gateway {
	g := &gateway{t: t, ack: ack, conns: make(chan *websocket.Conn, 8)}
	up := websocket.Upgrader{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" || r.URL.RawQuery != "" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		conn, err := up.Upgrade(w, r, nil)
		if err == nil {
			g.conns <- conn
		}
	}))
	t.Cleanup(srv.Close)
	g.url = "ws" + strings.TrimPrefix(srv.URL, "http") + "/ws/agent"
	return g
}

// start runs a proxy with the scripted agent and accepts its link.
func (g *gateway) start(change func(*Config)) *Proxy {
	g.t.Helper()
	p := g.make(change)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	g.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			g.t.Error(err)
		}
		g.cut()
	})
	g.accept()
	return p
}

// make makes one with the scripted agent.
func (g *gateway) make(change func(*Config)) *Proxy {
	g.t.Helper()
	dir := g.t.TempDir()
	cfg := Config{
		URL: g.url, ID: "p1", Token: func(context.Context) (string, error) { return "secret", nil },
		Command: []string{os.Args[0]}, Env: []string{fakeVar + "=1"}, Workspaces: dir, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	p, err := New(cfg)
	if err != nil {
		g.t.Fatal(err)
	}
	return p
}

// accept takes the next link and acknowledges its registration.
func (g *gateway) accept() *wire.RegisterAgent {
	g.t.Helper()
	select {
	case g.conn = <-g.conns:
	case <-time.After(patience):
		g.t.Fatal("no link")
	}
	g.in, g.done = make(chan received, 1<<17), make(chan struct{})
	go func(conn *websocket.Conn, in chan<- received, done chan<- struct{}) {
		defer close(done)
		defer close(in)
		for {
			_, data, err := conn.ReadMessage()
			if err != nil {
				return
			}
			head, frame, err := wire.Decode(data)
			if err != nil {
				g.t.Errorf("%s: %v", data, err)
				return
			}
			in <- received{head, frame}
		}
	}(g.conn, g.in, g.done)
	reg := want[*wire.RegisterAgent](g)
	want[*wire.SandboxInventory](g)
	want[*wire.WorkspaceInventory](g)
	g.send(g.ack)
	return reg
}

func (g *gateway) cut() {
	if g.conn != nil {
		_ = g.conn.Close()
		<-g.done
		g.conn = nil
	}
}

func (g *gateway) send(text string) {
	g.t.Helper()
	if err := g.conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gateway) next() received {
	g.t.Helper()
	select {
	case r, ok := <-g.in:
		if !ok {
			g.t.Fatal("the link ended")
		}
		return r
	case <-time.After(patience):
		g.t.Fatal("nothing came")
	}
	return received{}
}

// want reads until a frame of this type comes.
func want[F wire.Frame](g *gateway) F {
	g.t.Helper()
	for {
		if f, ok := g.next().frame.(F); ok {
			return f
		}
	}
}

// signal reads until a proxy_update of this kind comes.
func signal[S wire.Signal](g *gateway) S {
	g.t.Helper()
	for {
		s, err := wire.DecodeSignal(want[*wire.ProxyUpdate](g).Content)
		if err != nil {
			g.t.Fatal(err)
		}
		if s, ok := s.(S); ok {
			return s
		}
	}
}

// It reads frames until the agent sends text, and returns it.
func (g *gateway) said() (string, *wire.ACPUpdate) {
	g.t.Helper()
	for {
		f := want[*wire.ACPUpdate](g)
		if text, ok := chunk(f); ok {
			return text, f
		}
	}
}

func chunk(f *wire.ACPUpdate) (string, bool) {
	var u struct {
		SessionUpdate string
		Content       struct{ Text string }
	}
	ok := json.Unmarshal(f.Update, &u) == nil && u.SessionUpdate == "agent_message_chunk"
	return u.Content.Text, ok
}

func (g *gateway) prompt(id, text string) {
	g.t.Helper()
	g.send(`{"type":"prompt_send","run_id":"r","prompt_id":"` + id + `","prompt":[{"type":"text","text":"` + text + `"}]}`)
}

// openRun opens run r and waits for it.
func (g *gateway) openRun() {
	g.t.Helper()
	g.send(`{"type":"acp_open","run_id":"r"}`)
	if o := want[*wire.Opened](g); !o.OK {
		g.t.Fatal(o.Error)
	}
}
