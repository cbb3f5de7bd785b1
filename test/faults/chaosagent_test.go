package faults_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// chaosAgent is an HTTP agent that does at random what an agent may do, and the tools that it
// calls. It keeps what it sent and what it received.
type chaosAgent struct {
	*httptest.Server
	seed uint64

	mu     sync.Mutex
	calls  []*chaosCall
	called map[string]int       // by Turn, and what was answered
	told   map[string][]bool    // by the title of a question: was it approved
	ran    map[string][]float64 // executions of a tool call
}

// chaosCall is one call of the agent.
type chaosCall struct {
	turn string
	no   int
	said int  // deltas that were written
	done bool // it came to its own end
	from time.Time
	to   time.Time
}

func newChaosAgent(t testing.TB, seed uint64) *chaosAgent {
	a := &chaosAgent{seed: seed, called: make(map[string]int), told: make(map[string][]bool), ran: make(map[string][]float64)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /invoke", a.invoke)
	mux.HandleFunc("POST /tool", a.tool)
	a.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		a.CloseClientConnections()
		a.Close()
	})
	return a
}

// rng gives the random numbers of one part of the harness: the same seed makes the same choices.
func rng(seed uint64, part string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(part)) // a hash does not fail
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

func (a *chaosAgent) tool(w http.ResponseWriter, r *http.Request) {
	var call struct {
		ToolCallID string `json:"tool_call_id"`
	}
	if json.NewDecoder(r.Body).Decode(&call) != nil {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	a.ran[call.ToolCallID] = append(a.ran[call.ToolCallID], float64(time.Now().UnixMicro())/1000)
	a.mu.Unlock()
	f := &frames{w: w, r: r}
	if f.wait(time.Duration(rng(a.seed, call.ToolCallID).IntN(150)) * time.Millisecond) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"paid":true}`)) // the caller may have gone
	}
}

// executions is how many tool calls were executed.
func (a *chaosAgent) executions() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.ran)
}

// begun notes a call.
func (a *chaosAgent) begun(c invocation) *chaosCall {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := c.RunID
	for _, answer := range c.Resume {
		key += " " + answer.ID
		a.told[answer.ID] = append(a.told[answer.ID], answer.Payload.Approved)
	}
	a.called[key]++
	call := &chaosCall{turn: c.RunID, no: len(a.calls) + 1, from: time.Now(), to: time.Now().Add(time.Hour)}
	a.calls = append(a.calls, call)
	return call
}

func (a *chaosAgent) over(call *chaosCall) {
	a.mu.Lock()
	defer a.mu.Unlock()
	call.to = time.Now()
}

// chaosTurn is the agent at work in one call.
type chaosTurn struct {
	*frames
	agent   *chaosAgent
	call    *chaosCall
	rand    *rand.Rand
	in      *server // the tool proxy, where this call came from
	cred    credentials
	pending []string
}

func (a *chaosAgent) invoke(w http.ResponseWriter, r *http.Request) {
	var c invocation
	body := json.NewDecoder(r.Body)
	// An answer to an input question is any value: what it holds besides is of no interest here.
	if err := body.Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	call := a.begun(c)
	defer a.over(call)
	k := &chaosTurn{
		frames: &frames{w: w, r: r}, agent: a, call: call,
		rand: rng(a.seed, fmt.Sprint(c.Input.Content, len(c.Resume), call.no)),
		in:   &server{url: r.Header.Get("x-aqueduct-base-url")},
		cred: credentials{turn: c.RunID, token: r.Header.Get("x-aqueduct-run-token")},
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if c.Input.Content == chaosPlain {
		if k.speak(3) {
			k.end(`{}`)
		}
		return
	}
	k.work(len(c.Resume) > 0)
}

// chaosPlain is a prompt that is answered at once and without a question.
const chaosPlain = "plain"

// speak sends some numbered words. Each is counted before it is written: the server may have
// kept one whose writing failed here.
func (k *chaosTurn) speak(words int) bool {
	for range words {
		k.agent.mu.Lock()
		k.call.said++
		word := fmt.Sprintf(`{"text":"%d.%d "}`, k.call.no, k.call.said)
		k.agent.mu.Unlock()
		if !k.send("delta", word) || !k.wait(time.Duration(k.rand.IntN(30))*time.Millisecond) {
			return false
		}
	}
	return true
}

func (k *chaosTurn) end(done string) {
	k.send("done", done)
	k.agent.mu.Lock()
	defer k.agent.mu.Unlock()
	k.call.done = true
}

// work is a few steps of talk, questions and tools, and then one of several ends.
func (k *chaosTurn) work(resumed bool) {
	steps := 1 + k.rand.IntN(4)
	for range steps {
		ok := k.speak(2 + k.rand.IntN(12))
		switch what := k.rand.IntN(10); {
		case !ok:
		case what < 2 && !(resumed && k.rand.IntN(2) == 0):
			ok = k.ask()
		case what < 5:
			ok = k.use([]string{"pay", "look"}[k.rand.IntN(2)])
		}
		if !ok {
			return
		}
	}
	switch end := k.rand.IntN(20); {
	case end == 0:
		k.send("error", `{"code":"model_overloaded","message":"Try later."}`)
	case end == 1: // cut: it ends without a last word
	case end == 2, len(k.pending) == 0: // the first with questions open: the Run ends without their answers
		k.end(`{}`)
	default:
		list, err := json.Marshal(map[string][]string{"pending": k.pending})
		if err == nil {
			k.end(string(list))
		}
	}
}

// ask asks a person and goes on. Ids are unique, so that answers can be counted.
func (k *chaosTurn) ask() bool {
	id := fmt.Sprintf("q-%d-%d", k.call.no, len(k.pending))
	k.pending = append(k.pending, id)
	return k.send("ask", fmt.Sprintf(`{"id":%q,"kind":"permission","tool":"shell","title":%q,"args":{"n":%d},"options":[`+
		`{"id":"yes","label":"Yes","kind":"allow_once"},{"id":"no","label":"No","kind":"reject_once"}]}`, id, id, k.call.no))
}

// use has a tool run and mostly waits for it.
func (k *chaosTurn) use(name string) bool {
	call := k.in.ask(k.cred.token, "/v1/tools/"+name+":invoke", fmt.Sprintf(`{"run_id":%q,"args":{"sum":%d}}`, k.cred.turn, k.call.no))
	if k.rand.IntN(8) == 0 {
		return k.r.Context().Err() == nil // it does not care
	}
	for call.err == nil && call.Status == "pending" && k.r.Context().Err() == nil {
		call = k.in.waitFor(k.cred, call.ToolCallID, time.Second)
	}
	return k.r.Context().Err() == nil
}

// words are the agent's numbered words in a text, as pairs of call and number.
func numberedWords(s string) (words [][2]int, err error) {
	for _, word := range strings.Fields(s) {
		var w [2]int
		if _, err := fmt.Sscanf(word, "%d.%d", &w[0], &w[1]); err != nil {
			return nil, fmt.Errorf("%q: %w", word, err)
		}
		words = append(words, w)
	}
	return words, nil
}
