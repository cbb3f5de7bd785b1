package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// oneOfMany are surfaces that approve one Question while others are open.
var oneOfMany = map[string]func(h *env, id string) answer{
	"REST": rest(`{"decision":"approve"}`),
	"resume": chatPost(`{"threadId":"T","runId":"R-$ID","protocolVersion":"1.0","messages":[],` +
		`"resume":[{"interruptId":"$ID","status":"resolved","payload":{"approved":true}}]}`),
	"toolCallMessage": cardAnswer(`{"optionId":"allow_once"}`),
	"permission socket": func(h *env, id string) answer {
		page := h.permissions("/ws/permissions/T")
		for page.next("agent_tool_permission_request").Data.ExecutionID != id {
		}
		page.respond(id, `"approved":true`)
		return answer{status: 200}
	},
}

// words is how many words an agent sends while a Question is open.
const words = 40

func said() string {
	var b strings.Builder
	for i := range words {
		fmt.Fprintf(&b, "w%d ", i)
	}
	return b.String()
}

// asker is an agent with two Questions open that can send words, and gets answers one by one.
type asker struct {
	heard func() string // which of the two was answered, "first" or "second"
	talk  func()        // sends the words
}

// worst is the longest of some spans.
type worst struct {
	mu   sync.Mutex
	span time.Duration
	n    int
}

func (w *worst) add(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.span, w.n = max(w.span, d), w.n+1
}

// answeredOneByOne answers two open Questions of thread T in an order. The first answer is at its asker, and what the
// agent then sends is in the chat, for a client that tails the thread and for one that follows the prompt's response, before
// the other Question is decided at all: nothing but the decision itself can have brought it there.
func answeredOneByOne(t *testing.T, h *env, a asker, following *reader, approve func(h *env, id string) answer, first int, took *worst) {
	t.Helper()
	ids, names := h.questions(), []string{"first", "second"}
	if len(ids) != 2 {
		t.Fatalf("%d questions", len(ids))
	}
	tail := h.open(h.request("GET", "/api/threads/T/events", "", "Accept", "text/event-stream"))
	defer tail.close()
	for i, which := range []int{first, 1 - first} {
		begun, replied := time.Now(), make(chan answer, 1)
		go func() { replied <- approve(h, ids[which]) }()
		if got := a.heard(); got != names[which] {
			t.Fatalf("the agent hears of the %s question instead of the %s", got, names[which])
		}
		took.add(time.Since(begun))
		if i == 0 {
			if other := h.status(ids[1-which]); other.Status != store.ApprovalPending {
				t.Errorf("the other question is %s", other.Status)
			}
			a.talk()
			for where, r := range map[string]*reader{"the thread's events": tail, "the followed response": following} {
				shown, err := r.until(func(f frame) bool { return f.field("delta") == fmt.Sprintf("w%d ", words-1) })
				if err != nil || !strings.HasSuffix(text(shown), said()) || strings.Count(text(shown), "w") != words {
					t.Errorf("%s show %q while a question is open: %v", where, text(shown), err)
				}
				if !strings.Contains(joined(shown), `"type":"TOOL_CALL_RESULT"`) {
					t.Errorf("%s do not show what was decided: %s", where, joined(shown))
				}
			}
			if other := h.status(ids[1-which]); other.Status != store.ApprovalPending {
				t.Errorf("the other question is %s", other.Status)
			}
		}
		if got := <-replied; got.status != 200 || strings.Contains(got.body, "question_open") {
			t.Errorf("HTTP %d %s", got.status, got.body)
		}
	}
	h.idle("T")
	tail.close()
	all := joined(h.open(h.request("GET", "/api/threads/T/events?after=1", "", "Accept", "text/event-stream")).untilIdle(h))
	for _, id := range ids {
		if n := strings.Count(all, fmt.Sprintf(`"toolCallId":%q,"content"`, id)); n != 1 {
			t.Errorf("%d results of a question in the log: %s", n, all)
		}
	}
	if strings.Contains(all, "RUN_ERROR") {
		t.Errorf("the turn failed: %s", all)
	}
}

