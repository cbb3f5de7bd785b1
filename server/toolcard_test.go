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
			return fmt.Sprintf(`{"threadId":"T","toolCallMessage":{"toolCallId":"%[1]s.ask","toolCallName":"request_permission","result":"{\"optionId\":\"%[1]s.ask:0\"}"}}`, question)
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
