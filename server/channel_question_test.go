package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// TestIngressApproval: state WAITING_APPROVAL and approval_required; after the decision the
// run goes on under the same run_id. A bare approve takes allow_once, reject reject_once.
func TestIngressApproval(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ decision, option, heard, status string }{
		{`"decision":"approve"`, "yes", "yes", "approved"},
		{`"decision":"reject","reason":"no"`, "no", "no", "rejected"},
		{`"decision":"approve","option_id":"ever"`, "ever", "yes", "approved"}, // an always stays ours
		{`"option_id":"no"`, "no", "no", "rejected"},
	} {
		t.Run(c.decision, func(t *testing.T) {
			t.Parallel()
			h := newEnv(t, asks)
			ch := h.channel("")
			ch.invoke("r1", "s1", "may I?")
			asked := ch.until("state WAITING_APPROVAL")
			if got := gist(asked); got != "run_started | state RUNNING | approval_required | state WAITING_APPROVAL" {
				t.Fatal(got)
			}
			q, state := asked[2], asked[3]
			if q.ApprovalID == "" || q.ToolCallID != q.ApprovalID || q.ToolName != "rm" || q.ArgsSummary != `Delete it? {"path":"/x"}` ||
				q.DeadlineTS <= q.TS || state.Detail.ApprovalID != q.ApprovalID {
				t.Errorf("%s\n%s", q.raw, state.raw)
			}
			ch.send(fmt.Sprintf(`{"type":"approval_decision","run_id":%q,"approval_id":%q,%s}`, q.RunID, q.ApprovalID, c.decision))
			rest := ch.until("done")
			if !strings.Contains(rest[1].Text, fmt.Sprintf(`"optionId":%q`, c.heard)) {
				t.Errorf("the agent heard %s", rest[1].raw)
			}
			settled := rest[0].Detail.Settled
			if rest[0].is() != "state RUNNING" || len(settled) != 1 || settled[0].ID != q.ApprovalID || settled[0].Status != c.status {
				t.Errorf("%s", rest[0].raw)
			}
			for _, m := range rest {
				if m.RunID != q.RunID || m.RequestID != "r1" || m.SessionID != "s1" {
					t.Errorf("%s", m.raw)
				}
			}
			a, err := h.store.Approval(t.Context(), store.System(), q.ApprovalID)
			if err != nil || a.DecidedVia != "ingress" || a.DecidedBy != "local" {
				t.Errorf("%v %v", a, err)
			}
			// The same again, and too late otherwise.
			ch.send(fmt.Sprintf(`{"type":"approval_decision","approval_id":%q,%s}`, q.ApprovalID, c.decision))
			if m := ch.next(); m.is() != "state DONE" || len(m.Detail.Settled) != 1 || m.Detail.Settled[0].OptionID != c.option {
				t.Errorf("again: %s", m.raw)
			}
			ch.send(fmt.Sprintf(`{"type":"approval_decision","approval_id":%q,"decision":"cancel"}`, q.ApprovalID))
			if m := ch.next(); m.Code != "already_decided" || m.ToolCallID != q.ApprovalID || m.Detail.Settled[0].OptionID != c.option || m.Detail.Settled[0].By != "local" {
				t.Errorf("late: %s", m.raw)
			}
		})
	}
}

// TestIngressUnclear: an unknown option is answered with an error and leaves the question open.
func TestIngressUnclear(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	ch := h.channel("")
	ch.invoke("r1", "s1", "may I?")
	asked := ch.until("state WAITING_APPROVAL")
	id, run := asked[2].ApprovalID, asked[2].RunID
	for _, refused := range []struct{ code, members string }{
		{"unknown_option", `"option_id":"maybe"`},
		{"invalid_body", `"decision":"yes"`},
		{"invalid_answer", `"decision":"approve","option_id":"no"`},
		{"not_found", `"decision":"approve","run_id":"another"`},
	} {
		ch.send(fmt.Sprintf(`{"type":"approval_decision","approval_id":%q,%s}`, id, refused.members))
		if m := ch.next(); m.Code != refused.code {
			t.Errorf("%s: %s", refused.members, m.raw)
		}
	}
	ch.send(fmt.Sprintf(`{"type":"tool_result","tool_call_id":%q,"ok":true,"result":"yes"}`, id))
	if m := ch.next(); m.Code != "not_found" {
		t.Errorf("a result for a question: %s", m.raw)
	}
	ch.invoke("r2", "s1", "something else")
	if m := ch.next(); m.Code != "message_not_taken" {
		t.Errorf("%s", m.raw)
	}
	ch.send(fmt.Sprintf(`{"type":"cancel_run","run_id":%q}`, run))
	if got := gist(ch.until("done")); got != "state RUNNING | state CANCELLED | done" {
		t.Error(got)
	}
}

