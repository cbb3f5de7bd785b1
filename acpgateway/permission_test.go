package acpgateway_test

import (
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/wire"
)

// A request for permission is a Question, and its answer goes to that request alone, as one of the agent's own options.
func TestPermission(t *testing.T) {
	perform(t, []script{
		// An old proxy (facts §3) passes nothing on while a permission is open; all of it comes then.
		{name: "old proxy blocks updates", steps: `
			old p1; chat prompts hi; agent says may I?; asks/0 call-1; chat ends
			agent call/call-1 "status":"completed","content":[{"type":"content","content":{"type":"text","text":"removed"}}]
			agent says thanks; ends; pass 5m
			chat answers allow_once; p1 gets session_permission request_id=0 outcome=selected option_id=p-once; chat ends
			chat reads RUN | says: may I? | calls execute | calls request_permission | DONE interrupt
			| RUN | gets {"status":"approved","optionId":"allow_once","kind":"allow_once"} | gets removed | says: thanks | DONE success
			p1 silent`},
		// Request ids begin again with every start of an agent. Each request is a Question of its own.
		{name: "old proxy repeats request ids", steps: `
			old p1; chat prompts hi; agent asks/0 call-1; chat ends; asked first
			chat answers reject_once of first; p1 gets session_permission request_id=0 option_id=p-no
			agent asks/2 call-2; chat ends; answers allow_once; p1 gets session_permission request_id=2 option_id=p-once
			agent exits; fails Error: agent closed; chat ends
			chat prompts again; agent signal {"type":"transport_connected","instance_name":"i","at":"now"}; asks/0 call-1; chat ends
			chat asked again; answers allow_once of again; p1 gets session_permission request_id=0 option_id=p-once
			agent ends; chat ends; p1 silent`},
		// The same, when the restarted agent asks within the same prompt.
		{name: "old proxy repeats request ids in one prompt", steps: `
			old p1; chat prompts hi; agent asks/0 call-1; chat ends; answers reject_once; p1 gets session_permission
			agent signal {"type":"transport_connected","instance_name":"i","at":"now"}; asks/0 call-2; chat ends
			chat asked q; answers allow_once; p1 gets session_permission request_id=0 option_id=p-once; agent ends; chat ends`},
		// A request with a number for an id is answered with the number, and one with a text with the text.
		{name: "request ids are answered as they came", steps: `
			new p1; chat prompts hi
			agent signal {"type":"permission_request","request_id":7,"session_id":"S1","prompt_id":"$prompt","tool_call":{"toolCallId":"call-7"},"options":[{"optionId":"p-once","kind":"allow_once","name":"Allow"}]}
			settle; chat answers allow_once; p1 gets session_permission raw~'"request_id":7,'; settle
			agent signal {"type":"permission_request","request_id":"7","session_id":"S1","prompt_id":"$prompt","tool_call":{"toolCallId":"call-7"},"options":[{"optionId":"p-once","kind":"allow_once","name":"Allow"}]}
			settle; chat answers allow_once; p1 gets session_permission raw~'"request_id":"7",'; settle`},
		// One that is not decided: the agent is sent its option to reject.
		{name: "expires", steps: `
			new p1; chat prompts hi; agent asks/0 call-1; chat ends; pass 10m1s
			p1 gets session_permission outcome=selected option_id=p-no; agent ends; settle
			chat reads RUN | calls execute | calls request_permission | DONE interrupt
			| RUN | gets {"status":"expired"} | gets The agent ended without a result. | DONE success`},
		// A call that only reads needs no person: the agent is sent its option to allow once, at once.
		{name: "policy decides for people", steps: `
			new p1; chat prompts hi; agent asks-to-read/0 {"path":"a.go"}
			p1 gets session_permission outcome=selected option_id=p-once; agent says read it; ends; chat ends
			chat turn done; p1 silent`},
		// A call that claims to only read, and names a command or a file elsewhere, is asked.
		{name: "looking elsewhere is asked", variants: map[string][]string{
			"command": {`{"cmd":"call-1"}`}, "root": {`{"path":"/etc/passwd"}`}, "above": {`{"path":"../secrets"}`},
		}, steps: `
			new p1; chat prompts hi; agent asks-to-read/0 $1; chat ends; asked q; p1 silent`},
		// A call that began beside the one it asks for is shown in the next Run: its result, and its arguments if they came
		// too late.
		{name: "call beside an asked one", steps: `
			new p1; chat prompts hi; agent calls/call-2 "title":"ls","kind":"execute","status":"pending","rawInput":{}; asks/0 call-1; chat ends
			agent call/call-2 "status":"in_progress","rawInput":{"cmd":"ls"}; call/call-2 $finished; settle
			chat answers allow_once; p1 gets session_permission; agent ends; chat ends
			chat reads RUN | calls execute | calls execute | calls request_permission | DONE interrupt
			| RUN | custom acp.arguments_completed | gets out | gets {"status":"approved","optionId":"allow_once","kind":"allow_once"}
			| gets The agent ended without a result. | DONE success`},
		// An option that was not offered is not an answer: the Question stays open and the agent gets nothing.
		{name: "option not offered", steps: `
			old p1; chat prompts hi; agent asks/0 call-1; chat ends; asked q
			chat answers p-once of q; ends; answers nonsense of q; ends; answers {"optionId":""} of q; ends; answers reject_always of q; ends
			p1 silent; chat open q
			chat answers reject_once of q; p1 gets session_permission option_id=p-no; agent ends; chat ends`},
		// A request without a request_id is no question: its answer could reach no request.
		{name: "without an id", steps: `
			old p1; chat prompts hi
			p1 raw {"type":"proxy_update","run_id":"$run","content":{"type":"permission_request","session_id":"S1","tool_call":{"toolCallId":"x"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}}
			refused malformed 1; agent ends; chat ends
			chat reads RUN | custom proxy.permission_request | DONE success`},
		// A tool of the name of our permission card is shown as the agent's.
		{name: "tool named request_permission", steps: `
			old p1; chat prompts hi
			agent calls/call-1 "name":"request_permission","title":"x","kind":"other","status":"completed","rawInput":{"options":[]}; ends; chat ends
			chat reads RUN | calls agent.request_permission | gets completed | DONE success
			chat asked`},
		// "Always" stays in the bridge: the agent is sent its option to allow once, and the same call is not asked again in
		// that Session; another call is, and so is the same in another Session.
		{name: "always", steps: `
			new p1; chat prompts hi; agent asks/0 call-1 ls; chat ends
			chat answers allow_always; p1 gets session_permission request_id=0 outcome=selected option_id=p-once
			chat grants execute
			agent asks/1 call-2 ls; p1 gets session_permission request_id=1 outcome=selected option_id=p-once; settle; chat asked
			agent asks/2 call-3 rm; chat ends; asked rm; answers allow_once
			p1 gets session_permission request_id=2 outcome=selected option_id=p-once; agent ends; chat ends
			chat/t2 prompts hi; agent/t2 asks/3 call-1 ls; chat/t2 ends; asked ls; chat grants execute; p1 silent`},
		// It holds when the server was started anew, too.
		{name: "always, behind a restart", steps: `
			new p1; chat prompts hi; agent asks/0 call-1 ls; chat ends
			chat answers allow_always; p1 gets session_permission request_id=0 outcome=selected option_id=p-once; settle
			restart; p1 links; agent asks/1 call-2 ls; p1 gets session_permission request_id=1 outcome=selected option_id=p-once
			agent ends; settle; chat legal; p1 silent`},
	})
}

