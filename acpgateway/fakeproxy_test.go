package acpgateway_test

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/acpgateway/wire"
	"aqueduct/server/auth"
)

// fakeProxy is a proxy written to the contract, which sends the frames of the test's script. It takes the
// place of no agent: the test's script holds what one would answer.
type fakeProxy struct {
	h      *acpEnv
	id     string
	agent  string // the Agent it serves
	most   int    // max_concurrent
	counts bool   // it numbers its frames, keeps them until they are acknowledged, and lists what it runs
	marks  bool   // it marks what session/load repeats
	epoch  string

	installation string

	mu    sync.Mutex
	conn  *websocket.Conn // nil: not linked
	bye   chan error      // why the link ended
	in    []down          // frames that came, not read by the test yet
	bell  chan struct{}
	ack   chan wire.RegisterAck
	runs  map[string][]string // the prompts it has, by run
	order []wire.Frame        // of a counting one: frames not acknowledged, in order
	seqs  map[string]int64
	nums  map[wire.Frame]int64
	came  map[string]int64 // the gateway's numbers
	peer  string           // the gateway's epoch
	twice int              // frames that came again
	deaf  bool             // what is sent to it is lost on the way

	// An old proxy reads nothing from an agent whose request for permission is open.
	asking  map[string]int
	blocked map[string][]wire.Frame
}

// down is one frame of the gateway's.
type down struct {
	wire.Head
	frame wire.Frame
	raw   string
}

// oldProxy is one as they are in the field (facts §3): it does not number, and what it sends
// without a link is lost.
func oldProxy(h *acpEnv, id string) *fakeProxy {
	return &fakeProxy{
		h: h, id: id, agent: "dev", bell: make(chan struct{}, 1), ack: make(chan wire.RegisterAck, 1), runs: map[string][]string{},
		seqs: map[string]int64{}, nums: map[wire.Frame]int64{}, came: map[string]int64{},
		asking: map[string]int{}, blocked: map[string][]wire.Frame{},
	}
}

// newProxy is one that has our additions to the contract.
func newProxy(h *acpEnv, id string) *fakeProxy {
	p := oldProxy(h, id)
	p.counts, p.epoch = true, "e1"
	return p
}

// token is one for a proxy.
func (h *acpEnv) token(id, agent string) string {
	h.t.Helper()
	token, err := h.keys.Issue(auth.Claims{Type: auth.TypeACPProxy, ProxyClaims: auth.ProxyClaims{ProxyID: id, AgentID: agent}}, 24*time.Hour)
	if err != nil {
		h.t.Fatal(err)
	}
	return token
}

