package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// transcriptPage is an answer of GET /v1/sessions/{id}/messages.
type transcriptPage struct {
	Messages []agui.Message
	HasMore  bool `json:"has_more"`
	Before   string
}

// transcript reads a page, as who the header shows.
func (h *env) transcript(id, query string, header ...string) (p transcriptPage) {
	h.t.Helper()
	a := h.do("GET", "/v1/sessions/"+id+"/messages"+query, "", header...)
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.status != http.StatusOK {
		h.t.Fatal(a.status, a.body)
	}
	return p
}

// appends posts one message.
func (h *env) appends(id, message string, header ...string) answer {
	h.t.Helper()
	return h.do("POST", "/v1/sessions/"+id+"/messages", `{"message":`+message+`}`, header...)
}

// written is what was written, in order.
func written(messages []agui.Message) string {
	var all []string
	for _, m := range messages {
		all = append(all, m.Role+":"+m.Content.String())
	}
	return strings.Join(all, " ")
}

// joined are the messages that a client has which connects to the thread now: of the snapshot, and of what follows.
func (h *env) joined(thread string) string {
	h.t.Helper()
	return folded(h.t, h.open(h.request("POST", "/api/agui/connect", fmt.Sprintf(`{"threadId":%q,"protocolVersion":"1.0"}`, thread))).rest())
}

func folded(t testing.TB, frames []frame) string {
	t.Helper()
	fold := agui.NewFold(nil)
	for _, f := range frames {
		if err := fold.ApplyJSON([]byte(f.data)); err != nil {
			t.Fatal(err)
		}
	}
	return written(fold.Messages())
}

// history is the thread's history as pages load it.
func (h *env) history(thread string) string {
	h.t.Helper()
	var list []agui.Message
	if a := h.do("GET", "/api/threads/"+thread+"/messages?format=agui", ""); json.Unmarshal([]byte(a.body), &list) != nil {
		h.t.Fatal(a)
	}
	return written(list)
}

// everywhere checks that each reader of the thread has these messages.
func (h *env) everywhere(thread, want string) {
	h.t.Helper()
	for who, got := range map[string]string{
		"transcript": written(h.transcript(thread, "").Messages), "history": h.history(thread), "join": h.joined(thread),
	} {
		if got != want {
			h.t.Errorf("%s has %q, want %q", who, got, want)
		}
	}
}

// summing is an agent that writes, appends a message in its own Turn, reads the transcript, and writes on in the message it
// had begun.
type summing struct {
	h    *env
	gate chan struct{} // it waits for this after it has appended
	made chan answer
	read chan transcriptPage
}

func (a *summing) work(ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
	id := "m-" + call.TurnID
	say(event(&agui.TextMessageStart{MessageID: id, Role: agui.RoleAssistant}), event(&agui.TextMessageContent{MessageID: id, Delta: "before"}))
	if len(call.Prompt) > 0 && call.Prompt[0].Content.String() == "sum" {
		token := bearerOf(call.RunToken)
		a.made <- a.h.appends(call.SessionID, `{"id":"sum","role":"assistant","content":"summary"}`, token...)
		a.read <- a.h.transcript(call.ThreadID, "", token...)
		select {
		case <-a.gate:
		case <-ctx.Done():
		}
	}
	say(event(&agui.TextMessageContent{MessageID: id, Delta: "after"}), event(&agui.TextMessageEnd{MessageID: id}))
}

func newSumming(t *testing.T, p plan) *summing {
	t.Helper()
	a := &summing{gate: make(chan struct{}), made: make(chan answer, 1), read: make(chan transcriptPage, 1)}
	a.h = newEnvWith(t, a.work, p)
	return a
}

