package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/server/auth"
	"aqueduct/store"
)

// sharing is a server with people of two tenants, and ann's thread in which her agent asks.
type sharing struct {
	*env
	tokens                          map[string]string
	thread, session, runID, openAsk string
}

func newSharing(t *testing.T) *sharing { return newSharingOn(t, nil) }

func newSharingOn(t *testing.T, open func(t testing.TB) (store.Store, error)) *sharing {
	t.Helper()
	p, keys := keyed(t)
	p.open = open
	h := &sharing{env: newEnvWith(t, asks, p), tokens: make(map[string]string), thread: "ann-1"}
	for name, who := range map[string]auth.Claims{
		"ann": {Tenant: "acme"}, "bob": {Tenant: "acme"}, "rita": {Tenant: "acme", UserClaims: auth.UserClaims{Roles: []string{"reviewer"}}},
		"dan": {Tenant: "acme"}, "eve": {Tenant: "globex", UserClaims: auth.UserClaims{Roles: []string{"reviewer"}}},
	} {
		who.Type, who.User = auth.TypeUser, name
		h.tokens[name] = issue(t, keys, who, time.Hour)
	}
	h.tokens["bob2"] = issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "globex", UserClaims: auth.UserClaims{User: "bob"}}, time.Hour)
	if got := h.chat("ann", h.thread, "Delete it."); got.status != 200 || !strings.Contains(got.body, "interrupt") {
		t.Fatal(got)
	}
	var thread struct {
		SessionID string
		LastRun   struct{ ID string }
		Questions []string
	}
	if err := json.Unmarshal([]byte(h.by("ann", "GET", "/api/threads/"+h.thread, "").body), &thread); err != nil || len(thread.Questions) != 1 {
		t.Fatal(thread, err)
	}
	h.session, h.runID, h.openAsk = thread.SessionID, thread.LastRun.ID, thread.Questions[0]
	return h
}

func (h *sharing) by(who, method, path, body string, header ...string) answer {
	h.t.Helper()
	return h.do(method, path, body, append(header, "Authorization", "Bearer "+h.tokens[who])...)
}

func (h *sharing) chat(who, thread, text string) answer {
	h.t.Helper()
	return h.by(who, "POST", "/api/agui/chat", fmt.Sprintf(`{"threadId":%q,"runId":"run-%s-%d","protocolVersion":"1.0","state":{},"tools":[],"context":[],
		"forwardedProps":{},"messages":[{"id":"m-%s-%d","role":"user","content":%q}]}`, thread, who, time.Now().UnixNano(), who, time.Now().UnixNano(), text))
}

// share shares ann's thread, and gives the share's id.
func (h *sharing) share(body string) string {
	h.t.Helper()
	got := h.by("ann", "POST", "/api/threads/"+h.thread+"/shares", body)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(got.body), &made); err != nil || got.status != 201 {
		h.t.Fatal(got, err)
	}
	return made.ID
}

const (
	absentID   = "0198c000-0000-7000-8000-00000000dead"
	absentPart = "0000000000000000000000000000000000000000000000000000000000000000"
)

