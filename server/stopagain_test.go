package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/httpagent"
)

// onePerThread is an agent that takes one run of a conversation at a time, as Strands does. "slow" is answered until its
// connection ends; until the agent has noticed that it does not, it refuses any other run.
type onePerThread struct {
	t      *testing.T
	agui   bool
	refuse func(w http.ResponseWriter, send func(...string))
	// notices is called when the connection has ended, and returns when the agent has noticed.
	notices func(a *onePerThread)

	mu      sync.Mutex
	busy    bool
	calls   int
	refused chan struct{} // gets one for each run that was refused
}

// ServeHTTP implements http.Handler.
func (a *onePerThread) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var in struct {
		ThreadID, RunID string
		Messages        []aguiMessage
	}
	_ = json.Unmarshal(body, &in)
	send := func(lines ...string) {
		for _, line := range lines {
			_, _ = io.WriteString(w, strings.NewReplacer("$THREAD", in.ThreadID, "$RUN", in.RunID).Replace(line))
		}
		_ = http.NewResponseController(w).Flush()
	}
	slow := lastUser(in.Messages) == "slow"
	a.mu.Lock()
	a.calls++
	busy := a.busy
	a.busy = busy || slow
	a.mu.Unlock()
	if busy {
		a.refuse(w, send)
		select {
		case a.refused <- struct{}{}:
		default:
		}
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	begin, word, end := "event: delta\ndata: {\"text\":\"w \"}\n\n", "", "event: done\ndata: {}\n\n"
	if a.agui {
		begin = "data: " + strings.TrimSpace(aguiBegin) + "\n\n" + `data: {"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}` + "\n\n"
		word = `data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"w "}` + "\n\n"
		end = `data: {"type":"TEXT_MESSAGE_END","messageId":"m"}` + "\n\ndata: " + strings.TrimSpace(aguiEnd) + "\n\n"
	}
	send(begin, word)
	if !slow {
		send(end)
		return
	}
	<-r.Context().Done()
	go func() {
		a.notices(a)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.busy = false
	}()
}

// TestStopThenAnAgentThatIsBusy: after Stop an agent that takes one run of a conversation at a time is called again when it
// has noticed, or once more where it has not. An agent that stays busy is called twice, and the person sees its error.
func TestStopThenAnAgentThatIsBusy(t *testing.T) {
	codes := map[string]func(w http.ResponseWriter, send func(...string)){
		"THREAD_BUSY": func(w http.ResponseWriter, send func(...string)) {
			w.Header().Set("Content-Type", "text/event-stream")
			send("data: "+strings.TrimSpace(aguiBegin)+"\n\n", `data: {"type":"RUN_ERROR","code":"THREAD_BUSY","message":"Another run is in progress"}`+"\n\n")
		},
		"409": func(w http.ResponseWriter, _ func(...string)) { w.WriteHeader(http.StatusConflict) },
		"423": func(w http.ResponseWriter, _ func(...string)) { w.WriteHeader(http.StatusLocked) },
	}
	noticing := map[string]func(*onePerThread){
		"after a moment":      func(*onePerThread) { time.Sleep(20 * time.Millisecond) }, // the agent's own time, which no test waits for
		"when it has refused": func(a *onePerThread) { <-a.refused },
		"never":               func(a *onePerThread) { <-a.t.Context().Done() },
	}
	for _, agui := range []bool{true, false} {
		for code, refuse := range codes {
			for when, notices := range noticing {
				if !agui && code == "THREAD_BUSY" {
					refuse = func(w http.ResponseWriter, send func(...string)) {
						w.Header().Set("Content-Type", "text/event-stream")
						send("event: error\ndata: {\"code\":\"thread_busy\",\"message\":\"Another run is in progress\"}\n\n")
					}
				}
				t.Run(fmt.Sprintf("agui %t, %s, %s", agui, code, when), func(t *testing.T) {
					t.Parallel()
					peer := &onePerThread{t: t, agui: agui, refuse: refuse, notices: notices, refused: make(chan struct{}, 8)}
					web := httptest.NewServer(peer)
					t.Cleanup(web.Close)
					h := newEnv(t, saysN(1))
					cfg := atHome(t)
					cfg.ID, cfg.URL, cfg.Protocol = "peer", web.URL, httpagent.ProtocolInvoke
					if agui {
						cfg.Protocol = httpagent.ProtocolAGUI
					}
					agent := httpagent.New(cfg)
					h.agents.Add("peer", agent)
					h.agents.SetDefault("peer")
					t.Cleanup(agent.Close)

					slow := h.open(h.prompt("T", "R1", "slow"))
					if _, err := slow.until(func(f frame) bool { return f.typ() == "TEXT_MESSAGE_CONTENT" }); err != nil {
						t.Fatal(err)
					}
					slow.close()
					got := h.chat("T", "R2", "go on")
					peer.mu.Lock()
					calls := peer.calls
					peer.mu.Unlock()
					switch end := got[len(got)-1]; {
					case when == "never":
						if end.typ() != "RUN_ERROR" || calls != 3 {
							t.Errorf("after %d calls the run ends with %s", calls, end.data)
						}
					case end.typ() != "RUN_FINISHED" || !strings.Contains(types(got), "TEXT_MESSAGE_CONTENT"):
						t.Errorf("after %d calls the run ends with %s", calls, end.data)
					case calls > 3, when == "when it has refused" && calls != 3:
						t.Errorf("the agent was called %d times", calls)
					}
				})
			}
		}
	}
}