// TestAppendedInTheAgentsOwnTurn: a message that an agent appends while it writes stands where it was written, once, for the
// client that reads along, for the agent, for one that joins the Run, one that comes later, and for the next Turn.
func TestAppendedInTheAgentsOwnTurn(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		a := newSumming(t, plan{open: db.open})
		h := a.h
		live := h.open(h.prompt("T", "R1", "sum"))
		made := <-a.made
		if made.status != http.StatusCreated || !strings.Contains(made.body, `"position":"`) || !strings.Contains(made.body, `"content":"summary"`) {
			t.Fatal(made)
		}
		if got := written((<-a.read).Messages); got != "user:sum assistant:before assistant:summary" {
			t.Errorf("the agent reads %q", got)
		}
		if got := h.history("T"); got != "user:sum" { // the Run's stream has the rest from its beginning
			t.Errorf("the history while the Run is open: %q", got)
		}
		joins := h.open(h.request("POST", "/api/agui/connect", `{"threadId":"T","protocolVersion":"1.0"}`))
		begun, err := joins.until(func(f frame) bool { return f.field("messageId") == "sum" && f.typ() == "TEXT_MESSAGE_END" })
		if err != nil {
			t.Fatal(err)
		}
		close(a.gate)
		const all = "user:sum assistant:before assistant:summary assistant:after"
		frames := live.rest()
		if got := folded(t, frames); got != all {
			t.Errorf("the client that reads along has %q", got)
		}
		if got := folded(t, append(begun, joins.rest()...)); got != all {
			t.Errorf("a client that joins the Run has %q", got)
		}
		n := slices.IndexFunc(frames, func(f frame) bool { return f.typ() == "TEXT_MESSAGE_END" })
		if n < 0 || n+1 >= len(frames) || frames[n+1].field("messageId") != "sum" {
			t.Errorf("the text before it does not end at the message: %v", frames)
		}
		h.everywhere("T", all)
		h.chat("T", "R2", "next")
		if got := written(h.agent.last().Messages); got != all+" user:next" {
			t.Errorf("the next Turn gets %q", got)
		}
	})
}

// TestAppendedAtRest: what a user writes while nothing runs is shown to who tails the thread, prompts no agent, and is there
// once for who comes later, at the place of its answer; a client that has not seen it goes on as if it had.
func TestAppendedAtRest(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		h := newEnvWith(t, saysN(1), plan{open: db.open})
		begun := h.chat("T", "R1", "hi")
		tail := h.open(h.request("GET", "/api/threads/T/events?after="+last(begun).id, ""))
		made := h.appends("T", `{"id":"note","role":"user","content":[{"type":"text","text":"by "},{"type":"text","text":"phone"}],"name":"ada"}`)
		if made.status != http.StatusCreated {
			t.Fatal(made)
		}
		seen, err := tail.until(func(f frame) bool { return f.typ() == "RUN_FINISHED" })
		if err != nil || len(seen) != 2 || folded(t, seen) != "user:by phone" {
			t.Errorf("who tails gets %v %v", seen, err)
		}
		const all = "user:hi assistant:0 <é&>  user:by phone"
		h.everywhere("T", all)
		session, err := h.store.SessionByExternalID(t.Context(), scope(), "T")
		if err != nil {
			t.Fatal(err)
		}
		page := h.transcript(session.ID, "")
		if got := written(page.Messages); got != all || last(page.Messages).Name != "ada" || last(page.Messages).ID != "note" || page.HasMore {
			t.Errorf("by our id: %+v", page)
		}
		if again := h.appends(session.ID, `{"id":"note","role":"user","content":"by phone","name":"ada"}`); again.status != http.StatusOK || again.body != made.body {
			t.Errorf("again: %+v, first %+v", again, made)
		}
		if other := h.appends("T", `{"id":"note","role":"user","content":"by letter","name":"ada"}`); other.status != http.StatusConflict || !strings.Contains(other.body, `"message_id_conflict"`) {
			t.Errorf("another text under the id: %+v", other)
		}
		if n := len(h.agent.prompts()); n != 1 {
			t.Errorf("the agent was called %d times", n)
		}
		var position struct{ Position string }
		_ = json.Unmarshal([]byte(made.body), &position)
		if got := written(h.transcript("T", "?before="+position.Position).Messages); got != "user:hi assistant:0 <é&> " {
			t.Errorf("before its position: %q", got)
		}
		// A client sends the history as it knows it: without the message.
		h.open(h.request("POST", "/api/agui/chat", `{"threadId":"T","runId":"R2","protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{},"messages":[`+
			`{"id":"u-R1","role":"user","content":"hi"},{"id":"m","role":"assistant","content":"0 <é&> "},{"id":"u-R2","role":"user","content":"go"}]}`)).rest()
		if got := written(h.agent.last().Messages); got != all+" user:go" {
			t.Errorf("the next Turn gets %q", got)
		}
	})
}

