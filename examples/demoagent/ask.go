package demoagent

import (
	"encoding/json"
	"strconv"
)

// Every question follows one pattern. Without its answer in the call, it is asked and the
// stream ends with its id pending; with the answer, the agent goes on from there.

// showAsk asks for one permission. The call that brings the answer goes on where the first one ended.
func showAsk(s *stream, c invocation) {
	const id = "ask_delete"
	a, ok := c.answered(id)
	if !ok {
		s.say("I would like to clear the build folder. ")
		s.send("ask", permission(id, "Delete the folder build?", "delete_folder", map[string]any{"path": "build", "recursive": true}))
		s.done(c, id)
		return
	}
	s.say(verdict("the folder build", a))
	s.done(c)
}

// showAsks asks for two permissions in one answer, and waits for both. It is called again when neither is open.
func showAsks(s *stream, c invocation) {
	if len(c.Resume) == 0 {
		sayTwoAsks(s)
		s.done(c, askMail, askPay)
		return
	}
	sayVerdicts(s, c)
}

const (
	askMail, askPay = "ask_mail", "ask_pay"
	// holdWords are sent while both questions of the part "hold" are open, a word each holdShare of Options.Slow: long
	// enough that the Run that asked ends while the agent still speaks.
	holdWords = 40
	holdShare = 20
)

// showHold asks as showAsks does, and does not wait: it goes on while the questions are open, then ends to wait.
//
// Its questions are shown while it speaks, since an agent that asked need not be silent (docs/protocol.md). Answers
// that come in that time are delivered when its stream has ended.
func showHold(s *stream, c invocation) {
	if len(c.Resume) > 0 {
		sayVerdicts(s, c)
		return
	}
	sayTwoAsks(s)
	for i := 1; i <= holdWords && !s.gone(); i++ {
		s.send("delta", textFrame{Text: "w" + strconv.Itoa(i) + " "})
		s.sent++
		s.wait(s.pace.Slow / holdShare)
	}
	s.done(c, askMail, askPay)
}

// sayVerdicts writes what came of each of the two questions, and waits for what has no answer.
func sayVerdicts(s *stream, c invocation) {
	var open []string
	for _, q := range []struct{ id, about string }{{askMail, "the mail"}, {askPay, "the invoice"}} {
		a, ok := c.answered(q.id)
		if !ok {
			open = append(open, q.id)
			continue
		}
		s.say(verdict(q.about, a) + " ")
	}
	s.done(c, open...)
}

// sayTwoAsks asks both. Their ids are the same in every call, so an answer is found by them (answered).
func sayTwoAsks(s *stream) {
	s.say("Two things need your word. ")
	s.send("ask", permission(askMail, "Send the mail to Ada?", "send_mail", map[string]any{"to": "ada@example.com", "subject": "Minutes"}))
	s.send("ask", permission(askPay, "Pay the invoice of 120 euros?", "pay_invoice", map[string]any{"invoice": "2026-17", "amount": 120}))
}

// showPrefs asks for an input: what the person enters has to fit the schema, which pages draw as a form.
func showPrefs(s *stream, c invocation) {
	const id = "ask_prefs"
	a, ok := c.answered(id)
	if !ok {
		s.say("One thing I need to know first. ")
		s.send("ask", askFrame{
			ID: id, Kind: "input", Name: "collect_preferences", Title: "How do you like to travel?",
			Args:           map[string]any{"options": []string{"economy", "comfort"}},
			ResponseSchema: json.RawMessage(prefsSchema),
		})
		s.done(c, id)
		return
	}
	if a.cancelled() {
		s.say("Then I will choose for you: economy.")
	} else {
		s.say("Noted: " + words(a.Payload))
	}
	s.done(c)
}

const prefsSchema = `{"type":"object","properties":{` +
	`"choice":{"type":"string","title":"Class","enum":["economy","comfort"]},` +
	`"days":{"type":"integer","title":"Days","minimum":1,"maximum":30},` +
	`"note":{"type":"string","title":"Anything else?"}},"required":["choice"]}`

// permission is a question with the usual three options.
func permission(id, title, tool string, args any) askFrame {
	return askFrame{
		ID: id, Kind: "permission", Title: title, Tool: tool, Args: args, Risk: "medium",
		Options: []option{
			{"once", "Allow once", "allow_once"},
			{"always", "Always allow", "allow_always"},
			{"no", "Reject", "reject_once"},
		},
	}
}

// verdict is what came of a permission, in words. Only the kind of the chosen option counts.
func verdict(about string, a answer) string {
	p := a.permission()
	switch {
	case a.cancelled():
		return "Nobody decided about " + about + ", so I left it alone."
	case p.Approved:
		return "You allowed it, so I took care of " + about + "."
	default:
		return "You said no, so I left " + about + " alone."
	}
}