// TestAnAgentsErrorIsNoBusyAnswer: an error of another kind is the agent's answer: it is not called again.
func TestAnAgentsErrorIsNoBusyAnswer(t *testing.T) {
	h, peer := withAGUIPeer(t, nil, func(int, aguiInput) string {
		return aguiBegin + `{"type":"RUN_ERROR","code":"model_overloaded","message":"later"}`
	})
	got := h.chat("T", "R1", "hi")
	said, peer2 := withAGUIPeer(t, nil, func(int, aguiInput) string {
		return aguiBegin + `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","role":"assistant","delta":"I am "}` + "\n" + `{"type":"RUN_ERROR","code":"BUSY","message":"later"}`
	})
	late := said.chat("T", "R1", "hi")
	if len(peer.calls) != 1 || len(peer2.calls) != 1 || typed(got, "RUN_ERROR").field("code") != "model_overloaded" || typed(late, "RUN_ERROR").field("code") != "BUSY" {
		t.Errorf("%d and %d calls, %s, %s", len(peer.calls), len(peer2.calls), typed(got, "RUN_ERROR").data, typed(late, "RUN_ERROR").data)
	}
}

// TestOnLeaveOfAnAgent: a client that leaves ends its tail alone, and where the agent is set so the work as well, once no other
// client reads it.
func TestOnLeaveOfAnAgent(t *testing.T) {
	for _, cancels := range []bool{false, true} {
		t.Run(fmt.Sprint(cancels), func(t *testing.T) {
			t.Parallel()
			gone, release := make(chan struct{}), make(chan struct{})
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.ReadAll(r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "event: delta\ndata: {\"text\":\"w \"}\n\n")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
					close(gone)
				case <-release:
					_, _ = io.WriteString(w, "event: done\ndata: {}\n\n")
				}
			}))
			t.Cleanup(web.Close)
			h := newEnvWith(t, saysN(1), plan{bridge: bridge.Limits{LeaveGrace: time.Millisecond}})
			cfg := atHome(t)
			cfg.ID, cfg.URL, cfg.CancelOnLeave = "peer", web.URL, cancels
			agent := httpagent.New(cfg)
			h.agents.Add("peer", agent)
			t.Cleanup(agent.Close)

			r := h.open(h.request("POST", "/api/agui/chat?agent=peer", inputBody("T", "R1", "hi")))
			if _, err := r.until(func(f frame) bool { return f.typ() == "TEXT_MESSAGE_CONTENT" }); err != nil {
				t.Fatal(err)
			}
			r.close()
			if cancels {
				<-gone
				if outcome := <-h.ended; outcome != "CANCELLED" {
					t.Errorf("the run ended as %s", outcome)
				}
				return
			}
			// Another client comes, for which nothing has ended.
			again := h.open(h.request("POST", "/api/agui/connect", `{"threadId":"T","protocolVersion":"1.0"}`))
			if _, err := again.until(func(f frame) bool { return f.typ() == "TEXT_MESSAGE_CONTENT" }); err != nil {
				t.Fatal(err)
			}
			close(release)
			if end := again.rest(); end[len(end)-1].typ() != "RUN_FINISHED" || strings.Contains(end[len(end)-1].data, "cancelled") {
				t.Errorf("the run ends with %s", end[len(end)-1].data)
			}
		})
	}
}
