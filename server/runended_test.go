package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
)

// breaks sends half a sentence, then fails, or waits to be cancelled.
func breaks(ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
	id := call.TurnID
	say(event(&agui.TextMessageStart{MessageID: id, Role: agui.RoleAssistant}), event(&agui.TextMessageContent{MessageID: id, Delta: "half "}))
	switch call.Input().Content.String() {
	case "fail":
		say(bridge.Output{End: &bridge.End{Failure: fault.New("out_of_luck", "No luck.")}})
	case "wait":
		<-ctx.Done()
	}
}

// TestAJoinSaysHowTheLastRunEnded, in each dialect, and so do the thread and its history.
func TestAJoinSaysHowTheLastRunEnded(t *testing.T) {
	t.Parallel()
	h := newEnv(t, breaks)
	h.chat("F", "RF", "fail")
	r := h.open(h.request("POST", "/api/agui/chat", inputBody("C", "RC", "wait")))
	if _, err := r.until(func(f frame) bool { return f.typ() == "TEXT_MESSAGE_CONTENT" }); err != nil {
		t.Fatal(err)
	}
	if got := h.do("POST", "/api/runs/RC/cancel", `{}`); got.status >= 300 {
		t.Fatal(got.body)
	}
	r.rest()
	h.chat("W", "RW", "well")

	const v1, v0, page = `"protocolVersion":"1.0","messages":[]`, `"messages":[]`, `"toolCallMessage":null`
	for name, c := range map[string]struct{ thread, members, types, last string }{
		"failed":           {"F", v1, "RUN_STARTED MESSAGES_SNAPSHOT STATE_SNAPSHOT CUSTOM RUN_ERROR", `{"type":"RUN_ERROR","message":"No luck.","code":"out_of_luck"}`},
		"failed, 0.x":      {"F", v0, "RUN_STARTED MESSAGES_SNAPSHOT STATE_SNAPSHOT CUSTOM RUN_ERROR", `{"type":"RUN_ERROR","message":"No luck.","code":"out_of_luck"}`},
		"failed, page":     {"F", page, "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED", `{"type":"RUN_FINISHED","threadId":"F","runId":"J","outcome":{"type":"success"}}`},
		"cancelled":        {"C", v1, "RUN_STARTED MESSAGES_SNAPSHOT STATE_SNAPSHOT CUSTOM RUN_FINISHED", `{"type":"RUN_FINISHED","threadId":"C","runId":"J","outcome":{"type":"cancelled"}}`},
		"cancelled, 0.x":   {"C", v0, "RUN_STARTED MESSAGES_SNAPSHOT STATE_SNAPSHOT CUSTOM RUN_FINISHED", `{"type":"RUN_FINISHED","threadId":"C","runId":"J"}`},
		"ended well":       {"W", v1, "RUN_STARTED MESSAGES_SNAPSHOT STATE_SNAPSHOT RUN_FINISHED", `{"type":"RUN_FINISHED","threadId":"W","runId":"J","outcome":{"type":"success"}}`},
		"failed, answered": {"F", v1 + `,"resume":[{"interruptId":"old","status":"cancelled"}]`, "RUN_STARTED MESSAGES_SNAPSHOT STATE_SNAPSHOT CUSTOM RUN_FINISHED", `{"type":"RUN_FINISHED","threadId":"F","runId":"J","outcome":{"type":"success"}}`},
	} {
		got := h.open(h.request("POST", "/api/agui/chat", `{"threadId":"`+c.thread+`","runId":"J",`+c.members+`}`)).rest()
		if types(got) != c.types || last(got).data != c.last {
			t.Errorf("%s: %s\n%s", name, types(got), last(got).data)
		}
		if name == "cancelled, 0.x" && !strings.Contains(got[3].data, `"name":"run_ended","value":{"runId":"RC","status":"cancelled"`) ||
			name == "failed" && !strings.Contains(got[3].data, `"value":{"runId":"RF","status":"failed","code":"out_of_luck","message":"No luck."`) ||
			name == "failed, page" && text(got) != "No luck." {
			t.Errorf("%s: %v", name, got)
		}
	}

	thread := fields(t, h.do("GET", "/api/threads/F", ""))
	if run, _ := thread["lastRun"].(map[string]any); run["status"] != "FAILED" || run["errorCode"] != "out_of_luck" || run["errorMessage"] != "No luck." {
		t.Errorf("%v", thread)
	}
	for thread, want := range map[string]string{
		"F": "user/ assistant/error assistant/error", "C": "user/ assistant/stop", "W": "user/ assistant/",
	} {
		if got := statuses(t, h.do("GET", "/api/threads/"+thread+"/messages", "").body); got != want {
			t.Errorf("history of %s: %s", thread, got)
		}
	}
	for thread, want := range map[string]string{
		"F": `"metadata":{"incomplete":{"status":"failed","code":"out_of_luck","message":"No luck."}}`, "C": `"metadata":{"incomplete":{"status":"cancelled"}}`,
	} {
		if got := h.do("GET", "/api/threads/"+thread+"/messages?format=agui", "").body; strings.Count(got, want) != 1 {
			t.Errorf("history of %s: %s", thread, got)
		}
	}
	h.chat("F", "RF2", "well") // it is over then
	if got := h.open(h.request("POST", "/api/agui/connect", `{"threadId":"F","runId":"J2",`+v1+`}`)).rest(); last(got).typ() != "RUN_FINISHED" {
		t.Errorf("after a Run that ended well: %v", last(got))
	}
	if got := statuses(t, h.do("GET", "/api/threads/F/messages", "").body); got != "user/ assistant/error assistant/error user/ assistant/" {
		t.Errorf("history: %s", got)
	}
}

// statuses are roles and statuses of a history.
func statuses(t *testing.T, body string) string {
	t.Helper()
	var messages []struct{ Role, Status string }
	if err := json.Unmarshal([]byte(body), &messages); err != nil {
		t.Fatal(err)
	}
	out := make([]string, 0, len(messages))
	for _, m := range messages {
		out = append(out, fmt.Sprintf("%s/%s", m.Role, m.Status))
	}
	return strings.Join(out, " ")
}
