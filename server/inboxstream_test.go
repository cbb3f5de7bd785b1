package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge/approval/audit"
	"aqueduct/server/auth"
	"aqueduct/server/limit"
	"aqueduct/store"
)

// office is an env in which many people may decide, each with a token.
type office struct {
	*env
	keys *auth.Keys
	open int // questions asked so far
}

const payRules = `
rules:
  - {name: pay, tool: rm, verdict: require_approval, approvers: ["user:bob", "role:treasurer"]}
templates:
  wood:
    ttl: 8h
    reason: For the toolEnv.
    grants: [{tool: cut, match: {wood: oak}, uses: 2, kind: execute}, {tool: saw, match: {"*": true}}]
`

func newOffice(t *testing.T, rules string, limits limit.Limits) *office {
	t.Helper()
	p, keys := keyed(t)
	p.rules, p.limits = rules, limits
	return &office{env: newEnvWith(t, asks, p), keys: keys}
}

// bearer is the header of a user of the tenant acme with roles, as pairs.
func (o *office) bearer(user string, roles ...string) []string {
	o.t.Helper()
	return []string{"Authorization", "Bearer " + issue(o.t.(*testing.T), o.keys, auth.Claims{
		Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: user, Roles: roles}}, time.Hour)}
}

func (o *office) approver(tenant string) []string {
	o.t.Helper()
	return []string{"Authorization", "Bearer " + issue(o.t.(*testing.T), o.keys, auth.Claims{
		Type: auth.TypeApprover, Tenant: tenant, UserClaims: auth.UserClaims{User: "eve"}}, time.Hour)}
}

// ask has an agent of the user's ask in a new thread, and gives the question's id.
func (o *office) ask(user string) string {
	o.t.Helper()
	o.open++
	thread := fmt.Sprintf("thread-%d", o.open)
	req := o.prompt(thread, thread+"-run", "may I?")
	req.Header.Set("Authorization", o.bearer(user)[1])
	o.env.open(req).rest()
	rows, err := o.store.Approvals(o.t.Context(), store.System(), store.ApprovalFilter{}, store.Page{Limit: 1})
	if err != nil || len(rows) != 1 {
		o.t.Fatal(rows, err)
	}
	return rows[0].ID
}

// feed opens the inbox as a stream.
func (o *office) feed(who []string, query, last string) *reader {
	o.t.Helper()
	req := o.request("GET", "/api/approvals"+query, "", who...)
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	return o.env.open(req)
}

// expect reads the next frame of a feed.
func (r *reader) expect(kind, id string) frame {
	r.t.Helper()
	f, err := r.next()
	if err != nil || f.event != kind || f.field("type") != kind || id != "" && f.field("approval_id") != id {
		r.t.Fatalf("%v, want %s of %s: %+v", err, kind, id, f)
	}
	return f
}

// synced reads the frame after which all is live, and compares what is open.
func (r *reader) synced(open ...string) frame {
	r.t.Helper()
	f := r.expect("inbox_synced", "")
	var got struct{ Open []string }
	if err := json.Unmarshal([]byte(f.data), &got); err != nil || fmt.Sprint(got.Open) != fmt.Sprint(open) && len(open)+len(got.Open) > 0 {
		r.t.Fatalf("%v open: %s, want %v", err, f.data, open)
	}
	if f.id == "" {
		r.t.Fatal("no position")
	}
	return f
}

// TestS42InboxShowsAnotherPolicy: whoever watches the inbox is told that another policy is in force, with the hashes of both.
func TestS42InboxShowsAnotherPolicy(t *testing.T) {
	t.Parallel()
	o := newOffice(t, payRules, limit.Limits{})
	feed := o.feed(o.bearer("alice"), "", "")
	feed.synced()
	for _, sha256 := range []string{"one", "two"} {
		if err := audit.PolicyInForce(t.Context(), o.store, sha256, func(audit.Policy) []store.OutboxItem { return nil }); err != nil {
			t.Fatal(err)
		}
		if f := feed.expect("policy_changed", ""); f.field("after_sha256") != sha256 || f.field("before_sha256") != map[string]string{"two": "one"}[sha256] {
			t.Errorf("%+v", f)
		}
	}
}

