package acpgateway_test

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/acpgateway/acp"
	"aqueduct/server/auth"
)

// double is a proxy written to the contract, which a test has say what it says. It takes the
// place of no agent: what one would answer, the test says.
type double struct {
	h      *house
	id     string
	agent  string // the Agent it serves
	most   int    // max_concurrent
	counts bool   // it numbers its frames, keeps them until they are acknowledged, and says what it runs
	marks  bool   // it marks what session/load repeats
	epoch  string

	installation string

	mu    sync.Mutex
	conn  *websocket.Conn // nil: not linked
	bye   chan error      // why the link ended
	in    []down          // frames that came, not read by the test yet
	bell  chan struct{}
	ack   chan acp.RegisterAck
	runs  map[string][]string // the prompts it has, by run
	order []acp.Frame         // of a counting one: frames not acknowledged, in order
	seqs  map[string]int64
	nums  map[acp.Frame]int64
	came  map[string]int64 // the gateway's numbers
	peer  string           // the gateway's epoch
	twice int              // frames that came again
	deaf  bool             // what is sent to it is lost on the way

	// An old proxy reads nothing from an agent whose request for permission is open.
	asking  map[string]int
	blocked map[string][]acp.Frame
}

// down is one frame of the gateway's.
type down struct {
	acp.Head
	frame acp.Frame
	raw   string
}

// oldProxy is one as they are in the field (facts §3): it does not number, and what it says
// without a link is lost.
func oldProxy(h *house, id string) *double {
	return &double{
		h: h, id: id, agent: "dev", bell: make(chan struct{}, 1), ack: make(chan acp.RegisterAck, 1), runs: map[string][]string{},
		seqs: map[string]int64{}, nums: map[acp.Frame]int64{}, came: map[string]int64{},
		asking: map[string]int{}, blocked: map[string][]acp.Frame{},
	}
}

// newProxy is one that has our additions to the contract.
func newProxy(h *house, id string) *double {
	p := oldProxy(h, id)
	p.counts, p.epoch = true, "e1"
	return p
}

// token is one for a proxy.
func (h *house) token(id, agent string) string {
	h.t.Helper()
	token, err := h.keys.Issue(auth.Claims{Type: auth.TypeACPProxy, ProxyClaims: auth.ProxyClaims{ProxyID: id, AgentID: agent}}, 24*time.Hour)
	if err != nil {
		h.t.Fatal(err)
	}
	return token
}

// dial opens a connection, with a token or without.
func (h *house) dial(token string) *websocket.Conn {
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

// link connects and registers; what the gateway has not acknowledged is said again.
func (p *double) link() *double {
	p.h.t.Helper()
	conn := p.h.dial(p.h.token(p.id, p.agent))
	p.mu.Lock()
	p.conn, p.bye = conn, make(chan error, 1)
	info := p.info()
	p.mu.Unlock()
	go p.read(conn, p.bye)
	p.write(&acp.RegisterAgent{Agent: info})
	select {
	case ack := <-p.ack:
		p.registered(ack)
	case <-time.After(time.Minute):
		p.h.t.Fatal("no register_ack")
	}
	return p
}

// info is what it introduces itself with. The lock is held.
func (p *double) info() acp.ProxyInfo {
	info := acp.ProxyInfo{ID: p.id, Name: p.id, MaxConcurrent: p.most, Installation: p.installation, Capabilities: []byte(`{"acpTunnel":true}`)}
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
		info.Runs = append(info.Runs, acp.RunInfo{RunID: run, Running: true, PromptIDs: prompts})
	}
	return info
}

