package acpgateway_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/wire"
)

// words are the texts of a prompt.
func words(t *testing.T, sent *wire.PromptSend) string {
	t.Helper()
	var texts []string
	for _, raw := range sent.Prompt {
		var b wire.Block
		if err := json.Unmarshal(raw, &b); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, b.Text)
	}
	return strings.Join(texts, "|")
}

// What stands in prompt_send, and what comes after a prompt's end.
func TestPrompts(t *testing.T) {
	perform(t, []script{
		// What was given to an earlier Turn has been sent, though the agent never answered it. It may be what killed the
		// agent.
		{name: "one without an answer is not sent with the next", variants: map[string][]string{
			"failed":    {"agent fails Error: model exploded"},
			"silent":    {"agent ends"},
			"cancelled": {"chat cancels; p1 gets session_cancel; agent ends"},
			"died":      {"agent exits; fails Error: agent closed"},
		}, steps: `
			old p1; chat prompts first; $1; settle
			chat prompts second; sent words=second`},
		// A message that came with an answer is the next Turn's prompt, whatever the agent sent in between.
		{name: "a message that came with an answer", steps: `
			old p1; chat prompts first; agent asks/0 c1; chat ends; answers allow_once with second
			p1 gets session_permission; agent says done; ends
			p1 gets prompt_send; chat sent words=second`},
		// Output that still names a prompt that has ended opens a Run, which ends when nothing more comes: there is no
		// second prompt_result to wait for.
		{name: "updates after the end do not hold the Session", variants: map[string][]string{
			"words of the prompt":                       {"says/late"},
			"words of none, behind state of the prompt": {`update {"sessionUpdate":"usage_update","used":1,"size":2}; unprompted/late`},
		}, steps: `
			old p1; chat prompts first; agent ends; settle; agent $1 by the way; pass 5s
			chat reads RUN | DONE success | RUN | says: by the way | DONE success
			chat prompts second; agent ends; chat ends`},
		// A message that is edited, or answered again, begins a session, as an agent cannot take back what it remembers. It
		// is given the history of its branch and nothing of what was replaced. What the old session still sends names the
		// new one no more.
		{name: "a branch begins a session", steps: `
			new p1; chat prompts #u1 first; agent says/m1 said first; ends; chat ends
			chat prompts #u2 second; sent session_id=S1; agent says/m2 said second; ends; chat ends; settle
			chat prompts #u2 second; sent session_id= context~'said first' context!~'said second'; settle
			agent update {"sessionUpdate":"session_created","content":{"type":"session_created"}}
			agent frame {"type":"prompt_result","run_id":"$run","prompt_id":"$prompt","ok":true,"session_id":"S-branch","session_created":true,"stop_reason":"end_turn"}
			chat ends; settle; chat instance session=S-branch
			chat prompts #u3 third; sent session_id=S-branch; agent ends; chat ends`},
		// The context goes to an agent once: with the prompts of a session that does not exist yet, and again to an agent
		// that was started anew and may not have the session.
		{name: "context is sent once", plan: plan{agents: map[string]acpgateway.AgentConfig{"dev": {SystemContext: "Be brief."}}}, steps: `
			old p1; chat prompts hi; sent context~'Be brief.'; agent fails Error: no key; chat ends
			# It has no session yet.
			chat prompts hi; sent context~'Be brief.'; agent ends; chat ends
			repeat 2
				chat prompts hi; sent context=; agent ends; chat ends
			end
			agent exits; settle
			chat prompts hi; sent context~'Be brief.'; agent ends; chat ends
			chat prompts hi; sent context=; agent ends; chat ends`},
		// prompt_result twice, or of no prompt: the first counts.
		{name: "prompt_result twice", steps: `
			old p1; chat prompts hi
			agent frame {"type":"prompt_result","run_id":"$run","prompt_id":"nobody's","error":"x"}
			agent says once; ends; fails Error: twice; chat ends; refused unexpected 1
			chat prompts again; late fails Error: thrice; agent says/m2 on; ends; chat ends; refused unexpected 2
			chat reads RUN | says: once | DONE success | RUN | says: on | DONE success`},
		// prompt_result ok without stop_reason is a finish.
		{name: "prompt_result without stop_reason", steps: `
			old p1; chat prompts hi; agent says done; p1 raw {"type":"prompt_result","run_id":"$run","prompt_id":"$prompt","ok":true}
			chat ends; reads RUN | says: done | DONE success`},
		// prompt_result ok:false shows the chain of causes, and is one RUN_ERROR. The agent lives: the next prompt needs no
		// acp_open.
		{name: "prompt_result that is not ok", steps: `
			old p1; chat prompts hi; agent signal {"type":"text","text":"[proxy:error] model overloaded"}
			agent stderr 529 from upstream; fails Error: model overloaded; chat ends
			chat last agent_error | model overloaded | 529 from upstream
			chat reads RUN | custom proxy.text | ERROR agent_error
			chat posts again; p1 gets prompt_send; agent ends; chat ends`},
		// A prompt's time does run out, and its agent is sent a cancel.
		{name: "timeout", plan: plan{limits: acpgateway.Limits{Prompt: 10 * time.Minute}}, steps: `
			new p1; chat prompts hi; sent timeout_ms=600000; clock; chat ends; took 10m..10m1s
			chat reads RUN | ERROR agent_prompt_timeout
			p1 gets session_cancel`},
	})
}

