package bridge_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/policy"
	"aqueduct/store"
)

func rules(t *testing.T, yaml string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse([]byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// wants is a permission for a call of a kind.
func wants(id, kind, title string) bridge.Output {
	o := permission(id)
	o.Question.ToolKind, o.Question.Title = kind, title
	if kind == "read" { // nothing runs
		o.Question.Args = []byte(`{"path":"a.go"}`)
	}
	return o
}

// decisions are the policy_decision Records of the thread's last Turn.
func (h *harness) decisions(thread string) []string {
	h.t.Helper()
	run, err := h.store.LastRun(h.t.Context(), store.System(), h.session(thread).ID)
	if err != nil {
		h.t.Fatal(err)
	}
	records, err := h.store.RecordsOfTurn(h.t.Context(), store.System(), run.TurnID, store.Page{})
	if err != nil {
		h.t.Fatal(err)
	}
	var all []string
	for _, r := range records {
		if r.Type == "policy_decision" {
			all = append(all, string(r.Payload))
		}
	}
	return all
}

const noPush = `rules: [{name: no-push, kind: execute, tool: "git push*", verdict: block, reason: Not here.}]`

func TestThePolicyAnswersForPeople(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h := newHeldHarness(t, a, never(), rules(t, noPush))
	started, _ := h.post(ask("t1", "hi"))
	a.emit("1", wants("q1", "read", "Read a.go"), wants("q2", "execute", "git push"))
	if told := receive(h, a.told); told.UpstreamID != "q1" || string(told.Payload) != `{"optionId":"yes","approved":true,"kind":"allow_once"}` {
		t.Fatalf("%+v", told)
	}
	if told := receive(h, a.told); told.UpstreamID != "q2" || string(told.Payload) != `{"optionId":"no","approved":false,"kind":"reject_once"}` {
		t.Fatalf("%+v", told)
	}
	a.emit("2", done())
	events := started.rest(t)
	want := `{"type":"CUSTOM","name":"policy_decision","value":{"tool":"shell","title":"git push","verdict":"block","rule":"no-push","reason":"Not here."}}`
	if types(events) != "RUN_STARTED CUSTOM RUN_FINISHED" || events[1] != want {
		t.Fatalf("%v", events)
	}
	if n := len(h.approvals()); n != 0 {
		t.Fatalf("%d people were asked", n)
	}
	kept := h.decisions("t1")
	if len(kept) != 2 || !strings.Contains(kept[0], `"rule":"default-read"`) || !strings.Contains(kept[1], `"verdict":"block"`) ||
		!strings.Contains(kept[1], `"args_sha256":"`) {
		t.Fatalf("%v", kept)
	}
	for i, again := range []policy.Action{policy.Allow, policy.Block} { // what is kept can be judged again
		var d policy.Decision
		if err := json.Unmarshal([]byte(kept[i]), &d); err != nil {
			t.Fatal(err)
		}
		call, ok := d.Call()
		if v := rules(t, noPush).Decide(call, nil, time.Time{}); !ok || v.Action != again || call.AgentID == "" || call.By.User == "" {
			t.Errorf("%s: %v %+v", kept[i], ok, v)
		}
	}
}

// TestThePolicyKnowsThePromptersRoles, of agents' own tools too.
func TestThePolicyKnowsThePromptersRoles(t *testing.T) {
	t.Parallel()
	for role, approved := range map[string]bool{"dev": false, "ops": true} {
		a := newHeld()
		h := newHeldHarness(t, a, never(), rules(t, `rules: [{name: devs, role: dev, verdict: block}, {name: others, verdict: allow}]`))
		h.who.Roles = []string{role}
		started, _ := h.post(ask("t1", "hi"))
		a.emit("1", wants("q1", "execute", "go test"))
		if told := receive(h, a.told); strings.Contains(string(told.Payload), `"approved":true`) != approved {
			t.Errorf("%s: %s", role, told.Payload)
		}
		a.emit("2", done())
		started.rest(t)
	}
}

// While a permission is open, the policy still answers others, and what it says of them is told at once.
func TestThePolicyAnswersWhileParked(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h := newHeldHarness(t, a, soon(), rules(t, noPush))
	a.emit("1", wants("q1", "edit", "Edit a.go"))
	h.chat(ask("t1", "hi"))
	a.emit("2", wants("q2", "execute", "git push"))
	h.until("2")
	if told := receive(h, a.told); told.UpstreamID != "q2" {
		t.Fatalf("%+v", told)
	}
	if events := h.log("t1"); !strings.Contains(events[len(events)-1]+events[len(events)-2], `"policy_decision"`) {
		t.Fatalf("the log ends with %s", events[len(events)-1])
	}
	h.resting("t1")
	going, _ := h.post(answer("t1", yes(h.openQuestion())))
	receive(h, a.told)
	a.emit("3", done())
	if got := types(going.rest(t)); got != resulted+"RUN_FINISHED" {
		t.Fatalf("got %s", got)
	}
}

func TestWithoutAPolicyEverybodyIsAsked(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h := newHeldHarness(t, a, soon(), nil)
	a.emit("1", wants("q1", "read", "Read a.go"))
	h.chat(ask("t1", "hi"))
	h.openQuestion()
}

// TestThePolicyAnswersByACall checks an upstream that ended to wait. It cannot be answered in place, so it is called again with
// the policy's decision.
func TestThePolicyAnswersByACall(t *testing.T) {
	t.Parallel()
	a := newHeld()
	a.answer = func(context.Context, *held, approval.Delivery) error { return bridge.ErrCannotResume }
	h := newHeldHarness(t, a, soon(), policy.Default())
	started, _ := h.post(ask("t1", "hi"))
	receive(h, a.called)
	a.emit("1", wants("q1", "read", "Read a.go"))
	again := receive(h, a.called)
	if !again.resumed || len(again.answers) != 1 || again.answers[0].UpstreamID != "q1" || !strings.Contains(string(again.answers[0].Payload), `"approved":true`) {
		t.Fatalf("called again with %+v", again.answers)
	}
	a.emit("2", done())
	if got := types(started.rest(t)); got != "RUN_STARTED RUN_FINISHED" {
		t.Errorf("the chat has %s", got)
	}
	if kept := h.decisions("t1"); len(kept) != 1 || !strings.Contains(kept[0], `"verdict":"allow"`) {
		t.Fatalf("%v", kept)
	}
}

func TestAllowNeedsAnOptionAndBlockDoesNot(t *testing.T) {
	t.Parallel()
	a := newHeld()
	h := newHeldHarness(t, a, soon(), rules(t, noPush))
	block, allow := wants("q1", "execute", "git push"), wants("q2", "read", "Read a.go")
	block.Question.Options = block.Question.Options[:1]
	allow.Question.Options = []approval.Option{{ID: "no", Kind: "reject_once"}}
	a.emit("1", block, allow)
	h.chat(ask("t1", "hi"))
	if told := receive(h, a.told); told.UpstreamID != "q1" || told.Status != "cancelled" || told.Payload != nil {
		t.Fatalf("%+v", told)
	}
	h.openQuestion()
}
