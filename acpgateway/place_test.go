package acpgateway_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/wire"
)

// Which proxy a Session's agent runs at, how many run there, and when one is closed.
func TestPlace(t *testing.T) {
	perform(t, []script{
		// Without a proxy a message fails at once.
		{name: "offline", steps: `
			clock; chat posts hi; ends; took 0s..1s; chat reads RUN | ERROR agent_offline
			old p1; chat prompts again; agent ends; chat ends; p1 cuts; chat posts and again; ends
			chat reads RUN | ERROR agent_offline | RUN | DONE success | RUN | ERROR agent_offline`},
		// max_concurrent counts agents: one that rests is closed to make room, else a message fails with agent_busy. The
		// Session whose agent was closed gets another when there is room.
		{name: "max_concurrent", steps: `
			old p1 most=2; chat/a prompts hi; pass 1s; chat/b prompts hi
			chat/c posts hi; ends; reads RUN | ERROR agent_busy
			p1 silent; agent/a ends; chat/a ends; settle
			chat/d posts hi; p1 gets acp_close run_id=$run/a; gets acp_open; agent/a exits; closes; agent/d opens; p1 gets prompt_send
			chat/a posts again; ends; reads RUN | DONE success | RUN | ERROR agent_busy
			agent/d ends; chat/d ends; agent/b ends; chat/b ends
			chat/a posts once more; p1 gets acp_close; gets acp_open; agent/a opens; p1 gets prompt_send; agent/a ends; chat/a ends
			p1 silent`},
		// Room is made only where no proxy has any: a full proxy's resting agents are left alone while another has a seat.
		{name: "room is made last", steps: `
			old p1 most=1; chat/a prompts hi; agent/a ends; chat/a ends
			old p2 most=2; chat/b@p2 prompts hi; p1 silent; agent/b ends; chat/b ends`},
		// A new Session goes to the least busy of several proxies with its Agent, a tie by name, and stays there, whatever
		// is busy then, and after a restart too. An agent that rests counts.
		{name: "least busy proxy", steps: `
			old p1; new p2; chat/a prompts hi; chat/b@p2 prompts hi; agent/b ends; chat/b ends
			chat/c prompts hi; chat/d@p2 prompts hi
			agent/a ends; chat/a ends; agent/c ends; chat/c ends; agent/d ends; chat/d ends
			chat/a prompts again; agent/a ends; chat/b@p2 prompts again; agent/b ends; settle
			chat/b instance proxy=p2 name=tuixiu-run-$run
			p2 cuts; chat/b posts where are you?; ends; reads RUN | DONE success | RUN | DONE success | RUN | ERROR agent_offline
			restart; p1 links; p2 links; chat/b@p2 prompts and now?; agent/b ends; chat/b ends; p1 silent; p2 silent`},
		// An agent that rests is closed; the next prompt opens another, with the old session.
		{name: "idle", plan: plan{limits: acpgateway.Limits{Idle: 5 * time.Minute}}, steps: `
			new p1; chat prompts hi; agent ends; chat ends; pass 4m; p1 silent; pass 2m
			p1 gets acp_close; agent exits; closes; pass 10m; p1 silent
			chat instance status=closed session=S1
			chat posts again; p1 gets acp_open; agent opens; p1 gets prompt_send session_id=S1; agent ends; chat ends; settle; p1 acked`},
		// It rests as long as its settings keep it alive.
		{name: "keepalive", plan: plan{agents: map[string]acpgateway.AgentConfig{"dev": {Keepalive: 20 * time.Minute}}}, steps: `
			old p1; chat prompts hi; agent ends; chat ends; pass 19m; p1 silent; pass 2m; p1 gets acp_close`},
		// A thread that is deleted needs no agent.
		{name: "deleted thread", steps: `
			new p1; chat prompts hi; settle; deleting t1; p1 gets session_cancel; outcome ok
			p1 gets acp_close; gets sandbox_control action=remove_workspace run_id=$run instance_name=tuixiu-run-$run
			agent stops; exits; closes; settle; p1 silent; acked`},
	})
}

