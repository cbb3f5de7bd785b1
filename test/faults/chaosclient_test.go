package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/test/program"
)

// chaos is one run of the harness: a serverEnv whose servers come and go, an agent that does
// anything, clients of every surface, and people who decide.
type chaos struct {
	t      testing.TB
	seed   uint64
	agent  *chaosAgent
	at     atomic.Pointer[server] // the server there is, or was
	stop   chan struct{}          // nothing new is begun
	people sync.WaitGroup

	mu      sync.Mutex
	posted  map[string]bool     // the runIds of prompts
	wins    map[string][]string // by Question: the winners that its callers were given
	counts  map[string]int
	ledgers []*copied
	ears    []*ear
}

func (c *chaos) stopped() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// rest waits for a while, less when the harness stops.
func (c *chaos) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.stop:
	}
}

func (c *chaos) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

// copied is what one client of SSE has of a thread's log, over all its connections.
type copied struct {
	c      *chaos
	who    string
	thread string
	seen   map[int64]string
	broken string // the first thing that was wrong with a connection
}

func (c *chaos) copies(who, thread string) *copied {
	l := &copied{c: c, who: who, thread: thread, seen: make(map[int64]string)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledgers = append(c.ledgers, l)
	return l
}

func (l *copied) fault(format string, args ...any) {
	if l.broken == "" {
		l.broken = fmt.Sprintf(format, args...)
	}
}

// read reads a connection to its end, or leaves it after a time; positions rise by one from
// next on (0: from wherever it begins). It gives the position after the last.
func (l *copied) read(in *stream, next int64, life time.Duration) (int64, event) {
	defer in.close()
	leave := time.AfterFunc(life, in.cancel)
	defer leave.Stop()
	var last event
	for {
		e, err := in.next()
		if err != nil {
			return next, last
		}
		last = e
		if e.id == 0 {
			continue // of a join, not of the log
		}
		if next != 0 && e.id != next {
			l.fault("after event %d comes %d on one stream", next-1, e.id)
		}
		next = e.id + 1
		if before, ok := l.seen[e.id]; ok && before != e.data {
			l.fault("event %d was %s, and now is %s", e.id, before, e.data)
		}
		l.seen[e.id] = e.data
		l.c.count("events read")
	}
}

func life(r *rand.Rand) time.Duration {
	return time.Duration(100+r.IntN(3000)) * time.Millisecond
}

// watchThread follows a thread from its first event on, with Last-Event-ID.
func (c *chaos) watchThread(l *copied) {
	r := rng(c.seed, l.who)
	next := int64(1)
	for !c.stopped() {
		in, err := c.at.Load().stream("GET", "/api/threads/"+l.thread+"/events?after=0", nil, lastID(next)...)
		if err == nil {
			next, _ = l.read(in, next, life(r))
		}
		c.rest(time.Duration(r.IntN(150)) * time.Millisecond)
	}
}

// lastID is the header of a client that has what is before a position.
func lastID(next int64) []string {
	if next <= 1 {
		return nil
	}
	return []string{"Last-Event-ID", fmt.Sprint(next - 1)}
}

// watchRuns follows whatever Run is the thread's last, to its end.
func (c *chaos) watchRuns(l *copied) {
	r := rng(c.seed, l.who)
	for !c.stopped() {
		var info threadInfo
		if found, err := c.at.Load().get("/api/threads/"+l.thread, &info); err == nil && found && info.LastRun != nil {
			c.watchRun(l, r, info.LastRun.RunID)
		}
		c.rest(time.Duration(r.IntN(150)) * time.Millisecond)
	}
}

func (c *chaos) watchRun(l *copied, r *rand.Rand, run string) {
	next := int64(0)
	for !c.stopped() {
		in, err := c.at.Load().stream("GET", "/api/runs/"+run+"/events", nil, lastID(next)...)
		if err == nil {
			var last event
			if next, last = l.read(in, next, life(r)); last.terminal() {
				return
			}
		} else if strings.Contains(err.Error(), "HTTP 204") {
			return // it is over, and this client has its last event
		}
		c.rest(time.Duration(r.IntN(100)) * time.Millisecond)
	}
}

// joins opens the thread again and again as a second tab does.
func (c *chaos) joins(l *copied) {
	r := rng(c.seed, l.who)
	for i := 0; !c.stopped(); i++ {
		body := fmt.Sprintf(`{"threadId":%q,"runId":"%s-join-%d","protocolVersion":"1.0","state":{},"messages":[],"tools":[],"context":[],"forwardedProps":{}}`, l.thread, l.thread, i)
		in, err := c.at.Load().stream("POST", "/api/agui/chat?follow=1", []byte(body))
		if err == nil {
			_, _ = l.read(in, 0, life(r))
		}
		c.rest(time.Duration(r.IntN(200)) * time.Millisecond)
	}
}

// prompts has one prompt after the other answered, posts it again when the stream was lost,
// and sometimes cancels it.
func (c *chaos) prompts(l *copied) {
	r := rng(c.seed, l.who)
	for n := 0; !c.stopped(); n++ {
		run := fmt.Sprintf("%s-%d", l.thread, n)
		path := "/api/agui/chat" + []string{"", "?follow=1"}[r.IntN(2)]
		c.prompted(run)
		cancelled := r.IntN(15) != 0
		for !c.stopped() {
			in, err := c.at.Load().stream("POST", path, prompt(l.thread, run, fmt.Sprintf("work %s", run)))
			if err == nil {
				_, _ = l.read(in, 0, life(r))
			}
			if !cancelled {
				c.cancel(run)
				cancelled = true
			}
			if c.over(run) {
				break
			}
			c.rest(time.Duration(20+r.IntN(150)) * time.Millisecond)
		}
	}
}

func (c *chaos) prompted(run string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.posted[run] = true
}

// over tells whether the Turn that began with a Run has ended.
func (c *chaos) over(run string) bool {
	var info runInfo
	found, err := c.at.Load().get("/api/runs/"+run, &info)
	return err == nil && found && turnOver(info)
}

func turnOver(info runInfo) bool {
	switch info.Turn.Status {
	case "DONE", "FAILED", "CANCELLED":
		return info.Status != "RUNNING" && info.Status != "RESERVED"
	}
	return false
}

func (c *chaos) cancel(run string) {
	ctx, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	resp, err := c.at.Load().do(ctx, "POST", "/api/runs/"+run+"/cancel", []byte(`{}`))
	if err == nil {
		_ = resp.Body.Close()
		c.count("cancels")
	}
}

// decides answers open Questions at random: over REST, with resume[], with a tool message, or
// twice at once with opposite answers.
func (c *chaos) decides(who string) {
	r := rng(c.seed, who)
	answers := make(map[string]*copied)
	for n := 0; !c.stopped(); n++ {
		for _, q := range c.open() {
			if r.IntN(3) != 0 || c.stopped() {
				continue
			}
			l := answers[q.Thread]
			if l == nil {
				l = c.copies(who+"-"+q.Thread, q.Thread)
				answers[q.Thread] = l
			}
			c.decide(l, r, q, fmt.Sprintf("%s-%d", who, n))
		}
		c.rest(time.Duration(30+r.IntN(200)) * time.Millisecond)
	}
}

// openQuestion is one of the inbox.
type openQuestion struct {
	ID     string `json:"approval_id"`
	Thread string `json:"thread_id"`
	Kind   string
	Status string
	Title  string
	Turn   string `json:"run_id"`
}

func (c *chaos) open() []openQuestion {
	var list struct{ Approvals []openQuestion }
	if _, err := c.at.Load().get("/api/approvals?status=PENDING&limit=100", &list); err != nil {
		return nil
	}
	return list.Approvals
}

// chaosOutcome answers what became of a tool that was running when its server died. No client has
// it run again, so that one execution is all there may be.
const chaosOutcome = `{"outcome":"failed","message":"Not in the books."}`

func (c *chaos) decide(l *copied, r *rand.Rand, q openQuestion, id string) {
	s, yes := c.at.Load(), r.IntN(3) != 0
	payload := fmt.Sprintf(`{"approved":%t}`, yes)
	if q.Kind == "input" {
		payload = chaosOutcome
	}
	switch r.IntN(4) {
	case 0:
		c.post(s, q, yes)
	case 1:
		c.count("answers by resume[]")
		c.answer(l, r, fmt.Sprintf(`{"threadId":%q,"runId":"%s-%s","protocolVersion":"1.0","state":{},"messages":[],"tools":[],"context":[],"forwardedProps":{},`+
			`"resume":[{"interruptId":%q,"status":"resolved","payload":%s}]}`, q.Thread, id, q.ID, q.ID, payload))
	case 2:
		c.count("answers by tool message")
		content, _ := json.Marshal(payload) // a string can be marshalled
		c.answer(l, r, fmt.Sprintf(`{"threadId":%q,"runId":"%s-%s","protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{},`+
			`"messages":[{"id":"%s-%s-m","role":"tool","toolCallId":%q,"content":%s}]}`, q.Thread, id, q.ID, id, q.ID, q.ID, content))
	default:
		var both sync.WaitGroup
		both.Go(func() { c.post(s, q, !yes) })
		both.Go(func() { c.post(s, q, yes) })
		both.Wait()
	}
}

// answer posts an answer to the chat and reads what follows.
func (c *chaos) answer(l *copied, r *rand.Rand, body string) {
	in, err := c.at.Load().stream("POST", "/api/agui/chat", []byte(body))
	if err != nil {
		if strings.Contains(err.Error(), "HTTP 4") {
			l.fault("an answer got an error: %v", err)
		}
		return
	}
	_, _ = l.read(in, 0, time.Duration(r.IntN(1000))*time.Millisecond)
}

// post decides over REST.
func (c *chaos) post(s *server, q openQuestion, yes bool) {
	body := map[bool]string{true: `{"decision":"approve"}`, false: `{"decision":"reject"}`}[yes]
	if q.Kind == "input" {
		body = `{"payload":` + chaosOutcome + `}`
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	resp, err := s.do(ctx, "POST", "/api/approvals/"+q.ID+"/decision", []byte(body))
	if err != nil {
		return
	}
	defer resp.Body.Close()
	var out decided
	if json.NewDecoder(resp.Body).Decode(&out) != nil || resp.StatusCode != http.StatusOK || !out.Won {
		return
	}
	c.count("answers by REST")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wins[q.ID] = append(c.wins[q.ID], fmt.Sprint(out.Status))
}

// socket decides on a thread's permission socket.
func (c *chaos) socket(thread string) {
	r := rng(c.seed, "socket"+thread)
	for !c.stopped() {
		c.onSocket(thread, r)
		c.rest(time.Duration(r.IntN(200)) * time.Millisecond)
	}
}

func (c *chaos) onSocket(thread string, r *rand.Rand) {
	conn, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(c.at.Load().url, "http")+"/ws/permissions/"+thread, program.Authorization())
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(life(r)))
	for {
		var m struct {
			Type string
			Data struct {
				ExecutionID string `json:"execution_id"`
				Kind        string
			}
		}
		if conn.ReadJSON(&m) != nil {
			return
		}
		if m.Type != "agent_tool_permission_request" || r.IntN(2) != 0 {
			continue
		}
		c.rest(time.Duration(r.IntN(100)) * time.Millisecond)
		answer := fmt.Sprintf(`"approved":%t`, r.IntN(3) != 0)
		if m.Data.Kind == "input" {
			answer = `"payload":` + chaosOutcome
		}
		if conn.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"type":"agent_tool_permission_response","data":{"execution_id":%q,%s}}`, m.Data.ExecutionID, answer)) != nil {
			return
		}
		c.count("answers by socket")
	}
}

// ear is a client of /ws/ingress, which comes back with last_seq.
type ear struct {
	c      *chaos
	thread string
	speaks bool // it prompts, too
	whole  bool // it asks for what was sent before it came
	last   int64
	first  int64            // the lowest position it has text of
	texts  map[int64]string // by seq
	over   map[string]string
	codes  map[string]int // of errors it received
	broken string
}

func (c *chaos) listener(thread string, speaks bool) *ear {
	e := &ear{c: c, thread: thread, speaks: speaks, texts: make(map[int64]string), over: make(map[string]string), codes: make(map[string]int)}
	c.ears = append(c.ears, e)
	return e
}

// listen reads, and prompts where it is the thread's own client.
func (e *ear) listen() {
	r := rng(e.c.seed, "ear"+e.thread)
	for n := 0; !e.c.stopped(); {
		request := ""
		if e.speaks {
			if request = fmt.Sprintf("%s-%d", e.thread, n); e.over[request] != "" {
				n++
				continue
			}
		}
		e.connection(request, r, life(r), func() bool { return request != "" && e.over[request] != "" })
		e.c.rest(time.Duration(r.IntN(150)) * time.Millisecond)
	}
}

// connection is one connection's life.
func (e *ear) connection(request string, r *rand.Rand, life time.Duration, enough func() bool) {
	conn, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(e.c.at.Load().url, "http")+"/ws/ingress", program.Authorization())
	if err != nil {
		return
	}
	defer conn.Close()
	hello := map[string]any{"type": "hello", "user_id": "local", "client_meta": map[string]any{}, "session_id": e.thread}
	if e.last > 0 || e.whole {
		hello["last_seq"] = map[string]int64{e.thread: e.last}
	}
	if conn.WriteJSON(hello) != nil {
		return
	}
	if request != "" {
		e.c.prompted(request)
		if conn.WriteJSON(map[string]any{"type": "agent_invoke", "request_id": request, "session_id": e.thread, "agent_id": "fake",
			"message": map[string]any{"role": "user", "content": "work " + request}}) != nil {
			return
		}
	}
	_ = conn.SetReadDeadline(time.Now().Add(life))
	for !enough() {
		var m struct {
			ingressMessage
			ApprovalID string `json:"approval_id"`
			Kind       string
		}
		if conn.ReadJSON(&m) != nil {
			return
		}
		e.note(m.ingressMessage)
		if m.Type == "approval_required" && r.IntN(4) == 0 && m.SessionID == e.thread {
			answer := map[string]any{"type": "approval_decision", "approval_id": m.ApprovalID, "decision": []string{"approve", "reject"}[r.IntN(2)]}
			if m.Kind == "input" {
				answer["decision"], answer["payload"] = "approve", json.RawMessage(chaosOutcome)
			}
			if conn.WriteJSON(answer) != nil {
				return
			}
			e.c.count("answers by ingress")
		}
	}
}

func (e *ear) note(m ingressMessage) {
	if m.Type == "error" {
		e.codes[m.Code]++
	}
	if m.SessionID != e.thread {
		return // a question of another thread: all are one user's
	}
	e.last = max(e.last, m.Seq)
	switch {
	case m.Type == "delta":
		if before, ok := e.texts[m.Seq]; ok && e.broken == "" && (before != m.Text || !e.speaks) {
			e.broken = fmt.Sprintf("seq %d was %q and comes again as %q", m.Seq, before, m.Text)
		}
		e.texts[m.Seq] = m.Text
		if e.first == 0 || m.Seq < e.first {
			e.first = m.Seq
		}
		e.c.count("ingress deltas")
	case m.Type == "state" && m.Source == "" && m.RunID != "" && (m.State == "DONE" || m.State == "FAILED" || m.State == "CANCELLED"):
		e.over[m.RequestID] = m.State
	}
}
