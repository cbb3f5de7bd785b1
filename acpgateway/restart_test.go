package acpgateway_test

import (
	"strings"
	"testing"

	"aqueduct/acpgateway"
	"aqueduct/store"
)

// A server that is started anew takes up the prompt that its proxy still has: it is not sent again, and nothing is lost or
// doubled.
func TestGatewayRestarted(t *testing.T) {
	perform(t, []script{
		{name: "in mid-message", steps: `
			new p1; chat prompts hi; agent words 0-10; settle
			# The second ten are on their way when it stops.
			agent words 10-20; restart; agent words 20-30; pass 2s; p1 links; agent words 30-40; pass 1m
			agent words 40-50; ends; settle
			chat reads RUN | says: {0-50} | DONE success
			p1 acked; silent; chat prompts again; agent ends; chat ends; p1 silent`},
		{name: "between messages", steps: `
			new p1; chat prompts hi; agent words 0-10; settle
			restart; agent words/m2 10-20; pass 2s; p1 links; agent words/m2 20-30; pass 1m
			agent words/m2 30-40; ends; settle
			chat reads RUN | says: {0-10} | says: {10-40} | DONE success
			p1 acked; silent; chat prompts again; agent ends; chat ends; p1 silent`},
		// What a cut link kept from the server before its restart comes after it.
		{name: "while the link is cut", steps: `
			new p1; chat prompts hi; agent words 0-10
			p1 cuts; agent words 10-20; restart; p1 links
			agent words 20-30; ends; settle
			chat joined {0-30}
			p1 silent`},
		// An old proxy's prompt is taken up too, by its id; what was sent meanwhile is a gap.
		{name: "old proxy", steps: `
			old p1; chat prompts hi; agent words 0-10; settle
			restart; agent words 10-20; pass 2s; p1 links
			agent words/m2 20-30; ends; settle
			chat reads RUN | says: {0-10} | custom acp.gap | says: {20-30} | DONE success
			p1 silent`},
		// An old proxy that sends nothing of the prompt after the restart has lost its result: one RUN_ERROR, at the grace.
		{name: "old proxy lost the result", steps: `
			old p1; chat prompts hi; agent says one; settle
			restart; agent ends; pass 2s; p1 links; pass 44s
			chat reads RUN | says: one | custom acp.gap
			pass 3s; chat reads RUN | says: one | custom acp.gap | ERROR agent_link_lost
			p1 gets session_cancel`},
		// A proxy that does not come back costs one RUN_ERROR, at the grace.
		{name: "proxy gone", steps: `
			new p1; chat prompts hi; agent words 0-10; settle
			restart; pass 44s; chat reads RUN | says: {0-10}
			pass 2s; chat reads RUN | says: {0-10} | ERROR agent_link_lost`},
		// A proxy that comes back without the prompt has lost it: the Run ends at once, as it is another start of the proxy.
		{name: "prompt lost", steps: `
			new p1; chat prompts hi; agent words 0-10; settle
			restart; p1 reborn e2; links; settle
			chat reads RUN | says: {0-10} | ERROR agent_proxy_restarted`},
		// A proxy that lists the prompt has it, however long its agent is quiet.
		{name: "quiet agent", steps: `
			new p1; chat prompts hi; agent says one,; settle
			p1 cuts; pass 2s; p1 links; pass 10m
			agent says two; settle; restart; p1 links; pass 10m
			agent says/m2 three; ends; settle
			chat reads RUN | says: one,two | says: three | DONE success
			p1 silent`},
		// A permission that is open at the restart is answered after it, by the agent's own option.
		{name: "permission open", steps: `
			new p1; chat prompts hi; agent words 0-5; asks/0 call-1; chat ends
			agent words 5-10; settle; agent words 10-12; settle
			restart; agent words 12-15; p1 links; settle
			agent words 15-20; settle; p1 silent
			chat asked q; answers allow_once
			p1 gets session_permission request_id=0 outcome=selected option_id=p-once session_id=S1
			agent words/m2 20-25; ends; settle
			chat reads RUN | says: {0-5} | calls execute | calls request_permission | DONE interrupt
			| RUN | says: {5-20} | gets {"status":"approved","optionId":"allow_once","kind":"allow_once"} | says: {20-25}
			| gets The agent ended without a result. | DONE success
			p1 silent; acked`},
		// Between the prompt's end and its being kept: the result comes again, and ends the Run once.
		{name: "at the end", steps: `
			new p1; chat prompts hi; agent says one; settle
			p1 cuts; agent ends; restart; p1 links; settle
			chat reads RUN | says: one | DONE success
			p1 acked; chat prompts again; agent ends; chat ends`},
		// Again and again: it takes the prompt up each time.
		{name: "often", steps: `
			new p1; chat prompts hi
			agent words 0-5; settle; restart; agent words 5-10; p1 links
			agent words 10-15; restart; agent words 15-20; p1 links
			agent words 20-25; settle; restart; agent words 25-30; p1 links
			agent words 30-35; restart; agent words 35-40; p1 links
			agent words 40-45; settle; restart; agent words 45-50; p1 links
			agent ends; settle
			chat joined {0-50}
			p1 silent; acked`},
		// While the prompt waits for acp_opened: the new server cannot know whether it was sent. It is not sent again, and
		// the Run ends soon.
		{name: "while opening", steps: `
			new p1; chat posts hi; p1 gets acp_open; settle
			restart; p1 links; agent opens
			agent signal {"type":"sandbox_instance_status","instance_name":"i","provider":"p","runtime":null,"status":"running","last_seen_at":"now","last_error":null}
			pass 10s; chat reads RUN | ERROR agent_link_lost
			chat prompts again; agent ends; chat ends; p1 silent`},
		// What was open when a Run failed is not open in the Run that no prompt began after a restart.
		{name: "behind a failed Run", steps: `
			new p1; chat prompts hi; agent says one; settle
			p1 cuts; agent says two,; chat ends; restart; p1 links
			agent says three; ends; pass 10s
			chat reads RUN | says: one | ERROR agent_link_lost | RUN | says: two,three | DONE success`},
		// A proxy whose Agent only its token names serves it after the restart too.
		{name: "agent that only a token names", plan: plan{agents: map[string]acpgateway.AgentConfig{}}, steps: `
			new p1; chat prompts hi; agent says one; settle
			restart; p1 links; agent says/m2 two; ends; settle
			chat reads RUN | says: one | says: two | DONE success
			p1 silent`},
	})
}

