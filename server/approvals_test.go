package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// fields are the members of a JSON answer.
func fields(t *testing.T, got answer) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(got.body), &m); err != nil {
		t.Fatalf("%d %s: %v", got.status, got.body, err)
	}
	return m
}

// TestDecide: each wording of a decision, and what the agent receives.
func TestDecide(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]struct{ status, option string }{
		`{"decision":"approve","reason":"fine"}`:              {"APPROVED", "yes"},
		`{"decision":"reject"}`:                               {"REJECTED", "no"},
		`{"decision":"cancel"}`:                               {"CANCELLED", ""},
		`{"approved":true}`:                                   {"APPROVED", "yes"},
		`{"approved":false}`:                                  {"REJECTED", "no"},
		`{"option_id":"no","unknown":1}`:                      {"REJECTED", "no"},
		`{"payload":{"optionId":"yes"}}`:                      {"APPROVED", "yes"},
		`{"decision":"approve","option_id":"yes"}`:            {"APPROVED", "yes"},
		`{"decision":"approve","payload":null,"reason":null}`: {"APPROVED", "yes"},
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			h := newEnv(t, asks)
			h.chat("T", "R", "may I?")
			id := h.question()
			got := fields(t, h.decide(id, body))
			if got["status"] != want.status || got["won"] != true || got["decided_via"] != "rest" || got["thread_id"] != "T" {
				t.Fatalf("%v", got)
			}
			frames := h.open(h.request("GET", "/api/threads/T/events", ""))
			said, err := frames.until(func(f frame) bool { return f.typ() == "RUN_FINISHED" && len(f.id) > 0 && f.field("runId") != "R" })
			if err != nil || !strings.Contains(text(said), want.option) {
				t.Errorf("%v %v", err, said)
			}
			frames.close()
		})
	}
}

