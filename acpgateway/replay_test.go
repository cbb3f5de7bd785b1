package acpgateway_test

import "testing"

// An agent that is started again loads its session inside the prompt, and an old proxy passes the replay on under the
// prompt's id. The log has it already: the chat shows each word once.
func TestSessionLoadIsNotDoubled(t *testing.T) {
	ids := map[string][]string{"with ids": {"m1", "m2", "m3"}, "without ids": {"-", "-", "-"}}
	perform(t, []script{
		{name: "old proxy", variants: ids, steps: `
			old p1; chat prompts hi; agent says/$1 hel; says/$1 lo
			agent calls/call-1 "title":"ls","kind":"execute","status":"in_progress","rawInput":{"cmd":"ls"}; call/call-1 "status":"completed"
			agent ends; chat ends; agent exits; settle
			chat prompts again; sent session_id=S1; agent repeats hi; says/$1 hello
			agent calls/call-1 "title":"ls","kind":"execute","status":"completed","rawInput":{"cmd":"ls"}
			agent says/$2 as before; ends; chat ends
			chat reads RUN | says: hello | calls execute | gets completed | DONE success | RUN | says: as before | DONE success`},
		// In pieces, unmarked and without ids.
		{name: "old proxy, in pieces", steps: `
			old p1; chat prompts what is in it?; agent words/- 0-40; ends; chat ends; agent exits; settle
			chat prompts and else?; sent session_id=S1; agent repeats what is in it?; words/- 0-40; says/- w0 is; says/- , the first.; ends; chat ends
			chat reads RUN | says: {0-40} | DONE success | RUN | says: w0 is, the first. | DONE success`},
		// After the server's restart: the new server has its agent load the session again.
		{name: "server restarted", steps: `
			old p1; chat prompts hi; agent says/m1 hello; ends; chat ends; settle
			restart; p1 links; chat prompts again; sent session_id=S1
			agent repeats hi; says/m1 hello; says/m2 as before; ends; chat ends
			chat reads RUN | says: hello | DONE success | RUN | says: as before | DONE success`},
		// Nothing again of what was sent before a restart in mid-prompt, nor of what was sent after it.
		{name: "server restarted in mid-prompt", variants: ids, steps: `
			new p1; chat prompts hi; agent says/$1 one,; settle
			restart; p1 links; agent says/$1 more; calls/call-1 $running; settle
			restart; p1 links; agent call/call-1 $finished; says/$2 two; ends; settle
			agent exits; settle
			chat prompts again; agent repeats hi; says/$1 one,more
			agent calls/call-1 "title":"ls","kind":"execute","status":"completed","rawInput":{"cmd":"ls"},"rawOutput":"out"
			agent says/$2 two; says/$3 three; ends; chat ends
			chat reads RUN | says: one,more | calls execute | gets out | says: two | DONE success | RUN | says: three | DONE success`},
		// A proxy of ours marks what is repeated: what it does not mark is new, also under an id that the agent's earlier
		// process gave.
		{name: "agent numbers anew behind a proxy that marks", steps: `
			new p1 marks; chat prompts hi; agent says/m1 hello; ends; chat ends; agent exits; closes; settle
			chat prompts hi again; agent says/m1 hello; ends; chat ends
			chat reads RUN | says: hello | DONE success | RUN | says: hello | DONE success`},
		// An agent that could not load its session begins a new one, and may number its messages anew.
		{name: "agent numbers anew in a new session", steps: `
			old p1; chat prompts hi; agent says/m1 hello; ends; chat ends; agent exits; settle
			chat prompts again
			agent frame {"type":"acp_update","run_id":"$run","prompt_id":"$prompt","session_id":"S2","update":{"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"hello"}}}
			agent ends; chat ends
			chat reads RUN | says: hello | DONE success | RUN | says: hello | DONE success`},
	})
}
