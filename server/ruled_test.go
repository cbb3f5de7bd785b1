package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/httpagent"
	"aqueduct/store"
)

// askingRoads are agents that ask for a permission to run `ls` by the tool "shell", and end. When called again they write the
// answer that they got. There is one for each protocol in which an agent gets its answers by a call.
var askingRoads = map[string]struct {
	protocol httpagent.Protocol
	asks     string
	answers  func(body []byte) string // the whole answer to a call with resume; "" for a call without
}{
	"http": {httpagent.ProtocolInvoke,
		"event: ask\ndata: {\"id\":\"q1\",\"kind\":\"permission\",\"title\":\"ls\",\"tool\":\"shell\",\"args\":{\"cmd\":\"ls\"}," +
			"\"options\":[{\"id\":\"y\",\"label\":\"Yes\",\"kind\":\"allow_once\"},{\"id\":\"a\",\"label\":\"Always\",\"kind\":\"allow_always\"},{\"id\":\"n\",\"label\":\"No\",\"kind\":\"reject_once\"}]}\n\n" +
			"event: done\ndata: {\"pending\":[\"q1\"]}\n\n",
		func(body []byte) string {
			var in struct {
				Resume []struct {
					Status, Reason string
					Payload        struct{ Approved bool }
				}
			}
			if json.Unmarshal(body, &in) != nil || len(in.Resume) != 1 {
				return ""
			}
			r := in.Resume[0]
			return fmt.Sprintf("event: delta\ndata: {\"text\":\"%s %t %s\"}\n\nevent: done\ndata: {}\n\n", r.Status, r.Payload.Approved, r.Reason)
		}},
	"agui": {httpagent.ProtocolAGUI,
		`data: {"type":"RUN_STARTED","threadId":"$THREAD","runId":"$RUN"}` + "\n\n" +
			`data: {"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"shell"}` + "\n\n" +
			`data: {"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"cmd\":\"ls\"}"}` + "\n\n" +
			`data: {"type":"TOOL_CALL_END","toolCallId":"c1"}` + "\n\n" +
			`data: {"type":"RUN_FINISHED","threadId":"$THREAD","runId":"$RUN","outcome":{"type":"interrupt","interrupts":[{"id":"q1","reason":"tool_call","toolCallId":"c1","message":"ls"}]}}` + "\n\n",
		func(body []byte) string {
			var in struct {
				Resume []struct {
					Status   string
					Payload  struct{ Approved bool }
					Metadata struct{ Reason string }
				}
			}
			if json.Unmarshal(body, &in) != nil || len(in.Resume) != 1 {
				return ""
			}
			r := in.Resume[0]
			return fmt.Sprintf(`data: {"type":"RUN_STARTED","threadId":"$THREAD","runId":"$RUN"}`+"\n\n"+
				`data: {"type":"TEXT_MESSAGE_CHUNK","messageId":"m$RUN","role":"assistant","delta":"%s %t %s"}`+"\n\n"+
				`data: {"type":"RUN_FINISHED","threadId":"$THREAD","runId":"$RUN"}`+"\n\n", r.Status, r.Payload.Approved, r.Metadata.Reason)
		}},
}

// onAskingRoads judges each road on both databases. With forever the agents ask again after any answer.
func onAskingRoads(t *testing.T, p plan, forever bool, judge func(t *testing.T, h *env)) {
	t.Parallel()
	for name, road := range askingRoads {
		t.Run(name, func(t *testing.T) {
			onBothDatabases(t, func(t *testing.T, db database) {
				web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					var in struct{ ThreadID, RunID string }
					_ = json.Unmarshal(body, &in)
					answer := road.answers(body)
					if answer == "" || forever {
						answer = road.asks
					}
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, strings.NewReplacer("$THREAD", in.ThreadID, "$RUN", in.RunID).Replace(answer))
				}))
				t.Cleanup(web.Close)
				p := p
				p.open = db.open
				h := newEnvWith(t, saysN(1), p)
				cfg := atHome(t)
				cfg.ID, cfg.URL, cfg.Protocol = "asking", web.URL, road.protocol
				agent := httpagent.New(cfg)
				h.agents.Add("asking", agent)
				h.agents.SetDefault("asking")
				t.Cleanup(agent.Close)
				judge(t, h)
			})
		})
	}
}

// wordsOf returns the words of frames, and the events about a permission that a reader of the chat gets.
func wordsOf(frames []frame) string {
	var all []string
	for _, f := range frames {
		switch f.typ() {
		case "TEXT_MESSAGE_CONTENT":
			all = append(all, strings.TrimSpace(f.field("delta")))
		case "CUSTOM":
			all = append(all, f.field("name"))
		case "TOOL_CALL_START":
			all = append(all, "+"+f.field("toolCallName"))
		case "RUN_FINISHED":
			if strings.Contains(f.data, `"type":"interrupt"`) {
				all = append(all, "asked")
			}
		case "RUN_ERROR":
			all = append(all, f.data)
		}
	}
	return strings.ReplaceAll(strings.Join(all, ", "), "+shell, ", "") // an AG-UI agent shows its call itself
}