// absent tries every route with ann's ids, which must answer byte for byte as for ids that there are not.
func (h *sharing) absent(who string) {
	h.t.Helper()
	for _, r := range []struct{ method, path, id, body string }{
		{"GET", "/api/threads/%s", h.session, ""}, {"GET", "/api/threads/%s", h.thread, ""},
		{"GET", "/api/threads/%s/messages", h.session, ""}, {"GET", "/api/threads/%s/events", h.session, ""},
		{"GET", "/api/threads/%s/control", h.session, ""}, {"POST", "/api/threads/%s/control", h.session, `{"action":"cancel"}`},
		{"GET", "/api/threads/%s/shares", h.session, ""}, {"POST", "/api/threads/%s/shares", h.session, `{"user":"zoe","rights":["read"]}`},
		{"DELETE", "/api/threads/%s/shares/" + absentID, h.session, ""}, {"GET", "/api/threads/%s/parts/" + absentPart, h.session, ""},
		{"PATCH", "/api/threads/%s", h.session, `{"title":"x"}`}, {"DELETE", "/api/threads/%s", h.session, ""},
		{"GET", "/api/runs/%s", h.runID, ""}, {"GET", "/api/runs/%s/events", h.runID, ""}, {"GET", "/api/runs/%s/events?after=1", h.runID, ""},
		{"GET", "/api/runs/%s/events", h.session, ""}, {"POST", "/api/runs/%s/cancel", h.runID, `{}`},
		{"GET", "/v1/runs/%s/events", h.runID, ""}, {"GET", "/v1/runs/%s/events", h.session, ""}, {"GET", "/v1/sessions/%s/events", h.session, ""},
		{"GET", "/api/approvals/%s", h.openAsk, ""}, {"POST", "/api/approvals/%s/decision", h.openAsk, `{"decision":"approve"}`},
		{"POST", "/api/approvals/%s/delegate", h.openAsk, `{"to":"bob"}`}, {"POST", "/api/approvals/%s/revoke", h.openAsk, `{}`},
		{"POST", "/api/tool_calls/%s/result", h.openAsk, `{"result":{}}`}, {"GET", "/api/approvals?thread_id=%s", h.session, ""},
	} {
		for _, header := range [][]string{nil, {"Accept", "text/event-stream", "Last-Event-ID", "1"}} {
			if header != nil && (r.method != "GET" || strings.Contains(r.path, "thread_id")) {
				continue // the feed of the inbox is endless
			}
			got, want := h.by(who, r.method, fmt.Sprintf(r.path, r.id), r.body, header...), h.by(who, r.method, fmt.Sprintf(r.path, absentID), r.body, header...)
			if got.status != want.status || got.body != want.body || got.status < 400 {
				h.t.Errorf("%s %s %s: %d %s, and for an absent id %d %s", who, r.method, r.path, got.status, got.body, want.status, want.body)
			}
		}
	}
	for _, thread := range []string{h.session, absentID} {
		if got := h.by(who, "POST", "/api/agui/connect", fmt.Sprintf(`{"threadId":%q,"runId":"r","protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{},"messages":[]}`, thread)); got.status != 404 {
			h.t.Errorf("%s joins %s: %d %s", who, thread, got.status, got.body)
		}
	}
	for _, cursor := range []string{h.session, absentID} {
		if got := h.by(who, "GET", "/api/threads?after="+cursor, ""); got.status != 200 || !strings.Contains(got.body, `"threads":[]`) {
			h.t.Errorf("%s lists behind %s: %d %s", who, cursor, got.status, got.body)
		}
	}
	for _, with := range []string{`"parentRunId":"` + h.runID + `",`, `"resume":[{"interruptId":"` + h.openAsk + `","status":"resolved","payload":{"approved":true}}],`} {
		got := h.by(who, "POST", "/api/agui/chat", fmt.Sprintf(`{"threadId":"own-%s","runId":"r-%d",%s"protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{},"messages":[]}`, who, time.Now().UnixNano(), with))
		if strings.Contains(got.body, "Delete it") || strings.Contains(got.body, "APPROVED") {
			h.t.Errorf("%s with %s: %s", who, with, got.body)
		}
	}
	if strings.Contains(h.by(who, "GET", "/api/threads", "").body, h.session) {
		h.t.Errorf("%s has ann's thread in the list", who)
	}
}

// TestS11ForeignIDs: ids of others are as absent ones, on every route and wherever a body or a header names one: before a thread
// is shared, while it is shared with a third user, and after it has been.
func TestS11ForeignIDs(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, foreignIDs)
}

func foreignIDs(t *testing.T, db database) {
	h := newSharingOn(t, db.open)
	for _, who := range []string{"bob", "rita", "eve", "bob2"} {
		h.absent(who)
	}
	toBob := h.share(`{"user":"bob","rights":["read"]}`)
	if got := h.by("ann", "GET", "/api/threads/"+h.thread+"/shares", ""); got.status != 200 || !strings.Contains(got.body, toBob) {
		t.Errorf("the owner's list: %d %s", got.status, got.body)
	}
	toRole := h.share(`{"role":"reviewer","rights":["read","decide"]}`)
	for _, who := range []string{"dan", "eve", "bob2"} {
		h.absent(who)
	}
	for id, who := range map[string]string{toBob: "bob", toRole: "rita"} {
		if got := h.by(who, "GET", "/api/threads/"+h.session, ""); got.status != 200 {
			t.Errorf("%s: %d %s", who, got.status, got.body)
		}
		if got := h.by("ann", "DELETE", "/api/threads/"+h.thread+"/shares/"+id, ""); got.status != 204 {
			t.Errorf("%d %s", got.status, got.body)
		}
		h.absent(who)
	}
	a, err := h.store.Approval(t.Context(), store.System(), h.openAsk)
	if err != nil || a.Status != store.ApprovalPending {
		t.Errorf("the question is %s: %v", a.Status, err)
	}
}