// TestInboxStream: every user who may decide receives each question when it is opened and when it is
// settled: its owner, those whom the policy names, by name or by role, an approver, and one to
// whom it is delegated. Others receive nothing.
func TestInboxStream(t *testing.T) {
	t.Parallel()
	o := newOffice(t, payRules, limit.Limits{})
	first := o.ask("alice")
	people := map[string][]string{
		"owner": o.bearer("alice"), "named": o.bearer("bob"), "role": o.bearer("tess", "dev", "treasurer"), "approver": o.approver("acme"),
	}
	others := map[string][]string{"colleague": o.bearer("carl", "dev"), "other tenant": o.approver("other")}
	feeds := make(map[string]*reader)
	for name, who := range people {
		feeds[name] = o.as(t).feedOf(o, who)
		f := feeds[name].expect("approval_opened", first)
		if may := name == "named" || name == "role"; f.id != "" || strings.Contains(f.data, `"may_approve":true`) != may || f.field("thread_id") != "thread-1" ||
			f.field("user") != "alice" || f.field("status") != "PENDING" {
			t.Errorf("%s: %+v", name, f)
		}
		feeds[name].synced(first)
	}
	for name, who := range others {
		feeds[name] = o.feed(who, "", "")
		feeds[name].synced()
	}
	second := o.ask("alice")
	for name := range people {
		if f := feeds[name].expect("approval_opened", second); f.id == "" {
			t.Errorf("%s: no position in %s", name, f.data)
		}
	}
	if got := o.do("POST", "/api/approvals/"+first+"/decision", `{"decision":"approve"}`, people["named"]...); got.status != http.StatusOK {
		t.Fatal(got.status, got.body)
	}
	for name := range people {
		if f := feeds[name].expect("approval_settled", first); f.field("status") != "APPROVED" || f.field("decided_by") != "bob" || f.id == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
	// Delegated: the colleague receives it, and its end; taken back it is gone.
	delegate := func(to string) {
		t.Helper()
		if got := o.do("POST", "/api/approvals/"+second+"/delegate", fmt.Sprintf(`{"to":%q}`, to), people["owner"]...); got.status != http.StatusOK {
			t.Fatal(got.status, got.body)
		}
	}
	delegate("carl")
	feeds["colleague"].expect("approval_opened", second)
	feeds["owner"].expect("approval_opened", second)
	delegate("")
	feeds["colleague"].expect("approval_gone", second)
	if got := o.do("POST", "/api/approvals/"+second+"/decision", `{"decision":"reject"}`, others["colleague"]...); got.status != http.StatusNotFound {
		t.Error(got.status, got.body)
	}
	// What the others receive next is not of alice's questions.
	third := o.ask("carl")
	feeds["colleague"].expect("approval_opened", third)
}

func (h *env) feedOf(o *office, who []string) *reader { return o.feed(who, "", "") }

// TestInboxStreamResumes: who comes back with the last position has missed nothing and gets
// nothing twice, whatever happened meanwhile.
func TestInboxStreamResumes(t *testing.T) {
	t.Parallel()
	o := newOffice(t, payRules, limit.Limits{})
	bob := o.bearer("bob")
	first := o.ask("alice")
	feed := o.feed(bob, "", "")
	feed.expect("approval_opened", first)
	last := feed.synced(first).id
	feed.close()
	second := o.ask("alice")
	decide := func(id, decision string) {
		t.Helper()
		if got := o.do("POST", "/api/approvals/"+id+"/decision", fmt.Sprintf(`{"decision":%q}`, decision), bob...); got.status != http.StatusOK {
			t.Fatal(got.status, got.body)
		}
	}
	decide(first, "approve")
	third := o.ask("alice")
	decide(third, "reject") // opened and settled while the client was away
	seen := map[string]string{}
	feed = o.feed(bob, "", last)
	for len(seen) < 5 { // two ends and two openings, and the frame that ends the list
		f, err := feed.next()
		if err != nil {
			t.Fatal(err)
		}
		if f.event == "approval_opened" && f.field("status") != "PENDING" {
			t.Errorf("opened as %s", f.data)
		}
		key := f.event + f.field("approval_id")
		if seen[key] != "" {
			t.Errorf("twice: %s", f.data)
		}
		if seen[key] = f.id; f.id != "" {
			last = f.id
		}
	}
	for _, want := range []string{"approval_opened" + second, "approval_settled" + first, "approval_opened" + third, "approval_settled" + third, "inbox_synced"} {
		if _, is := seen[want]; !is {
			t.Errorf("%s is missing in %v", want, seen)
		}
	}
	feed.close()
	again := o.feed(bob, "", last)
	again.synced(second)
	decide(second, "reject")
	again.expect("approval_settled", second)
	for position, want := range map[string]string{"999999": "beyond_log", "x": "invalid_cursor", "-1": "invalid_cursor"} {
		got := o.do("GET", "/api/approvals", "", append(bob, "Accept", "text/event-stream", "Last-Event-ID", position)...)
		if fields(t, got)["code"] != want {
			t.Errorf("%s: %d %s", position, got.status, got.body)
		}
	}
	if got := o.do("GET", "/api/approvals?status=PENDING", "", append(bob, "Accept", "text/event-stream")...); fields(t, got)["code"] != "invalid_query" {
		t.Error(got.status, got.body)
	}
}

// TestInboxStreamFilters: a stream can be narrowed to a thread.
func TestInboxStreamFilters(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "", limit.Limits{})
	o.ask("alice")
	second := o.ask("alice")
	feed := o.feed(o.bearer("alice"), "?thread_id=thread-2", "")
	feed.expect("approval_opened", second)
	feed.synced(second)
}