// TestIngressTool: tool_request with deadline_ts, tool_result, and the run goes on.
func TestIngressTool(t *testing.T) {
	t.Parallel()
	for result, heard := range map[string]string{
		`"ok":true,"result":{"picked":2}`:                      `picked`,
		`"ok":false,"error":"broken"`:                          `broken`,
		`"ok":false,"error":{"code":"x","message":"no hands"}`: `no hands`,
		`"ok":true`: `"content":""`,
	} {
		t.Run(result, func(t *testing.T) {
			t.Parallel()
			h := newEnv(t, callsTool)
			ch := h.channel("")
			ch.invoke("r1", "s1", "go")
			asked := ch.until("state WAITING_TOOL")
			if got := gist(asked); got != "run_started | state RUNNING | tool_request | state WAITING_TOOL" {
				t.Fatal(got)
			}
			q := asked[2]
			if q.ToolName != "pick" || !strings.Contains(q.raw, `"args":{"of":3}`) || q.DeadlineTS <= q.TS || asked[3].Detail.ToolCallID != q.ToolCallID {
				t.Errorf("%s", q.raw)
			}
			ch.send(fmt.Sprintf(`{"type":"tool_result","ts":0,"run_id":%q,"tool_call_id":%q,%s}`, q.RunID, q.ToolCallID, result))
			rest := ch.until("done")
			if !strings.Contains(rest[1].Text, heard) || rest[0].is() != "state RUNNING" {
				t.Errorf("%s", gist(rest))
			}
			ch.send(fmt.Sprintf(`{"type":"tool_result","tool_call_id":%q,"ok":true,"result":"other"}`, q.ToolCallID))
			if m := ch.next(); m.Code != "already_decided" {
				t.Errorf("late: %s", m.raw)
			}
		})
	}
}

// asksTwice asks two questions at once.
func asksTwice(_ context.Context, say func(...bridge.Output), _ bridge.Call, answers []approval.Delivery) {
	if len(answers) == 0 {
		say(texts("m1", "Hm.")...)
		say(permission("q1"), permission("q2"))
		return
	}
	said, _ := json.Marshal(answers)
	say(texts("m2", string(said))...)
}

// TestIngressSettledElsewhere: decisions made through the inbox and the chat are in the log at once, one of two too.
func TestIngressSettledElsewhere(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asksTwice)
	ch := h.channel("")
	ch.invoke("r1", "s1", "may I?")
	asked := ch.until("state WAITING_APPROVAL")
	ids := last(asked).Detail.ApprovalIDs
	if got := gist(asked[3:]); got != "approval_required | approval_required | state WAITING_APPROVAL" || len(ids) != 2 {
		t.Fatal(got, ids)
	}
	h.decide(ids[1], `{"decision":"reject"}`)
	channelMessage := ch.until("state WAITING_APPROVAL")
	if got := gist(channelMessage); got != "state RUNNING | state WAITING_APPROVAL" {
		t.Fatal(got)
	}
	m, waits := channelMessage[0], channelMessage[1]
	if len(m.Detail.Settled) != 1 || m.Detail.Settled[0].ID != ids[1] || m.Detail.Settled[0].OptionID != "no" || m.Seq <= last(asked).Seq ||
		waits.Detail.ApprovalID != ids[0] {
		t.Errorf("%s %s", m.raw, waits.raw)
	}
	resume := fmt.Sprintf(`{"threadId":"s1","runId":"R2","protocolVersion":"1.0","messages":[],"resume":[{"interruptId":%q,"status":"resolved","payload":{"approved":true}}]}`, ids[0])
	h.open(h.request("POST", "/api/agui/chat", resume)).rest()
	rest := ch.until("done")
	if got := gist(rest[:1]); got != "state RUNNING" || len(rest[0].Detail.Settled) != 1 || rest[1].RunID != asked[0].RunID || rest[1].RequestID != "r1" {
		t.Errorf("%s", rest[0].raw)
	}
}

// TestIngressAskedInChat: a question of another client arrives on connecting, and without
// it within a heartbeat; its answer here lets the chat go on.
func TestIngressAskedInChat(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	h.chat("T", "R1", "may I?")
	ch := h.channel("")
	q := ch.next()
	if q.is() != "approval_required" || !q.Again || q.SessionID != "T" || q.RequestID != "R1" || q.Seq == 0 {
		t.Fatal(q.raw)
	}
	ch.approve(q.ApprovalID)
	if got := gist(ch.until("done")[:1]); got != "state RUNNING" {
		t.Error(got)
	}
	if history := h.do("GET", "/api/threads/T/messages?format=agui", "").body; !strings.Contains(history, `allow_once`) {
		t.Error(history)
	}
}