// untilIdle reads up to the end of a thread's log.
func (r *reader) untilIdle(h *env) []frame {
	h.t.Helper()
	s, err := h.store.SessionByExternalID(h.t.Context(), store.System(), "T")
	if err != nil {
		h.t.Fatal(err)
	}
	end, err := h.store.LastSeq(h.t.Context(), store.System(), s.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	frames, err := r.until(func(f frame) bool { return f.id == fmt.Sprint(end) })
	if err != nil {
		h.t.Fatal(err)
	}
	r.close()
	return frames
}

// asking posts a prompt whose response goes on past interrupts, and reads it up to the first.
func (h *env) asking(prompt string) *reader {
	h.t.Helper()
	r := h.open(h.request("POST", "/api/agui/chat?follow=1", inputBody("T", "R", prompt)))
	if frames, err := r.until(func(f frame) bool { return f.typ() == "RUN_FINISHED" }); err != nil {
		h.t.Fatal(err, joined(frames))
	}
	return r
}

// inEachOrder runs a case for each surface and each order, and prints how long answers took to their askers.
func inEachOrder(t *testing.T, of func(t *testing.T, approve func(h *env, id string) answer, first int, took *worst)) {
	took := &worst{}
	for name, approve := range oneOfMany {
		for first, order := range []string{"first, second", "second, first"} {
			t.Run(name+"/"+order, func(t *testing.T) { of(t, approve, first, took) })
		}
	}
	t.Logf("%d answers: the slowest was at its asker %.1f ms after it was sent", took.n, float64(took.span.Microseconds())/1000)
}

// TestTwoACPPermissions: of two permissions open at once each answer is at the proxy when it is given, in each order, on
// each surface, and the chat is live throughout.
func TestTwoACPPermissions(t *testing.T) {
	t.Parallel()
	inEachOrder(t, func(t *testing.T, approve func(h *env, id string) answer, first int, took *worst) {
		h, agent := newACPEnv(t, "rm -rf x")
		following := h.asking("both")
		prompt := <-agent.both
		answeredOneByOne(t, h, asker{
			heard: func() string {
				select {
				case f := <-agent.heard:
					if f.Outcome != wire.OutcomeSelected || f.OptionID == nil || *f.OptionID != "p-once" {
						t.Errorf("the proxy heard %+v", f)
					}
					return map[wire.RequestID]string{"7": "first", "8": "second"}[f.RequestID]
				case <-time.After(socketPatience):
					return "neither"
				}
			},
			talk: func() {
				session := "S1"
				for i := range words {
					agent.send(&wire.ACPUpdate{RunID: prompt.RunID, PromptID: &prompt.PromptID, SessionID: &session, Update: fmt.Appendf(nil,
						`{"sessionUpdate":"agent_message_chunk","messageId":"meanwhile","content":{"type":"text","text":"w%d "}}`, i)})
				}
			},
		}, following, approve, first, took)
		if n := len(agent.heard); n != 0 {
			t.Errorf("the proxy heard %d times more", n)
		}
	})
}

// TestTwoTools: of two calls of tools that wait for approval at once each runs, and its result is at who waits for it,
// when it is approved, in each order, on each surface, and the chat is live throughout.
func TestTwoTools(t *testing.T) {
	t.Parallel()
	inEachOrder(t, func(t *testing.T, approve func(h *env, id string) answer, first int, took *worst) {
		w := &toolEnv{}
		heard, talk := make(chan string, 2), make(chan struct{}, 1)
		w.env = newEnv(t, func(ctx context.Context, say func(...bridge.Output), c bridge.Call, _ []approval.Delivery) {
			calls := map[string]map[string]any{}
			for _, name := range []string{"first", "second"} {
				calls[name] = w.invoke(c, "cut", fmt.Sprintf(`{"wood":%q}`, name))
			}
			var waits sync.WaitGroup
			for name, call := range calls {
				waits.Go(func() {
					if got := brief(w.settled(c, call)); got != fmt.Sprintf(`succeeded {"cut":{"wood":%q}}`, name) {
						name = got
					}
					heard <- name
				})
			}
			select {
			case <-talk:
			case <-ctx.Done():
				return
			}
			say(event(&agui.TextMessageStart{MessageID: "meanwhile", Role: agui.RoleAssistant}))
			for i := range words {
				say(event(&agui.TextMessageContent{MessageID: "meanwhile", Delta: fmt.Sprintf("w%d ", i)}))
			}
			say(event(&agui.TextMessageEnd{MessageID: "meanwhile"}))
			waits.Wait()
		})
		tool := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.ran.Add(1)
			var body struct{ Args json.RawMessage }
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
			rw.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(rw, `{"cut":%s}`, body.Args)
		}))
		t.Cleanup(tool.Close)
		w.register(fmt.Sprintf(`{"name":"cut","kind":"server_tool","endpoint":%q,"policy":%s}`, tool.URL, highRisk))
		following := w.asking("go")
		answeredOneByOne(t, w.env, asker{
			heard: func() string {
				select {
				case name := <-heard:
					return name
				case <-time.After(socketPatience):
					return "neither"
				}
			},
			talk: func() { talk <- struct{}{} },
		}, following, approve, first, took)
		if n := w.ran.Load(); n != 2 {
			t.Errorf("tools ran %d times", n)
		}
	})
}
