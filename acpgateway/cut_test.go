package acpgateway_test

import "testing"

// What a link that is cut loses, and what becomes of a prompt under way.
func TestLinkCut(t *testing.T) {
	perform(t, []script{
		// Two seconds in mid-prompt lose and double nothing.
		{name: "2s, new proxy", steps: `
			new p1; chat prompts hi; agent words 0-10
			p1 cuts; agent words 10-20; pass 2s; p1 links
			agent words 20-30; ends; chat ends; settle
			chat reads RUN | says: {0-30} | DONE success
			p1 acked; silent`},
		// What an old proxy reads of its agent without a link is lost; the gap is marked where it is.
		{name: "2s, old proxy", steps: `
			old p1; chat prompts hi; agent words 0-10
			p1 cuts; agent words 10-20; pass 2s; p1 links
			agent words 20-30; ends; chat ends
			chat reads RUN | says: {0-10} | custom acp.gap | {20-30} | DONE success
			p1 silent`},
		// A proxy that has nothing under way is not reported to have lost anything.
		{name: "between prompts", steps: `
			old p1; chat prompts hi; agent ends; chat ends
			p1 cuts; pass 2s; p1 links
			chat prompts again; agent says yes; ends; chat ends
			chat reads RUN | DONE success | RUN | says: yes | DONE success`},
		// A link that stays away ends the Run once, at the grace. What the agent sent meanwhile is the Session's next Run
		// when the link is back, and nothing of it is lost.
		{name: "60s", steps: `
			new p1; chat prompts hi; agent words 0-10; settle
			clock; p1 cuts; agent words 10-20; chat ends; took 45s..46s
			pass 15s; chat reads RUN | says: {0-10} | ERROR agent_link_lost
			p1 links; agent words 20-30; ends; pass 10s
			chat reads RUN | says: {0-10} | ERROR agent_link_lost | RUN | says: {10-30} | DONE success
			p1 acked; silent`},
		// The agent's prompt ended while the link was away: its next Run has that output, and ends.
		{name: "60s, prompt ended meanwhile", steps: `
			new p1; chat prompts hi
			p1 cuts; agent words 0-10; ends; chat ends; pass 1m; p1 links; pass 10s
			chat reads RUN | ERROR agent_link_lost | RUN | says: {0-10} | DONE success
			chat prompts again; agent ends; chat ends; p1 silent`},
		// An old proxy whose link was away too long: what it still reads of the prompt is the next Run, behind the mark of
		// the gap.
		{name: "60s, old proxy", steps: `
			old p1; chat prompts hi; agent words 0-5; settle
			p1 cuts; agent words 5-10; chat ends; pass 15s; p1 links
			agent words 10-15; ends; pass 10s
			chat reads RUN | says: {0-5} | ERROR agent_link_lost | RUN | custom acp.gap | says: {10-15} | DONE success
			p1 silent`},
		// An agent that asked while the link was away too long asks in the next Run, and gets the answer.
		{name: "60s, agent asks meanwhile", steps: `
			new p1; chat prompts hi
			p1 cuts; agent says may I?; asks/0 call-1; chat ends; pass 15s; p1 links; settle
			chat asked q; answers allow_once; p1 gets session_permission request_id=0 option_id=p-once
			agent says thanks; ends; chat ends
			chat reads RUN | ERROR agent_link_lost | RUN | says: may I? | calls execute | calls request_permission | DONE interrupt
			| RUN | gets {"status":"approved","optionId":"allow_once","kind":"allow_once"} | says: thanks
			| gets The agent ended without a result. | DONE success
			p1 silent`},
		// A message that comes before what was left is read: both are emitted, nothing twice.
		{name: "60s, message behind the prompt that was left", steps: `
			new p1; chat prompts hi; p1 cuts; chat ends; pass 15s; p1 links
			chat posts again; p1 gets prompt_send
			late says old,; ends; agent says/m2 new; ends; chat ends; settle
			chat reads RUN | ERROR agent_link_lost | RUN | says: old, | says: new | DONE success
			p1 silent`},
		// An answer that is given while the link is cut reaches the agent when it is back, once.
		{name: "answer meanwhile", variants: map[string][]string{"old": {"old"}, "new": {"new"}}, steps: `
			$1 p1; chat prompts hi; agent asks/0 call-1; chat ends
			p1 cuts; chat answers allow_once; pass 2s; p1 links
			p1 gets session_permission request_id=0 option_id=p-once
			agent says thanks; ends; chat ends; p1 silent`},
		// While the agent is being opened, again and again: one acp_open, one prompt_send.
		{name: "while opening", steps: `
			new p1; chat posts hi; p1 gets acp_open
			p1 cuts; agent opens; pass 2s; p1 links
			p1 gets prompt_send
			repeat 20
				agent says x; p1 cuts; agent says y; pass 1s; p1 links
			end
			agent ends; chat ends; settle
			chat reads RUN | says: xyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxy | DONE success
			p1 silent`},
		// An old proxy's acp_opened may be what a cut link swallowed: it is asked again.
		{name: "while opening, old proxy", steps: `
			old p1; chat posts hi; p1 gets acp_open
			p1 cuts; agent opens; pass 2s; p1 links
			p1 gets acp_open; agent opens; opens
			p1 gets prompt_send; agent ends; chat ends
			chat reads RUN | DONE success
			p1 silent`},
		// A prompt that a cut link swallowed is sent again on the next, and its agent may think as long as any.
		{name: "swallows a prompt", steps: `
			new p1; chat prompts hi; agent ends; chat ends; settle
			p1 deaf; chat posts again; settle
			p1 cuts; undeaf; pass 2s; p1 links
			p1 gets prompt_send; pass 10m; agent ends; chat ends
			chat reads RUN | DONE success | RUN | DONE success
			p1 silent`},
	})
}