// TestIngressReconnect: from every seq of a run with questions on, a client that comes back
// receives what it missed, once, and every question that is open.
func TestIngressReconnect(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asksTwice)
	ch := h.channel("")
	ch.invoke("r0", "s1", "one before")
	for _, id := range last(ch.until("state WAITING_APPROVAL")).Detail.ApprovalIDs {
		ch.approve(id)
	}
	ch.until("done")
	ch.invoke("r1", "s1", "may I?")
	all := ch.until("state WAITING_APPROVAL")
	ids := last(all).Detail.ApprovalIDs
	h.comesBack("while it waits", all, ids)
	// One is settled by a chat POST, which is a short Run that ends with the rest.
	h.open(h.request("POST", "/api/agui/chat", fmt.Sprintf(
		`{"threadId":"s1","runId":"R2","protocolVersion":"1.0","messages":[],"resume":[{"interruptId":%q,"status":"resolved","payload":{"approved":true}}]}`, ids[0]))).rest()
	for _, m := range ch.until("state RUNNING") {
		if m.Seq > last(all).Seq { // what is not from the log is not sent again
			all = append(all, m)
		}
	}
	all = append(all, ch.until("state WAITING_APPROVAL")...)
	h.comesBack("while one of two waits", all, ids[1:])
	ch.approve(ids[1])
	all = append(all, ch.until("done")...)
	h.comesBack("when it is done", all, nil)
}

// comesBack connects with each seq as last_seq.
func (h *env) comesBack(when string, all []channelMessage, open []string) {
	h.t.Helper()
	for i := -1; i < len(all); i++ {
		seq := all[0].Seq - 1
		if i >= 0 {
			seq = all[i].Seq
		}
		missed := all[i+1:]
		want := make(map[string]bool)
		for _, id := range open {
			want[id] = true
		}
		ch := h.channel(fmt.Sprintf(`,"last_seq":{"s1":%d}`, seq))
		var heard []channelMessage
		for len(heard) < len(missed) || len(want) > 0 {
			m := ch.next()
			if m.Type == "error" {
				h.t.Fatalf("%s, from %d: %s", when, seq, m.raw)
			}
			delete(want, m.ApprovalID)
			if m.Again {
				if m.Seq > seq || !slices.Contains(open, m.ApprovalID) || !slices.ContainsFunc(all, func(channelMessage channelMessage) bool {
					return channelMessage.Seq == m.Seq && channelMessage.ApprovalID == m.ApprovalID
				}) {
					h.t.Errorf("%s, from %d: again %s", when, seq, m.raw)
				}
				continue
			}
			heard = append(heard, m)
		}
		// A message that is refused comes behind all there was.
		ch.send(`{"type":"none"}`)
		if m := ch.next(); m.Code != "unknown_type" {
			h.t.Errorf("%s, from %d: more: %s", when, seq, m.raw)
		}
		for n, m := range heard {
			if n >= len(missed) || m.raw != missed[n].raw {
				h.t.Errorf("%s, from %d: heard %s", when, seq, m.raw)
			}
		}
		_ = ch.conn.Close()
	}
}

// TestIngressLastSeq: as one number, of one session or a named one; beyond the log; of an unknown session.
func TestIngressLastSeq(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	ch := h.channel("")
	ch.invoke("r1", "s1", "hi")
	all := ch.until("done")
	if got := gist(h.channel(`,"last_seq":0`).until("done")); got != gist(all) {
		t.Error(got)
	}
	if m := h.channel(`,"last_seq":9999999`).next(); m.Code != "beyond_log" || m.SessionID != "s1" {
		t.Errorf("%s", m.raw)
	}
	if m := h.channel(`,"last_seq":{"none":5}`).next(); m.Code != "not_found" || m.SessionID != "none" {
		t.Errorf("%s", m.raw)
	}
	if m := h.channel(`,"last_seq":"5"`).next(); m.Code != "invalid_cursor" {
		t.Errorf("%s", m.raw)
	}
	ch.invoke("r2", "s2", "hi")
	ch.until("done")
	if m := h.channel(`,"last_seq":0`).next(); m.Code != "invalid_cursor" {
		t.Errorf("%s", m.raw)
	}
	if got := gist(h.channel(`,"last_seq":0,"session_id":"s1"`).until("done")); got != gist(all) {
		t.Error(got)
	}
	// A long way back, over other runs.
	for i := range 5 {
		ch.invoke(fmt.Sprintf("more%d", i), "s1", "hi")
		ch.until("done")
	}
	back := h.channel(fmt.Sprintf(`,"last_seq":{"s1":%d,"s2":0}`, all[2].Seq))
	seen := map[string][]channelMessage{}
	for len(seen["s1"]) < len(all)-3+5*len(all) || len(seen["s2"]) < len(all) {
		m := back.next()
		seen[m.SessionID] = append(seen[m.SessionID], m)
	}
	if got := gist(seen["s1"][:2]); got != "state DONE | done" || len(seen["s2"]) != len(all) {
		t.Errorf("%s, %d of s2", got, len(seen["s2"]))
	}
}