// A prompt whose prompt_result was lost ends all the same, and its seat is free; one that goes on is not stopped.
func TestLostResult(t *testing.T) {
	perform(t, []script{
		// A cut that a proxy without numbers never makes up for: the Run ends once, at the grace after the link came back
		// and nothing comes, and the prompt is cancelled. The real one answers the cancel of what it does not have by nothing.
		{name: "in a short cut", steps: `
			old p1; chat prompts hi; agent says done; settle; p1 cuts; agent ends; pass 2s
			clock; p1 links; chat ends; took 45s..46s
			chat reads RUN | says: done | custom acp.gap | ERROR agent_link_lost
			p1 gets session_cancel; pass 5s; p1 silent`},
		// A prompt that was sent when the link was back was not lost in the cut, however long its agent thinks; nor is one of
		// which anything came since.
		{name: "in no cut", steps: `
			old p1; chat posts hi; p1 gets acp_open; cuts; pass 2s; p1 links; gets acp_open; agent opens; p1 gets prompt_send
			pass 10m; agent says one,; p1 cuts; pass 2s; p1 links; pass 44s; agent says two; pass 10m; agent ends; chat ends
			chat reads RUN | says: one, | custom acp.gap | two | DONE success
			p1 silent`},
		// A cut that is longer than the grace fails the Turn, and the prompt ends at the grace all the same. An agent that is
		// still at it stops; the one here has ended long ago, its process rests and keeps its session until another needs
		// the room.
		{name: "in a long cut", steps: `
			old p1 most=1; chat prompts hi; agent says almost done; settle
			p1 cuts; agent ends; chat ends; pass 15s; p1 links; pass 46s; p1 busy 0; gets session_cancel; pass 15s; p1 silent
			chat/t2 posts hi; p1 gets acp_close; gets acp_open; agent/t2 opens; p1 gets prompt_send; agent/t2 ends; chat/t2 ends
			chat/t2 reads RUN | DONE success`},
		// Where the agent went on in a Run of its own and a second cut swallowed the result.
		{name: "of a prompt that was left", steps: `
			old p1; chat prompts hi; p1 cuts; chat ends; pass 15s; p1 links; agent says still here; settle
			p1 cuts; agent ends; pass 2s; p1 links; pass 2m; p1 busy 0`},
		// A prompt that outlived the grace of its link is not stopped while its agent goes on.
		{name: "not where the agent goes on", steps: `
			old p1; chat prompts hi; p1 cuts; chat ends; pass 15s; p1 links
			repeat 5
				agent says on,; pass 10m
			end
			p1 silent; agent ends; settle
			chat reads RUN | ERROR agent_link_lost | RUN | custom acp.gap | says: on,on,on,on,on, | DONE success`},
		// A message behind a lost result is answered and stopped by nothing, however long its agent thinks.
		{name: "with a message behind it", steps: `
			old p1; chat prompts hi; p1 cuts; agent ends; chat ends; pass 15s; p1 links; pass 10s
			chat prompts again; pass 5m; p1 silent; agent says/m2 thought it over; ends; chat ends
			p1 busy 0; pass 2m; p1 silent`},
		// A proxy that counts lists what its agents are at. What it does not list, and does not end, is gone.
		{name: "of a proxy that counts", steps: `
			new p1; chat prompts hi; p1 cuts; chat ends; p1 forgets; links; pass 7s; p1 busy 0`},
	})
}

// What an agent that was closed leaves behind belongs to no Turn.
func TestTrailingFrames(t *testing.T) {
	idle := plan{limits: acpgateway.Limits{Idle: 5 * time.Minute}}
	perform(t, []script{
		// Its proxy may forget it, and so does the gateway.
		{name: "are acknowledged", plan: idle, variants: map[string][]string{"new": {"new"}, "old": {"old"}}, steps: `
			$1 p1; chat prompts hi; agent says one; ends; chat ends
			agent unprompted {"sessionUpdate":"usage_update","used":10,"size":100}; pass 6m; p1 gets acp_close
			agent signal {"type":"transport_disconnected","instance_name":"i","code":0,"signal":null,"at":"now","reason":"closed"}
			agent exits; closes; p1 raw {"type":"nonsense","run_id":"$run"}
			pass 1m; p1 acked; pass 5m; channels 0
			chat reads RUN | says: one | DONE success`},
		// A title is emitted once: it waits for the next Turn, and what lies behind it too.
		{name: "wait where they are state", plan: idle, steps: `
			new p1; chat prompts hi; agent ends; chat ends
			agent unprompted {"sessionUpdate":"usage_update","used":10,"size":100}
			agent unprompted {"sessionUpdate":"session_info_update","title":"Shop"}; pass 6m; p1 gets acp_close
			agent exits; closes; pass 1m; p1 acked 3
			chat prompts again; agent ends; chat ends; settle
			chat acp info={"title":"Shop"}
			p1 acked`},
	})
}

// Of prompts that come at once no more are placed than the proxy allows.
func TestPromptsAtOnceKeepToTheBound(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := oldProxy(h, "p1")
		p.most = 2
		p.link()
		var streams []*stream
		for i := range 6 {
			streams = append(streams, h.post("t"+strconv.Itoa(i), "hi"))
		}
		h.settle()
		opened := 0
		for _, in := range p.left() {
			if _, ok := in.frame.(*wire.Open); ok {
				opened++
			}
		}
		if opened != 2 {
			t.Errorf("%d agents were opened", opened)
		}
		busy := 0
		for i := range streams {
			if all := strings.Join(h.events("t"+strconv.Itoa(i)), "\n"); strings.Contains(all, `"code":"agent_busy"`) {
				busy++
			}
		}
		if busy != 4 {
			t.Errorf("%d were told that it is busy", busy)
		}
	})
}
