package faults_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/test/program"
)

// ingressMessage is a message of /ws/ingress, as much of it as is looked at.
type ingressMessage struct {
	Type      string
	Seq       int64
	RequestID string `json:"request_id"`
	SessionID string `json:"session_id"`
	RunID     string `json:"run_id"`
	State     string
	Source    string
	Text      string
	Code      string
	Again     bool
}

// talker is a client of one thread on the channel. It leaves and comes back, with what it has.
type talker struct {
	t      testing.TB
	at     func() string // where the server is now; waits for one
	thread string
	conn   *websocket.Conn

	last  int64
	texts map[string]map[int64]string // by request: deltas by seq
	over  map[string]string           // by request: the state it ended in
	codes map[string]int
}

func newTalker(t testing.TB, at func() string, thread string) *talker {
	return &talker{t: t, at: at, thread: thread, texts: make(map[string]map[int64]string), over: make(map[string]string), codes: make(map[string]int)}
}

// connect sends hello, with the seq that was reached.
func (k *talker) connect() bool {
	k.leave()
	conn, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(k.at(), "http")+"/ws/ingress", program.Authorization())
	if err != nil {
		return false
	}
	k.conn = conn
	hello := map[string]any{"type": "hello", "user_id": "local", "client_meta": map[string]any{}, "session_id": k.thread}
	if k.last > 0 {
		hello["last_seq"] = map[string]int64{k.thread: k.last}
	}
	return k.send(hello)
}

func (k *talker) leave() {
	if k.conn != nil {
		_ = k.conn.Close()
		k.conn = nil
	}
}

func (k *talker) send(v any) bool { return k.conn.WriteJSON(v) == nil }

// turn has one request answered to its end, however often the server goes meanwhile.
func (k *talker) turn(request, words string, until time.Time) {
	fresh := false
	for time.Now().Before(until) {
		if k.conn == nil && !k.connect() {
			k.leave()
			continue
		}
		if !fresh {
			fresh = k.send(map[string]any{"type": "agent_invoke", "request_id": request, "session_id": k.thread, "agent_id": "fake",
				"message": map[string]any{"role": "user", "content": words}})
		}
		for fresh {
			_ = k.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			_, raw, err := k.conn.ReadMessage()
			if err != nil {
				break
			}
			k.note(raw)
			if k.over[request] != "" {
				return
			}
		}
		fresh = false
		k.leave()
	}
	k.t.Errorf("thread %s: request %s does not end", k.thread, request)
}

func (k *talker) note(raw []byte) {
	var m ingressMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		k.t.Errorf("%s: %v", raw, err)
		return
	}
	if m.SessionID != "" && m.SessionID != k.thread {
		return // a question of another thread: all are one user's
	}
	k.last = max(k.last, m.Seq)
	switch {
	case m.Type == "delta":
		if k.texts[m.RequestID] == nil {
			k.texts[m.RequestID] = make(map[int64]string)
		}
		k.texts[m.RequestID][m.Seq] = m.Text
	case m.Type == "error":
		k.codes[m.Code]++
	case m.Type == "state" && m.Source == "" && m.RunID != "" && slices.Contains([]string{"DONE", "FAILED", "CANCELLED"}, m.State):
		k.over[m.RequestID] = m.State
	}
}

func (k *talker) text(request string) string {
	var all strings.Builder
	for _, seq := range slices.Sorted(mapsKeys(k.texts[request])) {
		all.WriteString(k.texts[request][seq])
	}
	return all.String()
}

func mapsKeys(m map[int64]string) func(yield func(int64) bool) {
	return func(yield func(int64) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

const (
	talkers      = 12
	talkerKills  = 10
	talkerCount  = 40
	talkerWithin = 2 * time.Minute
)

// TestIngressComesBack: clients of the channel that come back with last_seq, server after
// server, by kill -9 and SIGTERM, have the text of each Turn exactly as the log has it.
func TestIngressComesBack(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, database string) {
		h := newServerEnv(t, database)
		var mu sync.Mutex
		url := h.url
		at := func() string {
			mu.Lock()
			defer mu.Unlock()
			return url
		}
		until, stop := time.Now().Add(talkerWithin), make(chan struct{})
		var all sync.WaitGroup
		clients := make([]*talker, talkers)
		for i := range clients {
			k := newTalker(t, at, fmt.Sprint("I", i))
			clients[i] = k
			all.Go(func() {
				defer k.leave()
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
						k.turn(fmt.Sprintf("%s-%d", k.thread, n), fmt.Sprintf("count %d 5ms", talkerCount), until)
					}
				}
			})
		}
		for i := range talkerKills {
			time.Sleep(time.Duration(300+rand.IntN(700)) * time.Millisecond)
			if i%2 == 0 {
				h.kill()
			} else {
				h.signal(syscall.SIGTERM)
				h.gone(20 * time.Second)
			}
			mu.Lock() // clients wait for the next
			h.start(program.Shipped)
			url = h.url
			mu.Unlock()
		}
		close(stop)
		all.Wait()
		turns, broken := 0, 0
		for _, k := range clients {
			_, run := h.settled(t, k.thread)
			log := h.whole(t, k.thread, run.LastSeq)
			begin := 0
			for i, e := range log {
				if !e.terminal() {
					continue
				}
				var started struct{ RunID string }
				_ = json.Unmarshal([]byte(log[begin].data), &started)
				if want, got := text(log[begin:i]), k.text(started.RunID); got != want {
					t.Errorf("thread %s, request %s (%s): the log says %q, the client heard %q; errors %v", k.thread, started.RunID, k.over[started.RunID], want, got, k.codes)
				}
				turns++
				if e.kind() == "RUN_ERROR" {
					broken++
				}
				begin = i + 1
			}
		}
		t.Logf("%d turns of %d clients through %d servers, %d broken off", turns, talkers, talkerKills+1, broken)
	})
}
