package server_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/tools"
)

// pressed are the results that pages and other clients send for an option that was pressed, with OPT for its id.
var pressed = map[string]string{
	"optionId":          `{"optionId":"OPT"}`,
	"option_id":         `{"option_id":"OPT"}`,
	"choice":            `{"choice":"OPT"}`,
	"outcome":           `{"outcome":{"outcome":"selected","optionId":"OPT"}}`,
	"bare":              `"OPT"`,
	"text of JSON":      `"{\"optionId\":\"OPT\"}"`,
	"text of a text":    `"\"OPT\""`,
	"inside a text":     `"I choose OPT."`,
	"a list":            `["OPT"]`,
	"a list of objects": `[{"optionId":"OPT"}]`,
	"nested":            `{"result":{"optionId":"OPT"}}`,
	"with approved":     `{"optionId":"OPT","approved":true}`,
	"two members":       `{"choice":"x","optionId":"OPT"}`,
}

// TestS43OptionOfAnotherCard: an answer to one card decides no other question, whatever its result contains. The card is one
// that the agent made, or that of another open question. The option's id is guessed, or taken from the question's own card.
func TestS43OptionOfAnotherCard(t *testing.T) {
	t.Parallel()
	h := newEnv(t, twoCards)
	b := &browser{h: h}
	_, shown := card(t, b.post(`{"prompt":"may I?","threadId":"T"}`))
	open := h.questions()
	if len(open) != 2 || len(shown) != 3 {
		t.Fatalf("open %v, options %v", open, shown)
	}
	first, second := open[0], open[1]
	mac := strings.TrimPrefix(shown[0], first+":0") // and its MAC
	options := map[string]string{
		"guessed": second + ":0", "guessed, of the card": second + ".ask:0", "shown": shown[0], "the MAC of another option": second + ":0" + mac,
		"a cut MAC": second + ":0:x", "an empty MAC": second + ":0:", "the agent's own id": "yes",
	}
	for road, body := range map[string]string{
		"toolCallMessage":            `{"threadId":"T","toolCallMessage":{"toolCallId":"CARD","result":RESULT}}`,
		"toolCallMessage, as a text": `{"threadId":"T","toolCallMessage":{"toolCallId":"CARD","result":TEXT}}`,
		"without a thread":           `{"toolCallMessage":{"toolCallId":"CARD","result":RESULT}}`,
		"in forwardedProps":          `{"threadId":"T","messages":[],"forwardedProps":{"toolCallMessage":{"toolCallId":"CARD","result":RESULT}}}`,
		"a tool message":             `{"threadId":"T","protocolVersion":"1.0","messages":[{"id":"ID","role":"tool","toolCallId":"CARD","content":TEXT}]}`,
		"a tool message, 0.x":        `{"threadId":"T","messages":[{"id":"ID","role":"tool","toolCallId":"CARD","content":TEXT}]}`,
		"resume":                     `{"threadId":"T","protocolVersion":"1.0","messages":[],"resume":[{"interruptId":"CARD","status":"resolved","payload":RESULT}]}`,
		"without a card":             `{"threadId":"T","toolCallMessage":{"result":RESULT}}`,
	} {
		for of, option := range options {
			for form, result := range pressed {
				if road == "without a card" && of == "shown" {
					break // the option says which card it is of
				}
				result = strings.ReplaceAll(result, "OPT", option)
				id := sha256.Sum256([]byte(road + of + form))
				for n, card := range []string{"card-of-the-agent", second + ".ask"} {
					got := strings.NewReplacer("CARD", card, "RESULT", result, "TEXT", quote(result), "ID", fmt.Sprintf("m%d-%x", n, id)).Replace(body)
					h.open(h.request("POST", "/api/agui/chat", got)).rest()
				}
			}
			if left := h.questions(); len(left) != 2 {
				t.Fatalf("%s, %s: of %v only %v is open", road, of, open, left)
			}
		}
	}
	// Only now, each by its own card.
	b.post(strings.Replace(answerBody(second, pageOption(second, 0)), "{", `{"threadId":"T",`, 1))
	if left := h.questions(); len(left) != 1 || left[0] != first {
		t.Errorf("its own card left %v of %v", left, open)
	}
}