// dial opens a connection, with a token or without.
func (h *acpEnv) dial(token string) *websocket.Conn {
	h.t.Helper()
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	d := websocket.Dialer{NetDialContext: h.net.dial}
	conn, resp, err := d.DialContext(h.t.Context(), "ws://aqueduct/ws/agent", header)
	if err != nil {
		h.t.Fatal(err)
	}
	_ = resp.Body.Close()
	h.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// link connects and registers; what the gateway has not acknowledged is sent again.
func (p *fakeProxy) link() *fakeProxy {
	p.h.t.Helper()
	conn := p.h.dial(p.h.token(p.id, p.agent))
	p.mu.Lock()
	p.conn, p.bye = conn, make(chan error, 1)
	info := p.info()
	p.mu.Unlock()
	go p.read(conn, p.bye)
	p.write(&wire.RegisterAgent{Agent: info})
	select {
	case ack := <-p.ack:
		p.registered(ack)
	case <-time.After(time.Minute):
		p.h.t.Fatal("no register_ack")
	}
	return p
}

// info is what it introduces itself with. The lock is held.
func (p *fakeProxy) info() wire.ProxyInfo {
	info := wire.ProxyInfo{ID: p.id, Name: p.id, MaxConcurrent: p.most, Installation: p.installation, Capabilities: []byte(`{"acpTunnel":true}`)}
	if !p.counts {
		return info
	}
	info.Capabilities = []byte(`{"seq":true,"permission_cancelled":true,"replay_marked":` + strconv.FormatBool(p.marks) + `,"epoch":"` + p.epoch + `"}`)
	info.Behind = map[string]int64{}
	for run, seq := range p.seqs {
		info.Behind[run] = seq
	}
	for _, f := range p.order {
		run := runOf(f)
		info.Behind[run] = min(info.Behind[run], p.nums[f]-1)
	}
	for run, prompts := range p.runs {
		info.Runs = append(info.Runs, wire.RunInfo{RunID: run, Running: true, PromptIDs: prompts})
	}
	return info
}

func (p *fakeProxy) registered(ack wire.RegisterAck) {
	p.h.t.Helper()
	if !ack.Success || ack.Epoch == "" || !ack.PermissionCancelled || ack.Seq != p.counts {
		p.h.t.Errorf("register_ack %+v", ack)
	}
	p.mu.Lock()
	if p.peer != ack.Epoch {
		p.peer, p.came = ack.Epoch, map[string]int64{}
	}
	again := slices.Clone(p.order)
	p.mu.Unlock()
	for _, f := range again {
		p.write(f)
	}
}

// read takes what the gateway sends.
func (p *fakeProxy) read(conn *websocket.Conn, bye chan<- error) {
	for {
		_, data, err := conn.ReadMessage()
		if err != nil {
			bye <- err
			return
		}
		head, f, err := wire.Decode(data)
		if err != nil {
			p.h.t.Errorf("a frame of the gateway's: %v: %s", err, data)
			continue
		}
		p.take(down{head, f, string(data)})
	}
}

func (p *fakeProxy) take(d down) {
	p.mu.Lock()
	deaf := p.deaf
	p.mu.Unlock()
	if deaf {
		return
	}
	switch m := d.frame.(type) {
	case *wire.RegisterAck:
		p.ack <- *m
		return
	case *wire.Ack:
		p.acked(m)
		return
	}
	p.mu.Lock()
	if d.Seq > 0 && d.Seq <= p.came[d.RunID] {
		p.twice++
		p.mu.Unlock()
		return
	}
	if d.Seq > 0 {
		p.came[d.RunID] = d.Seq
	}
	var freed []wire.Frame
	switch m := d.frame.(type) {
	case *wire.PromptSend:
		p.runs[m.RunID] = append(p.runs[m.RunID], m.PromptID)
	case *wire.SessionPermission:
		p.asking[m.RunID]--
		if !p.counts && p.asking[m.RunID] == 0 {
			freed = p.blocked[m.RunID]
			delete(p.blocked, m.RunID)
		}
	}
	p.in = append(p.in, d)
	p.mu.Unlock()
	if d.Seq > 0 {
		p.write(&wire.Ack{RunID: d.RunID, Seq: d.Seq})
	}
	for _, f := range freed {
		p.send(f)
	}
	select {
	case p.bell <- struct{}{}:
	default:
	}
}

func (p *fakeProxy) acked(m *wire.Ack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.order = slices.DeleteFunc(p.order, func(f wire.Frame) bool { return runOf(f) == m.RunID && p.nums[f] <= m.Seq })
}

// unacknowledged is how many frames the gateway has not acknowledged.
func (p *fakeProxy) unacknowledged() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.order)
}