// TestDecideInput: an input is answered with a value, and rejected by giving none.
func TestDecideInput(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"payload":{"n":3}}`: "APPROVED", `{"decision":"approve","payload":{"n":3}}`: "APPROVED",
		`{"decision":"reject"}`: "CANCELLED", `{"approved":false}`: "CANCELLED",
		`{"decision":"approve"}`: "422", `{"payload":{"m":3}}`: "422",
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			h := newEnv(t, input)
			h.chat("T", "R", "ask")
			got := h.decide(h.question(), body)
			if want == "422" {
				isProblem(t, got, 422)
				return
			}
			if f := fields(t, got); f["status"] != want {
				t.Errorf("%v", f)
			}
		})
	}
}

// TestOneDecisionWins: of a hundred at once one counts; the losers get that one.
func TestOneDecisionWins(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	h.chat("T", "R", "may I?")
	id := h.question()
	answers := make([]answer, 100)
	var all sync.WaitGroup
	for i := range answers {
		body := `{"decision":"approve"}`
		if i%2 == 1 {
			body = `{"decision":"reject"}`
		}
		req := h.request("POST", "/api/approvals/"+id+"/decision", body)
		all.Go(func() { answers[i] = h.send(req) })
	}
	all.Wait()
	asked, err := h.store.Approval(t.Context(), store.System(), id)
	if err != nil {
		t.Fatal(err)
	}
	won := 0
	for i, got := range answers {
		right := (i%2 == 0) == (asked.Status == store.ApprovalApproved)
		f := fields(t, got)
		switch {
		case right && got.status == 200:
			if f["won"] == true {
				won++
			}
		case !right && got.status == 409:
			standing, _ := f["approval"].(map[string]any)
			if standing["status"] != string(asked.Status) || standing["decided_by"] != "local" {
				t.Errorf("a loser hears %v", f)
			}
		default:
			t.Errorf("%d: %d %s", i, got.status, got.body)
		}
	}
	if won != 1 {
		t.Errorf("%d decisions won", won)
	}
}

// TestApprovals lists, filters and pages.
func TestApprovals(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	for i := range 5 {
		h.chat(fmt.Sprintf("T%d", i), "R", "may I?")
	}
	h.decide(h.questions()[0], `{"decision":"reject"}`)
	count := func(query string) int {
		list, _ := fields(t, h.do("GET", "/api/approvals"+query, ""))["approvals"].([]any)
		return len(list)
	}
	for query, want := range map[string]int{"": 5, "?status=PENDING": 4, "?status=REJECTED": 1, "?thread_id=T3": 1, "?limit=2": 2} {
		if got := count(query); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
	seen, next := 0, ""
	for range 4 {
		f := fields(t, h.do("GET", "/api/approvals?limit=2&after="+next, ""))
		list, _ := f["approvals"].([]any)
		seen += len(list)
		if next, _ = f["next"].(string); next == "" {
			break
		}
	}
	if seen != 5 {
		t.Errorf("paging saw %d", seen)
	}
	one := fields(t, h.do("GET", "/api/approvals/"+h.question(), ""))
	for _, member := range []string{"approval_id", "tool_call_id", "run_id", "thread_id", "args", "args_sha256", "options", "expires_at", "created_at"} {
		if one[member] == nil {
			t.Errorf("%s is missing: %v", member, one)
		}
	}
	isProblem(t, h.do("GET", "/api/approvals?thread_id=none", ""), 404)
}

// callsTool asks the frontend to run a tool.
func callsTool(_ context.Context, say func(...bridge.Output), _ bridge.Call, answers []approval.Delivery) {
	if len(answers) == 0 {
		say(bridge.Output{Question: &approval.Request{
			UpstreamID: "c1", Kind: approval.AskClientTool, ToolName: "pick", Args: json.RawMessage(`{"of":3}`),
		}})
		return
	}
	said, _ := json.Marshal(answers)
	say(event(&agui.TextMessageStart{MessageID: "m", Role: agui.RoleAssistant}),
		event(&agui.TextMessageContent{MessageID: "m", Delta: string(said)}), event(&agui.TextMessageEnd{MessageID: "m"}))
}

// TestToolResult: a frontend hands in its result apart from the chat.
func TestToolResult(t *testing.T) {
	t.Parallel()
	h := newEnv(t, callsTool)
	body := strings.Replace(inputBody("T", "R", "go"), `"tools":[]`, `"tools":[{"name":"pick","description":"d"}]`, 1)
	asked := h.open(h.request("POST", "/api/agui/chat", body)).rest()
	id := typed(asked, "TOOL_CALL_START").field("toolCallId")
	path := "/api/tool_calls/" + id + "/result"
	got := fields(t, h.do("POST", path, `{"ok":true,"result":{"picked":2}}`))
	if got["status"] != "SUCCEEDED" || got["won"] != true || got["tool_name"] != "pick" {
		t.Fatalf("%v", got)
	}
	if again := fields(t, h.do("POST", path, `{"result":{"picked":2}}`)); again["repeated"] != true {
		t.Errorf("the same again: %v", again)
	}
	late := h.do("POST", path, `{"ok":false,"error":{"code":"no"}}`)
	if p := isProblem(t, late, 409); p["tool_call"] == nil {
		t.Errorf("another: %v", p)
	}
	isProblem(t, h.do("POST", "/api/tool_calls/none/result", `{"result":1}`), 404)
}

// TestToolMessageAnswersChat: the official client's way, a tool message in the history.
func TestToolMessageAnswersChat(t *testing.T) {
	t.Parallel()
	h := newEnv(t, callsTool)
	body := strings.Replace(inputBody("T", "R", "go"), `"tools":[]`, `"tools":[{"name":"pick","description":"d"}]`, 1)
	id := typed(h.open(h.request("POST", "/api/agui/chat", body)).rest(), "TOOL_CALL_START").field("toolCallId")
	answer := fmt.Sprintf(`{"threadId":"T","runId":"R2","protocolVersion":"1.0","messages":[{"id":"u-R","role":"user","content":"go"},`+
		`{"id":"a1","role":"assistant","toolCalls":[{"id":%q,"type":"function","function":{"name":"pick","arguments":"{}"}}]},`+
		`{"id":"t1","role":"tool","toolCallId":%q,"content":"picked 2"}]}`, id, id)
	got := h.open(h.request("POST", "/api/agui/chat", answer)).rest()
	if !strings.Contains(text(got), "picked 2") || typed(got, "RUN_STARTED").field("runId") != "R2" {
		t.Errorf("%v", got)
	}
}

// TestResumeAnswersChat: resume[], once, again, and too late: never an HTTP error.
func TestResumeAnswersChat(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	h.chat("T", "R", "may I?")
	id := h.question()
	resume := func(run, thread, id, payload string) string {
		return fmt.Sprintf(`{"threadId":%q,"runId":%q,"protocolVersion":"1.0","messages":[{"id":"u-R","role":"user","content":"may I?"}],`+
			`"resume":[{"interruptId":%q,"status":"resolved","payload":%s}]}`, thread, run, id, payload)
	}
	if got := h.open(h.request("POST", "/api/agui/chat", resume("R2", "T", id, `{"approved":true}`))).rest(); !strings.Contains(text(got), "yes") {
		t.Errorf("%v", got)
	}
	for name, body := range map[string]string{
		"again": resume("R2", "T", id, `{"approved":true}`), "again, as another run": resume("R3", "T", id, `{"approved":true}`),
		"otherwise": resume("R4", "T", id, `{"approved":false}`), "a question nobody asked": resume("R5", "T", "none", `{}`),
		"on a run that is known": resume("R", "T", id, `{"approved":false}`),
	} {
		got := h.open(h.request("POST", "/api/agui/chat", body)).rest()
		if got[0].typ() != "RUN_STARTED" || got[len(got)-1].typ() != "RUN_FINISHED" {
			t.Errorf("%s: %s", name, types(got))
		}
	}
	// Not even when nothing can be done with it.
	got := h.do("POST", "/api/agui/chat?agent=nobody", resume("R6", "none", "none", `{}`))
	if frames := stream(t, got.body); got.status != 200 || frames[0].typ() != "RUN_ERROR" {
		t.Errorf("%d %s", got.status, got.body)
	}
}