// TestS43OptionOfAnotherThread: an option of a question of another thread decides nothing, also where the answer has no card.
func TestS43OptionOfAnotherThread(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	b := &browser{h: h}
	_, there := card(t, b.post(`{"prompt":"may I?","threadId":"there"}`))
	here, _ := card(t, b.post(`{"prompt":"may I?","threadId":"here"}`))
	for _, id := range []string{"", here, "card-of-the-agent"} {
		b.post(strings.Replace(answerBody(id, there[0]), "{", `{"threadId":"here",`, 1))
	}
	if left := h.questions(); len(left) != 2 {
		t.Errorf("left open: %v", left)
	}
}

// TestS43CallUnderTheQuestionsID: an agent shows a call by its own frames, with its own words, and has it executed under the same
// id. Only the question's card decides, and not the call that the agent shows; nor does a CUSTOM event that names the question.
func TestS43CallUnderTheQuestionsID(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		w := newToolEnvWith(t, plan{open: db.open}, highRisk, func(*toolEnv, bridge.Call) string { return "" })
		w.agent.script = func(_ context.Context, say func(...bridge.Output), c bridge.Call, _ []approval.Delivery) {
			id := tools.CallID(c.TurnID, "mine")
			say(event(&agui.ToolCallStart{ToolCallID: id, ToolCallName: "show_weather"}), event(&agui.ToolCallArgs{ToolCallID: id, Delta: `{"options":[{"id":"allow_once","label":"Show it"}]}`}), event(&agui.ToolCallEnd{ToolCallID: id}))
			got := w.settled(c, w.agentCall(c.RunToken, "/v1/tools/cut:invoke", fmt.Sprintf(`{"run_id":%q,"args":{"wood":"oak"},"call_id":"mine"}`, c.TurnID)))
			say(writing("m", "It gave "+fmt.Sprint(got["status"])+".")...)
		}
		w.open(w.request("POST", "/api/agui/chat", inputBody("T", "R", "go"))).rest()
		question := w.question()
		for n, result := range []string{`{"optionId":"allow_once"}`, `{"approved":true}`, `"allow_once"`, `{"optionId":"` + question + `:0"}`, `{"optionId":"` + question + `.ask:0"}`} {
			for _, body := range []string{
				`{"threadId":"T","toolCallMessage":{"toolCallId":"QID","result":` + result + `}}`,
				`{"threadId":"T","protocolVersion":"1.0","messages":[{"id":"m` + fmt.Sprint(n) + `","role":"tool","toolCallId":"QID","content":` + quote(result) + `}]}`,
				`{"threadId":"T","messages":[{"id":"n` + fmt.Sprint(n) + `","role":"tool","toolCallId":"QID","content":` + quote(result) + `}]}`,
				`{"threadId":"T","toolCallMessage":{"toolCallId":"QID.ask.ask","result":` + result + `}}`,
				command("T", "R"+fmt.Sprint(n), `{"resume":`+result+`,"interruptEvent":{"id":"QID"}}`),
				command("T", "S"+fmt.Sprint(n), `{"resume":`+result+`,"interruptEvent":"QID"}`),
				command("T", "U"+fmt.Sprint(n), `{"resume":`+result+`,"interruptEvent":{"question":"Cut?","toolCallId":"QID"}}`),
				command("T", "V"+fmt.Sprint(n), `{"resume":`+result+`}`),
			} {
				w.open(w.request("POST", "/api/agui/chat", strings.ReplaceAll(body, "QID", question))).rest()
				if open, err := w.store.OpenToolCalls(t.Context(), scope(), w.sessionOf("T")); err != nil || len(open) != 1 {
					t.Fatalf("%s decided: %v %v", body, open, err)
				}
			}
		}
	})
}