// write sends a frame if there is a link.
func (p *fakeProxy) write(f wire.Frame) {
	body, err := wire.Encode(f)
	if err != nil {
		p.h.t.Error(err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if seq := p.nums[f]; seq > 0 {
		body = wire.WithSeq(body, seq)
	}
	if p.conn != nil {
		_ = p.conn.WriteMessage(websocket.TextMessage, body) // it may be cut just now
	}
}

// raw sends bytes as they are.
func (p *fakeProxy) raw(body string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.conn.WriteMessage(websocket.TextMessage, []byte(body))
}

// send sends frames of runs: one that counts keeps them until they are acknowledged.
func (p *fakeProxy) send(frames ...wire.Frame) {
	for _, f := range frames {
		p.mu.Lock()
		run := runOf(f)
		if !p.counts && p.asking[run] > 0 {
			p.blocked[run] = append(p.blocked[run], f)
			p.mu.Unlock()
			continue
		}
		switch m := f.(type) {
		case *wire.PromptResult:
			p.runs[run] = slices.DeleteFunc(p.runs[run], func(id string) bool { return id == m.PromptID })
		case *wire.Exit:
			delete(p.runs, run)
		case *wire.ProxyUpdate:
			if s, _ := wire.DecodeSignal(m.Content); s != nil && s.Kind() == "permission_request" {
				p.asking[run]++
			}
		}
		if p.counts {
			p.seqs[run]++
			p.nums[f] = p.seqs[run]
			p.order = append(p.order, f)
		}
		p.mu.Unlock()
		p.write(f)
	}
}

// cut ends the link as a broken cable does: without a close frame.
func (p *fakeProxy) cut() {
	p.mu.Lock()
	conn, bye := p.conn, p.bye
	p.conn = nil
	p.mu.Unlock()
	_ = conn.NetConn().Close()
	<-bye
	p.h.settleNow()
}

// closed waits for the gateway to end the link, and tells the code.
func (p *fakeProxy) closed() int {
	p.h.t.Helper()
	select {
	case err := <-p.bye:
		p.mu.Lock()
		p.conn = nil
		p.mu.Unlock()
		return closeCode(err)
	case <-time.After(longest):
		p.h.t.Fatal("the link was not ended")
		return 0
	}
}

func closeCode(err error) int {
	var bye *websocket.CloseError
	if errors.As(err, &bye) {
		return bye.Code
	}
	return 0
}

// reborn is the proxy's process started anew: its agents and all it kept are gone.
func (p *fakeProxy) reborn(epoch string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch, p.order, p.in, p.peer = epoch, nil, nil, ""
	clear(p.runs)
	clear(p.seqs)
	clear(p.nums)
	clear(p.asking)
	clear(p.blocked)
}

// next is the gateway's next frame.
func (p *fakeProxy) next() down {
	p.h.t.Helper()
	for limit := time.After(time.Minute); ; {
		p.mu.Lock()
		if len(p.in) > 0 {
			d := p.in[0]
			p.in = p.in[1:]
			p.mu.Unlock()
			return d
		}
		p.mu.Unlock()
		select {
		case <-p.bell:
		case <-limit:
			p.h.t.Fatal("the gateway said nothing")
		}
	}
}

// left are the frames that came and that no test step has read.
func (p *fakeProxy) left() []down {
	p.h.pass(50 * time.Millisecond) // a commit may linger
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.in
	p.in = nil
	return in
}

// silent fails the test if the gateway sent anything.
func (p *fakeProxy) silent() {
	p.h.t.Helper()
	for _, d := range p.left() {
		p.h.t.Errorf("the gateway said %s", d.raw)
	}
}

// want is the gateway's next frame, which must be of this type.
func want[F wire.Frame](p *fakeProxy) F {
	p.h.t.Helper()
	d := p.next()
	f, ok := d.frame.(F)
	if !ok {
		var wanted F
		p.h.t.Fatalf("wanted a %s, got %s", wanted.Type(), d.raw)
	}
	return f
}

// runOf is the run a frame of a proxy's names.
func runOf(f wire.Frame) string {
	switch m := f.(type) {
	case *wire.Opened:
		return m.RunID
	case *wire.Closed:
		return m.RunID
	case *wire.Exit:
		return m.RunID
	case *wire.ACPUpdate:
		return m.RunID
	case *wire.ProxyUpdate:
		return m.RunID
	case *wire.PromptResult:
		return m.RunID
	case *wire.SessionControlResult:
		return m.RunID
	case *wire.BranchCreated:
		return m.RunID
	case *wire.SandboxControlResult:
		if m.RunID != nil {
			return *m.RunID
		}
	}
	return ""
}

// restart restarts the server under the proxy, which notices.
func (p *fakeProxy) restart() {
	p.h.t.Helper()
	p.h.restart()
	p.closed()
}

// number gives frames their numbers without sending them.
func (p *fakeProxy) number(frames ...wire.Frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range frames {
		run := runOf(f)
		p.seqs[run]++
		p.nums[f] = p.seqs[run]
		p.order = append(p.order, f)
	}
}

// setDeaf has what is sent to it lost on the way, or no more.
func (p *fakeProxy) setDeaf(deaf bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = deaf
}

// forget is the loss of what its agents are at: their processes are gone, and nothing of their end was kept.
func (p *fakeProxy) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.runs)
}