// TestRulesAnswerAgentsThatEnd: a rule that allows or blocks answers an agent that asks and ends, by calling it again; no
// person is asked.
func TestRulesAnswerAgentsThatEnd(t *testing.T) {
	for verdict, want := range map[string]string{"allow": "resolved true", "block": "policy_decision, resolved false"} {
		t.Run(verdict, func(t *testing.T) {
			onAskingRoads(t, plan{rules: `rules: [{name: shells, tool: shell, verdict: ` + verdict + `}]`}, false, func(t *testing.T, h *env) {
				if got := wordsOf(h.chat("T", "R1", "hi")); got != want {
					t.Errorf("the chat reads %q, want %q", got, want)
				}
				if open := strings.Count(h.do("GET", "/api/approvals?status=PENDING", "").body, `"approval_id"`); open != 0 {
					t.Errorf("%d questions are open", open)
				}
			})
		})
	}
}

// TestGrantAnswersAgentsThatEnd: a Grant answers an agent that asks and ends, and each answer uses it once.
func TestGrantAnswersAgentsThatEnd(t *testing.T) {
	onAskingRoads(t, plan{rules: `rules: [{name: nothing, tool: nothing, verdict: block}]`}, false, func(t *testing.T, h *env) {
		if a := h.do("POST", "/api/grants", `{"tool":"shell","match":{"cmd":"ls"},"max_uses":2}`); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
		for i, want := range []string{"resolved true", "resolved true", "+request_permission, asked"} {
			if got := wordsOf(h.chat("T", fmt.Sprint("R", i), "hi")); got != want {
				t.Errorf("prompt %d: the chat reads %q, want %q", i, got, want)
			}
		}
		if open := h.questions(); len(open) != 1 {
			t.Errorf("%d questions are open, want that of the third prompt", len(open))
		}
	})
}

// TestRulesDoNotAnswerForEver: an agent that asks, ends and asks again is answered by a rule a bounded number of times; then
// a person is asked.
func TestRulesDoNotAnswerForEver(t *testing.T) {
	onAskingRoads(t, plan{rules: `rules: [{name: shells, tool: shell, verdict: allow}]`}, true, func(t *testing.T, h *env) {
		if got := wordsOf(h.chat("T", "R1", "hi")); !strings.HasSuffix(got, "+request_permission, asked") {
			t.Errorf("the chat reads %q, want a question", got)
		}
		if open := h.questions(); len(open) != 1 {
			t.Errorf("%d questions are open", len(open))
		}
		page, err := h.store.Approvals(t.Context(), store.System(), store.ApprovalFilter{Status: store.ApprovalApproved}, store.Page{Limit: store.MaxPageLimit})
		if err != nil || len(page) != 100 {
			t.Errorf("a rule answered %d questions of the run, want 100 (%v)", len(page), err)
		}
	})
}

// TestExpiryIsNoPersonsNo checks an agent that is called again after its question expired. It gets the question as cancelled,
// with the reason. The chat, the inbox and the trace show that it expired.
func TestExpiryIsNoPersonsNo(t *testing.T) {
	onAskingRoads(t, plan{bridge: bridge.Limits{ApprovalTTL: 200 * time.Millisecond}}, false, func(t *testing.T, h *env) {
		first := h.chat("T", "R1", "hi")
		if got := wordsOf(first); got != "+request_permission, asked" {
			t.Fatalf("the chat reads %q", got)
		}
		var history string
		eventually(t, func() error {
			if history = h.do("GET", "/api/threads/T/messages", "").body; !strings.Contains(history, "cancelled false expired") {
				return fmt.Errorf("the agent was not called with an expired question: %s", history)
			}
			return nil
		})
		if !strings.Contains(history, `{\"status\":\"expired\"}`) {
			t.Errorf("the chat's history does not say that the question expired: %s", history)
		}
		inbox := h.do("GET", "/api/approvals?status=EXPIRED", "").body
		if !strings.Contains(inbox, `"decided_via":"expiry"`) {
			t.Errorf("the inbox has %s", inbox)
		}
		var turn struct{ TurnID string }
		if err := json.Unmarshal([]byte(h.do("GET", "/api/runs/R1", "").body), &turn); err != nil {
			t.Fatal(err)
		}
		trace := h.do("GET", "/v1/runs/"+turn.TurnID+"/events?limit=1000", "").body
		if !strings.Contains(trace, `"status":"EXPIRED","decision":{"status":"cancelled"},"decided_by":"system","decided_via":"expiry"`) {
			t.Errorf("the trace has %s", trace)
		}
	})
}