// TestSharedRights: each right lets in what it names, and no more.
func TestSharedRights(t *testing.T) {
	t.Parallel()
	h := newSharing(t)
	h.share(`{"user":"bob","rights":["read"]}`)
	h.share(`{"user":"dan","rights":["write"]}`)
	h.share(`{"role":"reviewer","rights":["decide"]}`)
	reads := []string{
		"/api/threads/" + h.session, "/api/threads/" + h.session + "/messages", "/api/threads/" + h.session + "/control",
		"/api/runs/" + h.runID, "/api/runs/" + h.runID + "/events", "/v1/runs/" + h.runID + "/events", "/v1/sessions/" + h.session + "/events", "/v1/runs/" + h.session + "/events",
		"/api/runs/" + h.session + "/events",
	}
	for who, rights := range map[string]string{"bob": `["read"]`, "dan": `["read","write"]`, "rita": `["read","decide"]`} {
		for _, path := range reads {
			if got := h.by(who, "GET", path, ""); got.status != 200 {
				t.Errorf("%s GET %s: %d %s", who, path, got.status, got.body)
			}
		}
		list := h.by(who, "GET", "/api/threads", "").body
		if !strings.Contains(list, `"id":"`+h.session+`"`) || !strings.Contains(list, `"shared":{"owner":"ann","rights":`+rights+`}`) {
			t.Errorf("%s lists %s", who, list)
		}
		for _, r := range [][3]string{
			{"PATCH", "/api/threads/" + h.session, `{"title":"x"}`}, {"DELETE", "/api/threads/" + h.session, ""},
			{"GET", "/api/threads/" + h.session + "/shares", ""}, {"POST", "/api/threads/" + h.session + "/shares", `{"user":"eve","rights":["read"]}`},
		} {
			if got := h.by(who, r[0], r[1], r[2]); got.status != 403 || !strings.Contains(got.body, "share_forbidden") {
				t.Errorf("%s %s %s: %d %s", who, r[0], r[1], got.status, got.body)
			}
		}
		connect := h.by(who, "POST", "/api/agui/connect", fmt.Sprintf(`{"threadId":%q,"runId":"c","protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{},"messages":[]}`, h.session))
		if connect.status != 200 || !strings.Contains(connect.body, "Delete it.") {
			t.Errorf("%s joins: %d %s", who, connect.status, connect.body)
		}
		// Approvals are for who may decide.
		want := 404
		if who == "rita" {
			want = 200
		}
		if got := h.by(who, "GET", "/api/approvals/"+h.openAsk, ""); got.status != want {
			t.Errorf("%s sees the approval: %d", who, got.status)
		}
		if who != "rita" {
			if got := h.by(who, "POST", "/api/approvals/"+h.openAsk+"/decision", `{"decision":"approve"}`); got.status != 404 {
				t.Errorf("%s decides: %d %s", who, got.status, got.body)
			}
			got := h.by(who, "POST", "/api/agui/chat", fmt.Sprintf(`{"threadId":%q,"runId":"a-%s","protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{},"messages":[],
				"resume":[{"interruptId":%q,"status":"resolved","payload":{"approved":true}}]}`, h.session, who, h.openAsk))
			if !strings.Contains(got.body, "not_approver") {
				t.Errorf("%s answers in the chat: %s", who, got.body)
			}
		}
	}
	for _, who := range []string{"bob", "rita"} {
		if got := h.chat(who, h.session, "Mine."); got.status != 403 || !strings.Contains(got.body, "share_forbidden") {
			t.Errorf("%s writes: %d %s", who, got.status, got.body)
		}
		if got := h.by(who, "POST", "/api/runs/"+h.runID+"/cancel", `{}`); got.status != 403 {
			t.Errorf("%s cancels: %d %s", who, got.status, got.body)
		}
	}
	if got := h.by("rita", "POST", "/api/approvals/"+h.openAsk+"/decision", `{"decision":"approve"}`); got.status != 200 || !strings.Contains(got.body, `"decided_by":"rita"`) {
		t.Errorf("rita decides: %d %s", got.status, got.body)
	}
}