// An agent's request for input is a Question of kind input, with its schema; a person's answer goes back to the agent, as
// does a refusal to answer.
func TestElicitation(t *testing.T) {
	form := `"mode":"form","message":"Which branch?","requested_schema":{"type":"object","properties":{"branch":{"type":"string"}},"required":["branch"]}`
	perform(t, []script{{name: "form and URL", variants: map[string][]string{"": {form}}, steps: `
		new p1; chat prompts hi; agent says One thing:; elicits/e-1 $1; chat ends
		chat kind kind=input title='Which branch?' schema~"branch"
		chat answers {"branch":"main"}; p1 gets session_elicitation request_id=e-1 session_id=S1 action=accept content={"branch":"main"}; settle
		agent elicits/e-2 $1; settle; chat kind kind=input; answers nothing
		p1 gets session_elicitation request_id=e-2 action=decline content=; settle
		agent elicits/e-3 "mode":"url","message":"Please log in.","url":"https://login.example/"; settle; chat kind kind=input
		chat answers {"action":"accept"}; p1 gets session_elicitation action=accept content=; settle
		agent elicits/e-4 $1; settle; chat cancels; p1 gets session_cancel; gets session_elicitation request_id=e-4 action=cancel; settle
		chat asked`}})
}

// An agent that sends nothing at all fails at the limit; what is no silence of the agent's does not.
func TestSilence(t *testing.T) {
	perform(t, []script{
		// The chat shows it after half a minute, with what its console printed. Its prompt is cancelled.
		{name: "nothing at all", plan: plan{limits: acpgateway.Limits{Silence: 5 * time.Minute}}, steps: `
			new p1; clock; chat prompts hi; agent update {"sessionUpdate":"available_commands_update","availableCommands":[]}
			agent stderr 401 Unauthorized; pass 31s; chat reads RUN | custom acp.silent
			chat ends; took 5m..5m1s; p1 gets session_cancel
			chat reads RUN | custom acp.silent | ERROR agent_silent`},
		// A tool that runs, a person who is asked, and words within the limit, however long all of it takes.
		{name: "work, a question and words", plan: plan{limits: acpgateway.Limits{Silence: time.Minute, Prompt: 24 * time.Hour}}, steps: `
			new p1; chat prompts hi; agent calls/call-1 "kind":"execute","status":"in_progress","rawInput":{"cmd":"make"}
			pass 10m; agent call/call-1 $finished
			repeat 10
				pass 59s; agent says on,
			end
			agent asks/0 call-2; chat ends; pass 5m; chat answers allow_once; p1 gets session_permission; pass 10m; agent ends; chat ends
			chat has 0 RUN_ERROR`},
	})
}

// Several permissions open at once are shown together and answered one by one.
func TestSeveralPermissions(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.asks("0", "call-1")
		c.asks("1", "call-2")
		c.s.rest()
		asked := h.asked("t1")
		if len(asked) != 2 {
			t.Fatalf("open: %v", asked)
		}
		h.answer("t1", asked[1], "reject_once").rest()
		s := h.answer("t1", asked[0], "allow_once")
		said := map[string]string{}
		for range 2 {
			f := want[*wire.SessionPermission](p)
			said[string(f.RequestID)] = *f.OptionID
		}
		if said["0"] != "p-once" || said["1"] != "p-no" {
			t.Errorf("%v", said)
		}
		c.ends()
		s.rest()
		h.legal("t1", h.events("t1"))
		p.silent()
	})
}