// TestIngressTwoSockets of one user, and its page: each receives everything, whichever answers.
func TestIngressTwoSockets(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	one := h.channel("")
	one.invoke("r1", "s1", "may I?")
	asked := one.until("state WAITING_APPROVAL")
	two := h.channel(`,"session_id":"s1"`)
	q := two.next()
	if q.is() != "approval_required" || q.Seq != asked[2].Seq {
		t.Fatalf("%s", q.raw)
	}
	two.approve(q.ApprovalID)
	one.approve(q.ApprovalID) // repeats it, at once
	var same [][]string
	for _, ch := range []*channelClient{one, two} {
		logged := map[int64]string{}
		for _, m := range ch.until("done") {
			answer := len(m.Detail.Settled) > 0 && m.Detail.Settled[0].By != "" // to who came second
			if m.Seq > last(asked).Seq && !answer {
				logged[m.Seq] = m.is()
			}
		}
		var all []string
		for _, seq := range slices.Sorted(maps.Keys(logged)) {
			all = append(all, logged[seq])
		}
		same = append(same, all)
	}
	if !slices.Equal(same[0], same[1]) || len(same[0]) != 4 {
		t.Errorf("%v\n%v", same[0], same[1])
	}
}

// TestIngressReplaySpeed: with a speed the pauses of the first time are there again, divided.
func TestIngressReplaySpeed(t *testing.T) {
	t.Parallel()
	h := newEnv(t, func(ctx context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
		say(texts("m1", "before")...)
		select {
		case <-time.After(600 * time.Millisecond):
		case <-ctx.Done():
		}
		say(texts("m2", "after")...)
	})
	ch := h.channel("")
	ch.invoke("r1", "s1", "go")
	all := ch.until("done")
	gap := func(speed string) (waited, kept time.Duration) {
		ask := fmt.Sprintf(`{"type":"replay_run","run_id":%q%s}`, all[0].RunID, speed)
		ch.send(ask)
		var at, ts time.Time
		for {
			switch m := ch.next(); {
			case m.Text == "before":
				at, ts = time.Now(), time.UnixMilli(m.TS)
			case m.Text == "after":
				waited, kept = time.Since(at), time.UnixMilli(m.TS).Sub(ts)
			case m.Code == "replay_in_progress": // the one before has sent all, and is not over yet
				ch.send(ask)
			case m.Type == "error":
				t.Fatalf("%s", m.raw)
			case m.Type == "done":
				return waited, kept
			}
		}
	}
	as, kept := gap(`,"speed":1`)
	third, _ := gap(`,"speed":3`)
	// What was sent may have lain in the socket for a moment before it was read.
	if slack := 50 * time.Millisecond; as < kept-slack || third < kept/3-slack {
		t.Errorf("a pause of %v is %v, and %v at three times the speed", kept, as, third)
	}
	none, _ := gap(`,"speed":"max"`)
	unnamed, _ := gap("")
	if third >= as || none >= third || unnamed >= third {
		t.Errorf("pauses of %v, %v at three times the speed, %v at most, %v without one", as, third, none, unnamed)
	}
}

// TestIngressReplay: a past run is sent again, as it was, and marked; so is one that waits, as far as it is.
func TestIngressReplay(t *testing.T) {
	t.Parallel()
	h := newEnv(t, asks)
	ch := h.channel("")
	ch.invoke("r1", "s1", "may I?")
	all := ch.until("state WAITING_APPROVAL")
	ch.send(fmt.Sprintf(`{"type":"replay_run","run_id":%q}`, all[0].RunID))
	replayed := ch.until("state WAITING_APPROVAL")
	ch.approve(all[2].ApprovalID)
	all = append(all, ch.until("done")...)
	ch.invoke("r2", "s1", "and again?")
	ch.until("state WAITING_APPROVAL")
	other := h.channel("")
	other.next() // the question that is open
	for _, c := range []*channelClient{ch, other} {
		c.send(fmt.Sprintf(`{"type":"replay_run","run_id":%q}`, all[0].RunID))
		again := c.until("done")
		if len(again) != len(all) {
			t.Fatalf("%s", gist(again))
		}
		for i, m := range append(again, replayed...) {
			was := append(slices.Clone(all), all...)[i]
			if !m.Replay || strings.Replace(m.raw, `"replay":true,`, "", 1) != was.raw {
				t.Errorf("%s\nwas %s", m.raw, was.raw)
			}
		}
	}
}