// What comes before the prompt: acp_open, and the preparation of the workspace.
func TestOpening(t *testing.T) {
	perform(t, []script{
		// An agent that does not start in time is one RUN_ERROR, and is closed.
		{name: "timeout", plan: plan{limits: acpgateway.Limits{Open: time.Minute}}, steps: `
			new p1; clock; chat posts hi; p1 gets acp_open; chat ends; took 1m..1m1s
			chat reads RUN | ERROR agent_open_timeout
			p1 gets acp_close`},
		// acp_opened ok:false shows the chain of causes, and what to do when the command is missing.
		{name: "acp_opened that is not ok", steps: `
			old p1; chat posts hi; p1 gets acp_open; agent stderr bwrap: execvp codex-acp: No such file or directory
			agent signal {"type":"sandbox_instance_status","instance_name":"i","provider":"bwrap","runtime":null,"status":"error","last_seen_at":"now","last_error":"exited at once"}
			agent exits 1; opens Error: agent closed; chat ends
			chat last agent_command_not_found | codex-acp | agent closed | code 1 | exited at once | Install it
			settle; chat instance error='exited at once' provider=bwrap; p1 silent`},
		// Once an agent has opened, the stderr and the exit of the process before it are no cause of its death.
		{name: "the cause of this death", steps: `
			old p1; chat posts hi; p1 gets acp_open; agent stderr first trouble
			agent exits 9; agent opens; p1 gets prompt_send
			agent stderr second trouble; exits 2; fails Error: agent closed; chat ends
			chat last agent_exited | agent closed | code 2 | second trouble; lacks first trouble | code 9`},
		// init_step is a step of the Run, init_result ends them all.
		{name: "init_step is a step", steps: `
			old p1; chat posts hi; p1 gets acp_open; agent signal {"type":"init_step","stage":"clone","status":"start"}
			agent signal {"type":"init_step","stage":"clone","status":"done"}; signal {"type":"init_step","stage":"install","status":"start"}
			agent signal {"type":"init_result","ok":true,"exitCode":0}; opens; p1 gets prompt_send; agent ends; chat ends
			chat reads RUN | step init:clone | step done init:clone | step init:install | step done init:install | DONE success`},
		// A workspace that could not be prepared is one RUN_ERROR with the reason.
		{name: "init failed", steps: `
			old p1; chat posts hi; p1 gets acp_open
			agent signal {"type":"init_step","stage":"clone","status":"failed","message":"no such repository"}
			agent signal {"type":"init_result","ok":false,"exitCode":128,"error":"git: exit 128"}; opens Error: init failed; chat ends
			chat last agent_init_failed | no such repository | git: exit 128
			settle; chat instance init~128`},
	})
}
