package server_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"aqueduct/bridge/httpagent"
)

// rawPeer is an agent that is called over HTTP: it answers each call with a stream, and keeps the bodies.
type rawPeer struct {
	t      *testing.T
	stream func(call int, body []byte) string
	hold   bool // its answers do not end by themselves

	mu     sync.Mutex
	bodies [][]byte
}

// ServeHTTP implements http.Handler.
func (p *rawPeer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Error(err)
	}
	p.mu.Lock()
	p.bodies = append(p.bodies, body)
	n := len(p.bodies)
	p.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, p.stream(n, body))
	if p.hold {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// body is what the agent was sent with its nth call.
func (p *rawPeer) body(n int) []byte {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.bodies) < n {
		p.t.Fatalf("the agent was called %d times, not %d", len(p.bodies), n)
	}
	return p.bodies[n-1]
}

// road is a way by which an agent is called.
type road struct {
	name     string
	protocol httpagent.Protocol
	form     httpagent.Messages
	model    bool // the agent is the assistant of --model: the peer is the model's server
}

// roads are the ways of agents that are called over HTTP.
func roads() []road {
	return []road{
		{name: "AG-UI", protocol: httpagent.ProtocolAGUI},
		{name: "HTTP", protocol: httpagent.ProtocolInvoke, form: httpagent.MessagesAGUI},
		{name: "OpenAI form", protocol: httpagent.ProtocolInvoke, form: httpagent.MessagesOpenAI},
	}
}

// at is a server whose agent is called by the road.
func (r road) at(t *testing.T, p plan, stream func(call int, body []byte) string) (*env, *rawPeer) {
	t.Helper()
	peer := &rawPeer{t: t, stream: stream}
	h := newEnvWith(t, saysN(1), p)
	r.join(h, peer)
	return h, peer
}

// join makes the peer the server's agent.
func (r road) join(h *env, peer http.Handler) {
	h.t.Helper()
	web := httptest.NewServer(peer)
	h.t.Cleanup(web.Close)
	cfg := atHome(h.t)
	cfg.ID, cfg.URL, cfg.Protocol, cfg.Messages = "peer", web.URL, r.protocol, r.form
	agent := httpagent.New(cfg)
	h.agents.Add("peer", agent)
	h.agents.SetDefault("peer")
	h.t.Cleanup(agent.Close)
}

// aguiStream is a stream of AG-UI with these events, of which none has a line break.
func aguiStream(events ...string) string {
	all := append([]string{`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`}, events...)
	all = append(all, `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`)
	return "data: " + strings.Join(all, "\n\ndata: ") + "\n\n"
}

// invokeStream is a stream of POST /invoke; frames are pairs of a name and its data.
func invokeStream(frames ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(frames); i += 2 {
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", frames[i], frames[i+1])
	}
	return b.String() + "event: done\ndata: {}\n\n"
}