// TestAppendedWhileATurnWaits: a message is added to a Turn that waits for a person; the question stays open, and its answer
// goes on with the Turn.
func TestAppendedWhileATurnWaits(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		h := newEnvWith(t, asks, plan{open: db.open})
		h.chat("T", "R1", "hi")
		id := h.question()
		if made := h.appends("T", `{"id":"note","role":"user","content":"wait"}`); made.status != http.StatusCreated {
			t.Fatal(made)
		}
		if got := written(h.transcript("T", "").Messages); got != "user:hi assistant: user:wait" {
			t.Errorf("%q", got)
		}
		if !h.pending(id) {
			t.Fatal("the question was settled")
		}
		frames := h.chatAnswer("T", "R2", id, `{"optionId":"yes","approved":true}`)
		if last(frames).typ() != "RUN_FINISHED" || h.pending(id) {
			t.Errorf("%v", frames)
		}
		got := written(h.transcript("T", "").Messages)
		if strings.Count(got, "user:wait") != 1 || !strings.HasPrefix(got, `user:hi assistant: tool:{"optionId":"yes","approved":true} user:wait assistant:`) {
			t.Errorf("%q %v", got, frames)
		}
		if got != h.joined("T") {
			t.Errorf("a join has %q", h.joined("T"))
		}
	})
}

// TestTranscriptPages: pages lead to the beginning, each message once, in both forms.
func TestTranscriptPages(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		h := newEnvWith(t, saysN(1), plan{open: db.open})
		h.chat("T", "R1", "hi")
		for n := range 7 {
			if made := h.appends("T", fmt.Sprintf(`{"role":"user","content":"%d"}`, n)); made.status != http.StatusCreated {
				t.Fatal(made)
			}
		}
		const all = "user:hi assistant:0 <é&>  user:0 user:1 user:2 user:3 user:4 user:5 user:6"
		for _, limit := range []int{1, 3, 8, 9, 200} {
			for _, format := range []string{"agui", "openai"} {
				var got []string
				pages, before := 0, ""
				for more := true; more; pages++ {
					var page struct {
						Messages []struct{ Role, Content string }
						HasMore  bool `json:"has_more"`
						Before   string
					}
					a := h.do("GET", fmt.Sprintf("/v1/sessions/T/messages?limit=%d&format=%s%s", limit, format, before), "")
					if err := json.Unmarshal([]byte(a.body), &page); err != nil || len(page.Messages) > limit || len(page.Messages) == 0 || page.HasMore != (page.Before != "") {
						t.Fatal(a, err)
					}
					var here []string
					for _, m := range page.Messages {
						here = append(here, m.Role+":"+m.Content)
					}
					got, before, more = append(here, got...), "&before="+page.Before, page.HasMore
				}
				if want := (9 + limit - 1) / limit; strings.Join(got, " ") != all || pages != want {
					t.Errorf("%d at a time as %s: %q in %d pages", limit, format, got, pages)
				}
			}
		}
		for _, bad := range []string{"?limit=201", "?limit=-1", "?before=x", "?format=tdesign"} {
			if a := h.do("GET", "/v1/sessions/T/messages"+bad, ""); a.status != http.StatusBadRequest {
				t.Errorf("%s: %d %s", bad, a.status, a.body)
			}
		}
	})
}