// TestInboxStreamStaysOpen: silence is filled with comments, and the stream ends with the token.
func TestInboxStreamStaysOpen(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "", limit.Limits{Heartbeat: 20 * time.Millisecond})
	token := issue(t, o.keys, auth.Claims{Type: auth.TypeApprover, Tenant: "acme", UserClaims: auth.UserClaims{User: "eve"}}, 5*time.Second)
	feed := o.feed([]string{"Authorization", "Bearer " + token}, "", "")
	feed.synced()
	if f, err := feed.next(); err == nil {
		t.Errorf("heard %+v", f)
	}
	if feed.comments == 0 {
		t.Error("no heartbeat")
	}
}

// TestInboxLists: GET /api/approvals lists what its stream shows.
func TestInboxLists(t *testing.T) {
	t.Parallel()
	o := newOffice(t, payRules, limit.Limits{})
	id := o.ask("alice")
	for name, c := range map[string]struct {
		who  []string
		want bool
	}{
		"owner": {o.bearer("alice"), true}, "named": {o.bearer("bob"), true}, "role": {o.bearer("tess", "treasurer"), true},
		"approver": {o.approver("acme"), true}, "colleague": {o.bearer("carl"), false}, "other tenant": {o.approver("other"), false},
	} {
		if got := o.do("GET", "/api/approvals", "", c.who...); strings.Contains(got.body, id) != c.want {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		if got := o.do("GET", "/api/approvals/"+id, "", c.who...); (got.status == http.StatusOK) != c.want {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
}

// TestPermissionInbox: a permission socket without a session shows what the caller may decide in
// any thread, and takes the answers.
func TestPermissionInbox(t *testing.T) {
	t.Parallel()
	o := newOffice(t, payRules, limit.Limits{})
	for i, path := range []string{"/ws/permissions", "/agent_backend/ws"} {
		first := o.ask("alice")
		bob, approver, carl := o.permissions(path, o.bearer("bob")...), o.permissions(path, o.approver("acme")...), o.permissions(path, o.bearer("carl")...)
		for name, page := range map[string]*permissions{"bob": bob, "approver": approver} {
			m := page.next("agent_tool_permission_request")
			if m.Data.ExecutionID != first || m.Data.SessionID != fmt.Sprintf("thread-%d", 2*i+1) || m.Data.ToolName != "rm" {
				t.Errorf("%s: %s", name, m.raw)
			}
		}
		second := o.ask("alice")
		for name, page := range map[string]*permissions{"bob": bob, "approver": approver} {
			if m := page.next("agent_tool_permission_request"); m.Data.ExecutionID != second {
				t.Errorf("%s: %s", name, m.raw)
			}
		}
		if m := bob.status(); len(m.Data.Pending) != 2 || m.Data.State != "WAITING_APPROVAL" {
			t.Error(m.raw)
		}
		approver.respond(first, `"approved":true`) // whom the policy does not name
		if m := approver.next("error"); m.Data.Code != "not_approver" || m.Data.ExecutionID != first {
			t.Error(m.raw)
		}
		carl.respond(first, `"approved":true`)
		if m := carl.next("error"); m.Data.Code != "not_found" {
			t.Error(m.raw)
		}
		bob.respond(first, `"approved":true`)
		approver.respond(second, `"approved":false`)
		for _, page := range []*permissions{bob, approver} {
			got := map[string]string{}
			for range 2 {
				raw, err := receive(page.conn)
				var m permissionTold
				if err != nil || json.Unmarshal(raw, &m) != nil {
					t.Fatal(err, string(raw))
				}
				got[m.Data.ExecutionID] = m.Type + " " + m.Data.Status + " " + m.Data.OptionID + " " + m.Data.DecidedVia
			}
			if got[first] != "agent_tool_execution_result APPROVED yes permissions" || got[second] != "agent_tool_permission_denied REJECTED no permissions" {
				t.Error(got)
			}
		}
		if m := carl.status(); len(m.Data.Pending) != 0 || m.Data.State != "IDLE" {
			t.Error(m.raw)
		}
	}
}

// TestPermissionSocketOfOthers: a user who may decide in another user's thread may open its socket, by the thread's id or
// the server's.
func TestPermissionSocketOfOthers(t *testing.T) {
	t.Parallel()
	o := newOffice(t, payRules, limit.Limits{})
	other := o.ask("alice")
	id := o.ask("alice")
	s, err := o.store.SessionByExternalID(t.Context(), store.Within("acme"), "thread-2")
	if err != nil {
		t.Fatal(err)
	}
	byName, byID := o.permissions("/ws/permissions/thread-2", o.approver("acme")...), o.permissions("/ws/permissions/"+s.ID, o.bearer("bob")...)
	for _, page := range []*permissions{byName, byID} {
		if m := page.next("agent_tool_permission_request"); m.Data.ExecutionID != id || m.Data.SessionID != "thread-2" {
			t.Error(m.raw)
		}
		if m := page.status(); len(m.Data.Pending) != 1 || m.Data.State != "WAITING_APPROVAL" {
			t.Error(m.raw)
		}
		page.respond(other, `"approved":false`) // not of this thread
		if m := page.next("error"); m.Data.Code != "not_found" {
			t.Error(m.raw)
		}
	}
	byID.respond(id, `"approved":true`)
	for _, page := range []*permissions{byName, byID} {
		if m := page.next("agent_tool_execution_result"); m.Data.Status != "APPROVED" {
			t.Error(m.raw)
		}
	}
	byID.respond(id, `"approved":true`) // the same again
	if m := byID.next("agent_tool_execution_result"); m.Data.Status != "APPROVED" {
		t.Error(m.raw)
	}
}

// TestThreadHints: a page gets hints of what is asked and settled and which threads changed, whatever kind of agent a thread
// has.
func TestThreadHints(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	conn := h.watch("")
	h.chat("T", "R", "may I?")
	id := h.question()
	heard := func(want ...string) {
		t.Helper()
		for missing := len(want); missing > 0; {
			raw, err := receive(conn)
			if err != nil {
				t.Fatal(err, want)
			}
			for i, w := range want {
				if w != "" && strings.HasPrefix(string(raw), w) {
					want[i] = ""
					missing--
				}
			}
		}
	}
	session := h.sessionOf("T")
	heard(fmt.Sprintf(`{"type":"approval_opened","run_id":%q,"thread_id":"T","approval_id":%q,"kind":"permission","status":"PENDING","tool_name":"rm"`, session, id),
		fmt.Sprintf(`{"type":"thread_changed","run_id":%q,"thread_id":"T"`, session))
	h.decide(id, `{"decision":"approve"}`)
	heard(fmt.Sprintf(`{"type":"approval_settled","run_id":%q,"thread_id":"T","approval_id":%q,"kind":"permission","status":"APPROVED"`, session, id))
	h.do("PATCH", "/api/threads/T", `{"title":"Renamed"}`)
	heard(fmt.Sprintf(`{"type":"thread_changed","run_id":%q,"thread_id":"T","agent_id":"scripted","title":"Renamed"`, session))
}
