package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/approval/audit"
	"aqueduct/store"
)

// deeds are the actions of the whole audit, each with its actor.
func (h *env) deeds() []string {
	h.t.Helper()
	all, err := h.store.Audit(h.t.Context(), store.System(), 0, 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	var deeds []string
	for _, e := range all {
		deeds = append(deeds, e.Action+" by "+e.Actor)
	}
	return deeds
}

// TestEveryDeedIsAudited: every settlement of a question, by a person or by the server, and what comes before and after it.
func TestEveryDeedIsAudited(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, highRisk, func(w *toolEnv, c bridge.Call) string {
		return brief(w.settled(c, w.invoke(c, "cut", `{"wood":"oak"}`)))
	})
	w.chat("T", "R", "go")
	w.decide(w.question(), `{"decision":"approve"}`)
	<-w.said
	w.chat("C", "RC", "go")
	w.question()
	w.do("POST", "/api/runs/RC/cancel", "{}")
	<-w.said
	grant := fields(t, w.do("POST", "/api/grants", `{"tool":"cut","match":{"wood":{"one_of":["oak"]}},"max_uses":1}`))
	w.chat("G", "RG", "go")
	<-w.said
	if grants, ok := grant["grants"].([]any); ok && len(grants) == 1 {
		w.do("DELETE", fmt.Sprintf("/api/grants/%v", grants[0].(map[string]any)["grant_id"]), "")
	}
	w.do("DELETE", "/v1/tools/cut", "")
	got := w.deeds()
	for _, want := range []string{
		audit.ToolRegistered + " by local", audit.ApprovalDecided + " by local", audit.ApprovalCancelled + " by local",
		audit.GrantCreated + " by local", audit.GrantUsed + " by system", audit.GrantRevoked + " by local", audit.ToolRemoved + " by local",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not in the audit: %v", want, got)
		}
	}
	if head, err := audit.Verify(t.Context(), w.store); err != nil || int(head.Seq) != len(got) {
		t.Errorf("%+v %v", head, err)
	}
}

// TestRefusedDecisionIsAudited: an attempt of a user who may not decide.
func TestRefusedDecisionIsAudited(t *testing.T) {
	t.Parallel()
	w, id := asking(t, `{"verdict":"require_approval","four_eyes":true}`)
	w.decide(id, `{"decision":"approve"}`)
	if got := w.deeds(); !slices.Contains(got, audit.ApprovalRefused+" by local") {
		t.Errorf("%v", got)
	}
}

// TestEndRunHoweverItFails: a tool that ends its run when it fails does so blocked, rejected, and without a client to run it.
func TestEndRunHoweverItFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool   string
		reject bool
	}{
		"blocked":  {`{"name":"x","kind":"client_tool","on_failure":"end_run","policy":{"verdict":"block"}}`, false},
		"offline":  {`{"name":"x","kind":"client_tool","on_failure":"end_run","policy":{"verdict":"allow"}}`, false},
		"rejected": {`{"name":"x","kind":"client_tool","on_failure":"end_run","policy":{"verdict":"require_approval"}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left := make(chan struct{})
			w := newToolEnv(t, highRisk, func(w *toolEnv, c bridge.Call) string {
				if name == "offline" {
					<-left // the only client has gone
				}
				return brief(w.settled(c, w.invoke(c, "x", `{}`)))
			})
			if got := w.do("POST", "/v1/tools", c.tool); got.status != 200 {
				t.Fatal(got.status, got.body)
			}
			s := w.open(w.request("POST", "/api/agui/chat", inputBody("T", "R", "go")))
			if _, err := s.next(); err != nil {
				t.Fatal(err)
			}
			if name == "offline" {
				s.resp.Body.Close()
				close(left)
			}
			bell := time.NewTicker(5 * time.Millisecond)
			defer bell.Stop()
			for range bell.C {
				rows, err := w.store.Approvals(t.Context(), store.System(), store.ApprovalFilter{Status: store.ApprovalPending}, store.Page{})
				if err != nil {
					t.Fatal(err)
				}
				if len(rows) > 0 {
					w.decide(rows[0].ID, `{"decision":"reject"}`)
				}
				run, err := w.store.FindRun(t.Context(), store.System(), "R")
				if err != nil {
					t.Fatal(err)
				}
				turn, err := w.store.Turn(t.Context(), store.System(), run.TurnID)
				if err != nil {
					t.Fatal(err)
				}
				if turn.Status.Terminal() {
					if turn.ErrorCode != "tool_failed" {
						t.Errorf("the turn ended %s %q %q", turn.Status, turn.ErrorCode, turn.ErrorMessage)
					}
					return
				}
			}
		})
	}
}

// TestRevokeBeforeDelivery: an agent that ended to wait for two answers has not received the first: it can be taken back, the
// record has that, and the agent receives a cancellation.
func TestRevokeBeforeDelivery(t *testing.T) {
	t.Parallel()
	delivered := make(chan []approval.Delivery, 1)
	h := newEnv(t, func(_ context.Context, say func(...bridge.Output), _ bridge.Call, answers []approval.Delivery) {
		if answers == nil {
			say(permission("q1"), permission("q2"))
			return
		}
		delivered <- answers
	})
	h.chat("T", "R", "may I?")
	var list struct {
		Approvals []struct {
			ID string `json:"approval_id"`
		}
	}
	if json.Unmarshal([]byte(h.do("GET", "/api/approvals?status=PENDING", "").body), &list) != nil || len(list.Approvals) != 2 {
		t.Fatalf("%+v", list)
	}
	first, second := list.Approvals[1].ID, list.Approvals[0].ID
	h.decide(first, `{"decision":"approve"}`)
	if got := h.do("POST", "/api/approvals/"+first+"/revoke", `{}`); got.status >= 300 {
		t.Fatal(got.status, got.body)
	}
	if got := h.do("GET", "/api/approvals/"+first, "").body; !strings.Contains(got, `"CANCELLED"`) || !strings.Contains(got, `"revoke"`) {
		t.Error(got)
	}
	h.decide(second, `{"decision":"approve"}`)
	answers := <-delivered
	if len(answers) != 2 || answers[0].Status != "cancelled" || answers[1].Status != "resolved" {
		t.Errorf("%+v", answers)
	}
}