// TestSharedPrompter: who writes in a thread of others is who prompted. With four eyes that is who may not approve, and
// the thread's owner may.
func TestSharedPrompter(t *testing.T) {
	t.Parallel()
	p, keys := keyed(t)
	p.rules = "rules:\n  - {name: rm, tool: rm, verdict: require_approval, four_eyes: true}\n"
	h := &sharing{env: newEnvWith(t, asks, p), tokens: make(map[string]string), thread: "ann-1"}
	for _, name := range []string{"ann", "bob"} {
		h.tokens[name] = issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: name}}, time.Hour)
	}
	h.chat("ann", h.thread, "First.")
	h.share(`{"user":"bob","rights":["write","decide"]}`)
	pending := func() (id string) {
		var list struct {
			Approvals []struct {
				ApprovalID string `json:"approval_id"`
			}
		}
		if err := json.Unmarshal([]byte(h.by("ann", "GET", "/api/approvals?status=PENDING", "").body), &list); err != nil || len(list.Approvals) != 1 {
			t.Fatal(list, err)
		}
		return list.Approvals[0].ApprovalID
	}
	decide := func(who, id string) answer {
		return h.by(who, "POST", "/api/approvals/"+id+"/decision", `{"decision":"approve"}`)
	}
	first := pending()
	if got := decide("ann", first); got.status != 403 || !strings.Contains(got.body, "four_eyes") {
		t.Errorf("ann approves what she prompted: %d %s", got.status, got.body)
	}
	var thread struct{ SessionID string }
	_ = json.Unmarshal([]byte(h.by("ann", "GET", "/api/threads/"+h.thread, "").body), &thread)
	// In the chat, whose response ends when the agent has gone on.
	got := h.by("bob", "POST", "/api/agui/chat", fmt.Sprintf(`{"threadId":%q,"runId":"a","protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{},"messages":[],
		"resume":[{"interruptId":%q,"status":"resolved","payload":{"approved":true}}]}`, thread.SessionID, first))
	if got.status != 200 || !strings.Contains(got.body, `"success"`) {
		t.Fatalf("bob: %d %s", got.status, got.body)
	}
	if got := h.chat("bob", thread.SessionID, "Second."); got.status != 200 || !strings.Contains(got.body, "interrupt") {
		t.Fatal(got)
	}
	second := pending()
	if got := decide("bob", second); got.status != 403 || !strings.Contains(got.body, "four_eyes") {
		t.Errorf("bob approves what he prompted: %d %s", got.status, got.body)
	}
	if got := decide("ann", second); got.status != 200 {
		t.Errorf("ann: %d %s", got.status, got.body)
	}
}

// shareCases are the refusals of what is shared, or would be.
func shareCases(t *testing.T, cases map[string]func() answer) {
	cases["share_forbidden"] = func() answer {
		h := newSharing(t)
		h.share(`{"user":"bob","rights":["read"]}`)
		return h.by("bob", "DELETE", "/api/threads/"+h.session, "")
	}
	cases["too_many_shares"] = func() answer {
		h := newSharing(t)
		err := h.store.InTx(t.Context(), func(tx store.Tx) error {
			for i := range 99 {
				name := fmt.Sprintf("user:u%d", i)
				if err := tx.PutShare(t.Context(), store.Share{ID: uuid.NewString(), SessionID: h.session, Tenant: "acme", To: name, CreatedBy: "ann", CreatedAt: time.Now()}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		h.share(`{"user":"bob","rights":["read"]}`) // the last that may be
		return h.by("ann", "POST", "/api/threads/"+h.thread+"/shares", `{"user":"dan","rights":["read"]}`)
	}
}