// An agent's process that ends, alone or with its proxy's, is one error with its cause, and the next prompt opens another.
func TestAgentGone(t *testing.T) {
	perform(t, []script{
		// A proxy that was started anew has lost its agents.
		{name: "proxy restarted", steps: `
			new p1; chat prompts hi; agent words 0-10
			p1 cuts; reborn e2; pass 2s; p1 links; chat ends
			chat reads RUN | says: {0-10} | ERROR agent_proxy_restarted
			chat last proxy was restarted
			pass 1m; p1 silent
			chat prompts again; sent session_id=S1; agent says/m2 back; ends; chat ends
			chat reads RUN | says: {0-10} | ERROR agent_proxy_restarted | RUN | says: back | DONE success
			p1 silent`},
		// The process ends in mid-prompt, in the order of a real proxy (facts §3.6).
		{name: "exit", steps: `
			old p1; chat prompts hi; agent words 0-3
			agent stderr panic: oh no
			agent signal {"type":"transport_disconnected","instance_name":"i","code":2,"signal":null,"at":"now","reason":"agent_exit"}
			agent exits 2; signal {"type":"text","text":"[proxy:error] agent closed"}; fails Error: agent closed; chat ends
			chat reads RUN | says: {0-3} | custom proxy.text | ERROR agent_exited
			chat last agent closed | code 2 | panic: oh no
			pass 1m; p1 silent`},
		// acp_exit alone ends the Run too: prompt_result may be lost. The next prompt opens again, with init.
		{name: "exit without prompt_result", steps: `
			old p1; chat prompts hi; agent exits; chat ends
			chat reads RUN | ERROR agent_exited
			chat prompts again; sent init~agentInputs; agent ends; chat ends`},
		// The exit of the agent before, reported late, is not the exit of the one that is opened, which may take 9 s.
		{name: "exit of the one before", steps: `
			old p1; chat posts hi; p1 gets acp_open; agent exits; closes; pass 9s; agent opens
			p1 gets prompt_send; pass 1m; agent says here; ends; chat ends
			chat reads RUN | says: here | DONE success`},
		// acp_closed is an end too, when acp_exit and prompt_result do not come.
		{name: "closed", steps: `
			new p1; chat prompts hi; agent closes; chat ends
			chat reads RUN | ERROR agent_exited
			p1 silent`},
		// The exit that a Turn from before a restart of the server has not seen is not thrown away before it reads.
		{name: "exit, and the server restarts", steps: `
			new p1; chat prompts hi; agent says one; settle
			p1 cuts; agent exits; restart; p1 links; pass 30s
			chat reads RUN | says: one | ERROR agent_exited`},
		// The newest mark may be of an earlier start of the proxy: that shows nothing about the prompt that came after it,
		// whose agent thinks while nothing of this start is in the log.
		{name: "mark of an earlier start", steps: `
			new p1; chat prompts hi; agent says one; ends; chat ends
			p1 cuts; reborn e2; p1 links; settle
			chat prompts again; settle; restart; p1 links; settle
			agent says/m2 two; ends; settle
			chat reads RUN | says: one | DONE success | RUN | says: two | DONE success`},
	})
}