// What was open within the prompt goes on after the restart: calls, thoughts, plans and messages.
func TestGatewayRestartedInAnUpdate(t *testing.T) {
	perform(t, []script{
		// One start of a call, its arguments once, one result.
		{name: "in a call", steps: `
			new p1; chat prompts hi; agent calls/call-1 $running; settle
			restart; p1 links; agent call/call-1 $finished; ends; settle
			chat reads RUN | calls execute | gets out | DONE success
			chat once TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END TOOL_CALL_RESULT ACTIVITY_SNAPSHOT`},
		// Arguments that are emitted after the call's start, or with it, are emitted once, and are those it has.
		{name: "before a call's arguments", variants: map[string][]string{
			"emitted after":  {`"rawInput":{}`, `"status":"in_progress","rawInput":{"cmd":"ls"}`},
			"emitted before": {`"rawInput":{"cmd":"ls"}`, `"status":"in_progress"`},
		}, steps: `
			new p1; chat prompts hi; agent calls/call-1 "title":"ls","kind":"execute","status":"pending",$1; settle
			restart; p1 links; agent call/call-1 $2; settle
			restart; p1 links; agent call/call-1 $finished; ends; settle
			chat reads RUN | calls execute | gets out | DONE success
			chat once TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END TOOL_CALL_RESULT ACTIVITY_SNAPSHOT
			chat has 1 TOOL_CALL_ARGS | ls`},
		// A call's arguments are emitted while it runs, once no more of them has come for a moment, never a part, and once.
		{name: "behind a running call's arguments", steps: `
			new p1; chat prompts hi
			agent calls/call-1 "kind":"execute","status":"in_progress","rawInput":{"cwd":"/w"}; pass 100ms
			agent call/call-1 "status":"in_progress","rawInput":{"cwd":"/w","command":"make"}; pass 200ms
			chat has 0 "type":"TOOL_CALL_ARGS"; has 0 "type":"TOOL_CALL_CHUNK"
			pass 1s; chat has 1 "type":"TOOL_CALL_ARGS"; has 1 "type":"TOOL_CALL_ARGS" | make; has 0 "type":"TOOL_CALL_CHUNK"
			restart; p1 links; settle; agent call/call-1 $finished; ends; pass 2s
			chat has 1 "type":"TOOL_CALL_ARGS"; has 0 "type":"TOOL_CALL_CHUNK"`},
		// A permission for a call that was begun before the restart shows the call's arguments.
		{name: "before a permission", steps: `
			new p1; chat prompts hi; agent calls/call-1 $running; settle
			restart; p1 links; agent asks-of/0 call-1; settle
			chat answers allow_once; p1 gets session_permission; agent call/call-1 $finished; ends; settle
			chat has 1 TOOL_CALL_ARGS | \"args\":{\"cmd\":\"ls\"}; legal`},
		// A message that goes on after a call that stood in it is another one; late news of a call that has its result
		// begins none, and a call of the same id that begins then is another.
		{name: "between parts of a message", steps: `
			new p1; chat prompts hi; agent says one; calls/call-1 $running; call/call-1 $finished; settle
			restart; p1 links; agent call/call-1 "title":"ls -l"; says two; calls/call-1 $running; call/call-1 $finished; ends; settle
			chat reads RUN | says: one | calls execute | gets out | says: two | calls execute | gets out | DONE success`},
		// Thoughts and plans go on too.
		{name: "in a thought", steps: `
			new p1; chat prompts hi
			agent update {"sessionUpdate":"plan","entries":[{"content":"look","priority":"high","status":"pending"}]}
			agent thinks hm; settle; restart; p1 links; agent thinks , yes; says two
			agent update {"sessionUpdate":"plan","entries":[{"content":"look","priority":"high","status":"completed"}]}
			agent ends; settle
			chat reads RUN | thinks: hm, yes | says: two | DONE success
			chat once ACTIVITY_SNAPSHOT ACTIVITY_DELTA REASONING_START REASONING_END`},
		// More than a mark may hold: the Turn goes on under ids of its own, and its Run stays legal.
		{name: "with too much open", variants: map[string][]string{"": {strings.Repeat("x", 3000)}}, steps: `
			new p1; chat prompts hi
			repeat 4
				agent calls/call-1 "title":"w","kind":"execute","status":"in_progress","rawInput":{"cmd":"$1"}
			end
			agent says one; settle; restart; p1 links; agent says two; call/call-1 $finished; ends; settle
			chat legal; has 1 RUN_FINISHED`},
	})
}

// A server that had no time to say goodbye leaves its proxies online in the database: the next
// one corrects it.
func TestProxiesAreOfflineAfterAKill(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := oldProxy(h, "p1").link()
		h.settle()
		row, err := h.store.Proxy(h.t.Context(), store.System(), "p1")
		if err != nil || row.Status != store.ProxyOnline {
			t.Fatalf("%+v %v", row, err)
		}
		p.restart()
		h.must(acpgateway.NewRegistry(h.store).SaveProxy(h.t.Context(), row))
		h.restart()
		h.settle()
		if row, err = h.store.Proxy(h.t.Context(), store.System(), "p1"); err != nil || row.Status != store.ProxyOffline {
			t.Errorf("%+v %v", row, err)
		}
	})
}
