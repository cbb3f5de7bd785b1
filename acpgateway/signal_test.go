package acpgateway_test

import (
	"aqueduct/acpgateway"
	"encoding/json"
	"testing"
	"time"
)

// acp is a thread's state under /acp.
func (h *acpEnv) acp(thread string) map[string]json.RawMessage {
	h.t.Helper()
	var state struct{ ACP map[string]json.RawMessage }
	h.must(json.Unmarshal(h.session(thread).State, &state))
	return state.ACP
}

// What an agent and its proxy report beside the words of a prompt.
func TestSignals(t *testing.T) {
	perform(t, []script{
		// session_created names the session only while none is named; the end of a prompt names which one goes on.
		{name: "session id", steps: `
			new p1; chat prompts hi; sent session_id=; agent update {"sessionUpdate":"session_created","content":{"type":"session_created"}}
			agent frame {"type":"acp_update","run_id":"$run","prompt_id":"$prompt","session_id":"S2","update":{"sessionUpdate":"session_created","content":{"type":"session_created"}}}
			settle; chat instance session=S1
			agent frame {"type":"prompt_result","run_id":"$run","prompt_id":"$prompt","ok":true,"session_id":"S3","session_created":true,"session_recreated_from":"S2","stop_reason":"end_turn"}
			chat ends; settle; chat instance session=S3
			chat prompts again; sent session_id=S3; agent ends; chat ends`},
		// session_state and config_option_update are kept in the thread's state, and what follows from them: the current
		// mode and model.
		{name: "session state", steps: `
			new p1; chat prompts hi
			agent update {"content":{"type":"session_state","activity":"busy","inFlight":1,"currentModeId":"ask","currentModelId":"big"}}
			agent update {"sessionUpdate":"config_option_update","configOptions":[{"id":"mode","name":"Mode","type":"select","currentValue":"plan","options":[{"value":"plan","name":"Plan"}]},{"id":"model","name":"Model","type":"select","currentValue":"small","options":[{"value":"small","name":"Small"}]}]}
			agent ends; chat ends; settle; chat acp modeId=plan modelId=small configOptions~Small`},
		// Transport, sandbox and init are kept in the thread's state; agent_notification, branch_created and text are emitted.
		{name: "of the proxy", steps: `
			new p1; chat prompts hi; agent signal {"type":"transport_connected","instance_name":"i","at":"now"}
			agent signal {"type":"sandbox_instance_status","instance_name":"i","provider":"bwrap","runtime":null,"status":"running","last_seen_at":"now","last_error":null}
			agent signal {"type":"init_result","ok":true}; signal {"type":"text","text":"[proxy:error] odd"}
			agent signal {"type":"agent_notification","method":"_codex/x","params":{"a":1}}
			agent signal {"type":"session_update","update":{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"in the old form"}}}
			agent frame {"type":"branch_created","run_id":"$run","branch":"feature"}; ends; chat ends; settle
			chat reads RUN | custom proxy.text | custom proxy.agent_notification | says: in the old form | custom proxy.branch_created | DONE success
			chat acp transport={"connected":true} sandbox={"status":"running","provider":"bwrap"} init={"ok":true}`},
		// Much state that no Turn reads does not pile up: it is taken in, and acknowledged.
		{name: "much state between prompts", steps: `
			new p1; chat prompts hi; agent ends; chat ends
			repeat 1100
				agent unprompted {"sessionUpdate":"usage_update","used":$i,"size":2000}
			end
			pass 10s; p1 acked; chat acp usage~1099`},
		// What comes right after the end of a prompt is not lost: state is the next Run's.
		{name: "state behind the end", steps: `
			new p1; chat prompts hi; agent ends; update {"sessionUpdate":"usage_update","used":7,"size":2000}; chat ends; settle
			chat prompts again; agent ends; chat ends; settle; chat acp usage~7
			chat reads RUN | DONE success | RUN | DONE success`},
		// Results of controls that were not requested are counted.
		{name: "control results that were not requested", steps: `
			old p1; chat prompts hi; agent frame {"type":"session_control_result","run_id":"$run","control_id":"nobody's","ok":true}
			agent frame {"type":"sandbox_control_result","run_id":"$run","request_id":"nobody's","ok":true}
			p1 raw {"type":"heartbeat","agent_id":"p2"}
			refused unexpected 3; agent ends; chat ends; reads RUN | DONE success`},
	})
}

// Chunks of one message become one record 800 ms after the first of them, or as set, and another message is another.
func TestRecords(t *testing.T) {
	perform(t, []script{
		{name: "merge for 800 ms", steps: `
			new p1; chat prompts hi; agent says a; pass 700ms; agent says b; pass 60ms; chat records
			pass 250ms; chat records m: ab
			agent says c; says/m2 d; pass 2s; settle; chat records m: ab | m: c | m2: d
			agent ends; chat ends`},
		{name: "merge as set", plan: plan{limits: acpgateway.Limits{MergeTime: 8 * time.Second, MergeChars: 10}}, steps: `
			new p1; chat prompts hi; agent says abcde; pass 7s; chat records
			agent says fghij; pass 50ms; settle; chat records m: abcdefghij
			agent says k; pass 10s; settle; chat records m: abcdefghij | m: k
			agent ends; chat ends`},
		// What is being merged is put on record before any other update, before a proxy's signal, and at the end of the
		// prompt, so that the order is true.
		{name: "are in order", steps: `
			new p1; chat prompts hi; agent says a; mode plan; says b; stderr x; says c; stderr y\n
			agent frame {"type":"branch_created","run_id":"$run","branch":"feature"}; says d; ends; chat ends; settle
			chat records m: a | acp acp.update.received {"type":"session_update","session":"S1","update":{"sessionUpdate":"current_mode_update","currentModeId":"plan"}}
			| m: bc | proxy acp.update.received {"text":"[agent:stderr] x\ny\n","type":"text"} | proxy branch_created {"run_id":"$run","branch":"feature"}
			| m: d | acp acp.update.received {"type":"prompt_result","ok":true,"stopReason":"end_turn"}`},
		// What a prompt sent while its Turn was cancelled is on record too.
		{name: "of what is not read", steps: `
			new p1; chat prompts hi; settle; chat cancels; ends; p1 gets session_cancel; agent says late; stops; settle
			chat records m: late | acp acp.update.received {"type":"prompt_result","ok":true,"stopReason":"cancelled"}`},
	})
}