// TestTranscriptOfOthers: a token opens its own Session alone, a user's thread is that user's, and a role is its owner's.
func TestTranscriptOfOthers(t *testing.T) {
	t.Parallel()
	gate, tokens := make(chan struct{}), make(chan bridge.Call, 2)
	keys, err := auth.NewKeys(auth.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	h := newEnvWith(t, func(ctx context.Context, say func(...bridge.Output), call bridge.Call, answers []approval.Delivery) {
		tokens <- call
		waits(gate)(ctx, say, call, answers)
	}, plan{auth: static(t).WithKeys(keys), revoke: true})
	person := func(user string) string {
		return issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "local", UserClaims: auth.UserClaims{User: user, Roles: []string{auth.RoleUser}}}, time.Hour)
	}
	ada, eve := person("ada"), person("eve")
	first := h.open(h.requests("R1", "T", ada))
	one := <-tokens
	second := h.open(h.requests("R2", "T2", ada))
	two := <-tokens
	const said, ours = `{"id":"a","role":"assistant","content":"x"}`, `{"id":"u","role":"user","content":"x"}`
	for name, c := range map[string]struct {
		session, token, message string
		status                  int
		code                    string
	}{
		"another's session":         {two.SessionID, one.RunToken, said, 404, "not_found"},
		"another's thread id":       {two.ThreadID, one.RunToken, said, 404, "not_found"},
		"none":                      {"nothing", one.RunToken, said, 404, "not_found"},
		"a forged token":            {one.SessionID, one.RunToken[:len(one.RunToken)-4] + "AAAA", said, 401, "unauthorized"},
		"another user":              {one.ThreadID, eve, ours, 404, "not_found"},
		"another user, by our id":   {one.SessionID, eve, ours, 404, "not_found"},
		"an agent as the user":      {one.SessionID, one.RunToken, ours, 403, "message_role_forbidden"},
		"an agent as the system":    {one.SessionID, one.RunToken, `{"role":"system","content":"x"}`, 403, "message_role_forbidden"},
		"a user as the agent":       {one.SessionID, ada, said, 403, "message_role_forbidden"},
		"a user as the system":      {one.SessionID, ada, `{"role":"system","content":"x"}`, 403, "message_role_forbidden"},
		"no role there is":          {one.SessionID, ada, `{"role":"god","content":"x"}`, 400, "invalid_body"},
		"no content":                {one.SessionID, ada, `{"role":"user"}`, 400, "invalid_body"},
		"an empty content":          {one.SessionID, ada, `{"role":"user","content":""}`, 400, "invalid_body"},
		"a content that is no text": {one.SessionID, ada, `{"role":"user","content":{"a":1}}`, 400, "invalid_body"},
		"a picture":                 {one.SessionID, ada, `{"role":"user","content":[{"type":"image","source":{"type":"url","value":"https://x.example/y"}}]}`, 400, "invalid_body"},
		"a bad id":                  {one.SessionID, ada, `{"id":"a\u0001","role":"user","content":"x"}`, 400, "invalid_id"},
		"its own":                   {one.SessionID, one.RunToken, said, 201, ""},
		"the user's":                {one.SessionID, ada, ours, 201, ""},
	} {
		a := h.appends(c.session, c.message, bearerOf(c.token)...)
		if a.status != c.status || !strings.Contains(a.body, c.code) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	for name, c := range map[string]struct {
		session, token string
		status         int
	}{
		"another's session": {two.SessionID, one.RunToken, 404}, "another user": {one.ThreadID, eve, 404},
		"its own": {one.SessionID, one.RunToken, 200}, "by the thread's id": {two.ThreadID, two.RunToken, 200}, "the user's": {one.ThreadID, ada, 200},
	} {
		if a := h.do("GET", "/v1/sessions/"+c.session+"/messages", "", bearerOf(c.token)...); a.status != c.status {
			t.Errorf("GET %s: %d %s", name, a.status, a.body)
		}
	}
	close(gate)
	first.rest()
	second.rest()
	if a := h.appends(one.SessionID, said, bearerOf(one.RunToken)...); a.status != http.StatusUnauthorized {
		t.Errorf("when its Turn is over: %d %s", a.status, a.body)
	}
	if a := h.do("DELETE", "/api/threads/T", "", bearerOf(ada)...); a.status != http.StatusNoContent {
		t.Fatal(a)
	}
	for _, id := range []string{one.ThreadID, one.SessionID} {
		if a := h.appends(id, ours, bearerOf(ada)...); a.status != http.StatusNotFound {
			t.Errorf("a deleted thread: %d %s", a.status, a.body)
		}
		if a := h.do("GET", "/v1/sessions/"+id+"/messages", "", bearerOf(ada)...); a.status != http.StatusNotFound {
			t.Errorf("GET of a deleted thread: %d %s", a.status, a.body)
		}
	}
}