func (p *double) registered(ack acp.RegisterAck) {
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

// read takes what the gateway says.
func (p *double) read(conn *websocket.Conn, bye chan<- error) {
	for {
		_, data, err := conn.ReadMessage()
		if err != nil {
			bye <- err
			return
		}
		head, f, err := acp.Decode(data)
		if err != nil {
			p.h.t.Errorf("a frame of the gateway's: %v: %s", err, data)
			continue
		}
		p.take(down{head, f, string(data)})
	}
}

func (p *double) take(d down) {
	p.mu.Lock()
	deaf := p.deaf
	p.mu.Unlock()
	if deaf {
		return
	}
	switch m := d.frame.(type) {
	case *acp.RegisterAck:
		p.ack <- *m
		return
	case *acp.Ack:
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
	var freed []acp.Frame
	switch m := d.frame.(type) {
	case *acp.PromptSend:
		p.runs[m.RunID] = append(p.runs[m.RunID], m.PromptID)
	case *acp.SessionPermission:
		p.asking[m.RunID]--
		if !p.counts && p.asking[m.RunID] == 0 {
			freed = p.blocked[m.RunID]
			delete(p.blocked, m.RunID)
		}
	}
	p.in = append(p.in, d)
	p.mu.Unlock()
	if d.Seq > 0 {
		p.write(&acp.Ack{RunID: d.RunID, Seq: d.Seq})
	}
	for _, f := range freed {
		p.say(f)
	}
	select {
	case p.bell <- struct{}{}:
	default:
	}
}

func (p *double) acked(m *acp.Ack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.order = slices.DeleteFunc(p.order, func(f acp.Frame) bool { return runOf(f) == m.RunID && p.nums[f] <= m.Seq })
}

// unacknowledged is how many frames the gateway has not said to have kept.
func (p *double) unacknowledged() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.order)
}

// write sends a frame if there is a link.
func (p *double) write(f acp.Frame) {
	body, err := acp.Encode(f)
	if err != nil {
		p.h.t.Error(err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if seq := p.nums[f]; seq > 0 {
		body = acp.WithSeq(body, seq)
	}
	if p.conn != nil {
		_ = p.conn.WriteMessage(websocket.TextMessage, body) // it may be cut just now
	}
}

// raw sends bytes as they are.
func (p *double) raw(body string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.conn.WriteMessage(websocket.TextMessage, []byte(body))
}

// say says frames of runs: one that counts keeps them until they are acknowledged.
func (p *double) say(frames ...acp.Frame) {
	for _, f := range frames {
		p.mu.Lock()
		run := runOf(f)
		if !p.counts && p.asking[run] > 0 {
			p.blocked[run] = append(p.blocked[run], f)
			p.mu.Unlock()
			continue
		}
		switch m := f.(type) {
		case *acp.PromptResult:
			p.runs[run] = slices.DeleteFunc(p.runs[run], func(id string) bool { return id == m.PromptID })
		case *acp.Exit:
			delete(p.runs, run)
		case *acp.ProxyUpdate:
			if s, _ := acp.DecodeSignal(m.Content); s != nil && s.Kind() == "permission_request" {
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

// cut ends the link as a broken cable does: nobody says goodbye.
func (p *double) cut() {
	p.mu.Lock()
	conn, bye := p.conn, p.bye
	p.conn = nil
	p.mu.Unlock()
	_ = conn.NetConn().Close()
	<-bye
	p.h.settleNow()
}

// closed waits for the gateway to end the link, and tells the code.
func (p *double) closed() int {
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
func (p *double) reborn(epoch string) {
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
func (p *double) next() down {
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

// left are the frames that came and nobody looked at.
func (p *double) left() []down {
	p.h.pass(50 * time.Millisecond) // a commit may linger
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.in
	p.in = nil
	return in
}

// silent fails the test if the gateway said anything.
func (p *double) silent() {
	p.h.t.Helper()
	for _, d := range p.left() {
		p.h.t.Errorf("the gateway said %s", d.raw)
	}
}

// want is the gateway's next frame, which must be of this type.
func want[F acp.Frame](p *double) F {
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
func runOf(f acp.Frame) string {
	switch m := f.(type) {
	case *acp.Opened:
		return m.RunID
	case *acp.Closed:
		return m.RunID
	case *acp.Exit:
		return m.RunID
	case *acp.ACPUpdate:
		return m.RunID
	case *acp.ProxyUpdate:
		return m.RunID
	case *acp.PromptResult:
		return m.RunID
	case *acp.SessionControlResult:
		return m.RunID
	case *acp.BranchCreated:
		return m.RunID
	case *acp.SandboxControlResult:
		if m.RunID != nil {
			return *m.RunID
		}
	}
	return ""
}

// restart restarts the server under the proxy, which notices.
func (p *double) restart() {
	p.h.t.Helper()
	p.h.restart()
	p.closed()
}

// number gives frames their numbers without sending them.
func (p *double) number(frames ...acp.Frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range frames {
		run := runOf(f)
		p.seqs[run]++
		p.nums[f] = p.seqs[run]
		p.order = append(p.order, f)
	}
}
