package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/tools"
	"aqueduct/store"
)

// TestToolAskedAfterItWasShown: an agent shows a call by its own frames and then has it run, which takes a person's approval. The
// call stays what it is, and gets the tool's result; the question is a card of its own, whatever client answers it.
func TestToolAskedAfterItWasShown(t *testing.T) {
	t.Parallel()
	const ran = `cut = {"cut":{"wood":"oak"}} | «It gave succeeded.»`
	for name, c := range map[string]struct {
		begin  string
		answer func(question string) string
		gives  string
	}{
		"resume": {inputBody("T", "R", "go"), func(question string) string {
			return fmt.Sprintf(`{"threadId":"T","runId":"R2","protocolVersion":"1.0","messages":[],"resume":[{"interruptId":%q,"status":"resolved","payload":{"approved":true}}],"state":{},"tools":[],"context":[],"forwardedProps":{}}`, question)
		}, ran},
		"rejected": {inputBody("T", "R", "go"), func(question string) string {
			return fmt.Sprintf(`{"threadId":"T","runId":"R2","protocolVersion":"1.0","messages":[],"resume":[{"interruptId":%q,"status":"resolved","payload":{"approved":false}}],"state":{},"tools":[],"context":[],"forwardedProps":{}}`, question)
		}, `request_permission = {"status":"rejected","optionId":"reject_once","kind":"reject_once"} | cut = {"status":"rejected","optionId":"reject_once","kind":"reject_once"} | «It gave failed.»`},
		"a tool message": {inputBody("T", "R", "go"), func(question string) string {
			return fmt.Sprintf(`{"threadId":"T","runId":"R2","protocolVersion":"1.0","messages":[{"id":"a","role":"tool","toolCallId":"%s.ask","content":"{\"approved\":true}"}],"state":{},"tools":[],"context":[],"forwardedProps":{}}`, question)
		}, ran},
		"a TDesign page": {`{"threadId":"T","prompt":"go"}`, func(question string) string {
			return strings.Replace(answerBody(question+".ask", pageOption(question+".ask", 0)), "{", `{"threadId":"T",`, 1)
		}, ran},
	} {
		t.Run(name, func(t *testing.T) {
			onBothDatabases(t, func(t *testing.T, db database) { askedAfterItWasShown(t, db, c.begin, c.answer, c.gives) })
		})
	}
}

func askedAfterItWasShown(t *testing.T, db database, begin string, answer func(question string) string, gives string) {
	w := newToolEnvWith(t, plan{open: db.open}, highRisk, func(*toolEnv, bridge.Call) string { return "" })
	w.agent.script = func(_ context.Context, say func(...bridge.Output), c bridge.Call, _ []approval.Delivery) {
		id := tools.CallID(c.TurnID, "mine")
		say(event(&agui.ToolCallStart{ToolCallID: id, ToolCallName: "cut"}), event(&agui.ToolCallArgs{ToolCallID: id, Delta: `{"wood":"oak"}`}), event(&agui.ToolCallEnd{ToolCallID: id}))
		got := w.settled(c, w.agentCall(c.RunToken, "/v1/tools/cut:invoke", fmt.Sprintf(`{"run_id":%q,"args":{"wood":"oak"},"call_id":"mine"}`, c.TurnID)))
		say(writing("m", "It gave "+fmt.Sprint(got["status"])+".")...)
	}
	first := w.open(w.request("POST", "/api/agui/chat", begin)).rest()
	if got := strings.Join(shownCalls(first), " | "); !strings.HasPrefix(got, `+cut | {"wood":"oak"} | +request_permission | {"tool":"cut",`) {
		t.Fatalf("asked: %s", got)
	}
	open, err := w.store.OpenToolCalls(t.Context(), store.System(), w.sessionOf("T"))
	if err != nil || len(open) != 1 {
		t.Fatal(open, err)
	}
	second := w.open(w.request("POST", "/api/agui/chat", answer(open[0].ID))).rest()
	got := strings.Join(shownCalls(append(first, second...)), " | ")
	if !strings.HasSuffix(got, "| "+gives) || strings.Count(got, "+cut") != 1 {
		t.Errorf("answered: %s", got)
	}
	history := w.do("GET", "/api/threads/T/messages?format=agui", "").body
	if strings.Count(history, `"name":"cut"`) != 1 || strings.Count(history, `"role":"tool"`) != 2 || strings.Count(history, `"toolCallId":"`+open[0].ID+`.ask"`) != 1 {
		t.Errorf("the history: %s", history)
	}
}

// TestClientToolAskedAfterItWasShown: the same with a tool of the client, which runs it as a call of its own: the card has its result.
func TestClientToolAskedAfterItWasShown(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, lowRisk, func(*toolEnv, bridge.Call) string { return "" })
	w.agent.script = func(_ context.Context, say func(...bridge.Output), c bridge.Call, _ []approval.Delivery) {
		id := tools.CallID(c.TurnID, "mine")
		say(event(&agui.ToolCallStart{ToolCallID: id, ToolCallName: "move"}), event(&agui.ToolCallArgs{ToolCallID: id, Delta: `{"to":"left"}`}), event(&agui.ToolCallEnd{ToolCallID: id}))
		w.said <- brief(w.settled(c, w.agentCall(c.RunToken, "/v1/tools/move:invoke", fmt.Sprintf(`{"run_id":%q,"args":{"to":"left"},"call_id":"mine"}`, c.TurnID))))
	}
	w.register(`{"name":"move","kind":"client_tool","policy":{"risk":"high","verdict":"require_approval"}}`)
	card := dispatched(w.chat("T", "R", "go"), "request_permission")
	question, ok := strings.CutSuffix(card, ".ask")
	tail := w.open(w.request("GET", "/api/threads/T/events", "", "Accept", "text/event-stream"))
	defer tail.close()
	if got := w.decide(question, `{"decision":"approve"}`); !ok || got.status != 200 {
		t.Fatalf("%q: %d %s", card, got.status, got.body)
	}
	shown, err := tail.until(func(f frame) bool {
		return f.typ() == "TOOL_CALL_END" && f.field("toolCallId") != card && f.field("toolCallId") != question
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.do("POST", "/api/tool_calls/"+dispatched(shown, "move")+"/result", `{"ok":true,"result":{"moved":true}}`); got.status != 200 {
		t.Fatal(got.status, got.body)
	}
	if got := <-w.said; got != `succeeded {"moved":true}` {
		t.Error(got)
	}
	w.idle("T")
	history := w.do("GET", "/api/threads/T/messages?format=agui", "").body
	if strings.Count(history, `"toolCallId":"`+card+`"`) != 1 || strings.Count(history, `"toolCallId":"`+question+`"`) != 1 {
		t.Errorf("the history: %s", history)
	}
}