// TestAppendedByManyAtOnce: of requests with one id at the same time one is the first, whichever text it has.
func TestAppendedByManyAtOnce(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		h := newEnvWith(t, saysN(1), plan{open: db.open})
		h.chat("T", "R1", "hi")
		const many = 12
		got := make([]answer, many)
		var posts sync.WaitGroup
		for n := range many {
			posts.Go(func() { got[n] = h.appends("T", fmt.Sprintf(`{"id":"x","role":"user","content":"%d"}`, n%2)) })
		}
		posts.Wait()
		count := make(map[int]int)
		for _, a := range got {
			count[a.status]++
		}
		if count[201] != 1 || count[200] != many/2-1 || count[409] != many/2 {
			t.Errorf("%v", count)
		}
		if n := len(h.transcript("T", "").Messages); n != 3 {
			t.Errorf("%d messages", n)
		}
	})
}

// TestAppendedForAnOwnerThatIsAway: a message for a thread whose owner lives and does not answer is taken, and is there when
// another has the thread.
func TestAppendedForAnOwnerThatIsAway(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		h := newEnvWith(t, saysN(1), plan{open: db.open, bridge: bridge.Limits{OwnerWait: 100 * time.Millisecond}})
		h.chat("T", "R1", "hi")
		const ghost, note = "01890a5d-ac96-774b-bcce-b302099a8057", `{"id":"x","role":"user","content":"y"}`
		if err := h.store.Register(t.Context(), store.Replica{ID: ghost, Name: "ghost"}); err != nil {
			t.Fatal(err)
		}
		db.exec("UPDATE sessions SET owner = '" + ghost + "'")
		a := h.appends("T", note)
		if a.status != http.StatusAccepted || strings.Contains(a.body, "position") {
			t.Fatal(a)
		}
		if again := h.appends("T", note); again.status != http.StatusAccepted || again.body != a.body {
			t.Errorf("again: %+v", again)
		}
		if other := h.appends("T", `{"id":"x","role":"user","content":"z"}`); other.status != http.StatusConflict {
			t.Errorf("another: %+v", other)
		}
		if err := h.store.Fence(t.Context(), ghost); err != nil {
			t.Fatal(err)
		}
		for a.status == http.StatusAccepted && t.Context().Err() == nil {
			a = h.appends("T", note)
		}
		if a.status != http.StatusOK {
			t.Fatal(a)
		}
		h.everywhere("T", "user:hi assistant:0 <é&>  user:y")
	})
}

// TestAppendedByAnACPAgent: the agent's Session token names its Session to both routes, by the id that it was given.
func TestAppendedByAnACPAgent(t *testing.T) {
	t.Parallel()
	w, env := withACPAgent(t)
	token, session := bearerOf(env["AQUEDUCT_TOKEN"]), env["TUIXIU_RUN_ID"]
	if a := w.appends(session, `{"id":"s","role":"assistant","content":"so far"}`, token...); a.status != http.StatusCreated {
		t.Fatal(a)
	}
	if got := w.transcript(session, "", token...).Messages; last(got).ID != "s" {
		t.Errorf("%q", written(got))
	}
	w.chat("T2", "R2", "hi")
	other, err := w.store.SessionByExternalID(t.Context(), scope(), "T2")
	if err != nil {
		t.Fatal(err)
	}
	if a := w.do("GET", "/v1/sessions/"+other.ID+"/messages", "", token...); a.status != http.StatusNotFound {
		t.Errorf("another Session: %d %s", a.status, a.body)
	}
}
