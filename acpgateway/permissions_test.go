package acpgateway

import (
	"encoding/json"
	"testing"

	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
	"aqueduct/bridge/approval"
)

// If this fails, an answer that is given after a restart reaches no agent, or another request than the one it was for.
func TestRequestKeyRoundTrip(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]requestKey{
		"a permission":     {Sender: "e", Session: "s", Request: "r", Options: map[string]string{"yes": "opt-1"}},
		"an input":         {Sender: "e", Session: "s", Request: "r", Input: true},
		"a second process": {Sender: "e", Life: 2, Session: "s", Request: "r"},
	} {
		got, ok := parseKey(key.String())
		if !ok || got.String() != key.String() {
			t.Errorf("%s: %s is read as %s, %v", name, key, got, ok)
		}
	}
	number := requestKey{Session: "s"}
	if err := json.Unmarshal([]byte(`7`), &number.Request); err != nil {
		t.Fatal(err)
	}
	text := requestKey{Session: "s", Request: "7"}
	if got, ok := parseKey(number.String()); !ok || got.Request != number.Request || number.String() == text.String() {
		t.Errorf("the number 7 is kept as %s, the text as %s", number, text)
	}
	for _, other := range []string{"", "7", "{", `{"c":"e"}`, `["r"]`} {
		if _, ok := parseKey(other); ok {
			t.Errorf("%q is taken for a key", other)
		}
	}
}

// If this fails, an agent gets an approval without a decision, which an old proxy turns into its first option.
func TestAnswerOfAPermission(t *testing.T) {
	t.Parallel()
	key := requestKey{Session: "s", Request: "r", Options: map[string]string{"yes": "opt-1", "empty": ""}}
	for name, c := range map[string]struct {
		status, payload string
		want            string // the agent's option; "" for a cancel
	}{
		"an option":             {agui.ResumeResolved, `{"optionId":"yes"}`, "opt-1"},
		"not offered":           {agui.ResumeResolved, `{"optionId":"opt-1"}`, ""},
		"without an agent's id": {agui.ResumeResolved, `{"optionId":"empty"}`, ""},
		"no option":             {agui.ResumeResolved, `{}`, ""},
		"no object":             {agui.ResumeResolved, `"yes"`, ""},
		"nothing":               {agui.ResumeResolved, ``, ""},
		"cancelled":             {agui.ResumeCancelled, `{"optionId":"yes"}`, ""},
		// ACP's "cancelled" would say that the prompt was cancelled.
		"expired":                          {"expired", `{"optionId":"yes"}`, "opt-1"},
		"expired, without a reject option": {"expired", ``, ""},
	} {
		a := approval.Delivery{Status: c.status, Payload: json.RawMessage(c.payload)}
		if c.status == approval.ReasonExpired {
			a = approval.Delivery{Status: agui.ResumeCancelled, Reason: c.status, Reject: json.RawMessage(c.payload)}
		}
		f := key.answer("run", a).(*wire.SessionPermission)
		if f.RunID != "run" || f.SessionID != "s" || f.RequestID != "r" {
			t.Errorf("%s: it goes to %+v", name, f)
		}
		if c.want == "" && (f.Outcome != wire.OutcomeCancelled || f.OptionID != nil) ||
			c.want != "" && (f.Outcome != wire.OutcomeSelected || stringOf(f.OptionID) != c.want) {
			t.Errorf("%s: the agent gets %s %q", name, f.Outcome, stringOf(f.OptionID))
		}
	}
	if f := key.cancelled("run").(*wire.SessionPermission); f.Outcome != wire.OutcomeCancelled || f.RequestID != "r" {
		t.Errorf("without a decision the agent gets %+v", f)
	}
}

// If this fails, an agent gets another input than the person typed, or a decline as if it were one.
func TestAnswerOfAnInput(t *testing.T) {
	t.Parallel()
	key := requestKey{Session: "s", Request: "r", Input: true}
	for name, c := range map[string]struct {
		status, payload, action, content string
	}{
		"an input":                  {agui.ResumeResolved, `{"name":"x"}`, wire.ElicitAccept, `{"name":"x"}`},
		"an empty one":              {agui.ResumeResolved, `{}`, wire.ElicitAccept, `{}`},
		"ACP's decline":             {agui.ResumeResolved, `{"action":"decline"}`, wire.ElicitDecline, ""},
		"ACP's cancel":              {agui.ResumeResolved, `{"action":"cancel"}`, wire.ElicitCancel, ""},
		"ACP's accept":              {agui.ResumeResolved, `{"action":"accept"}`, wire.ElicitAccept, ""},
		"an input with that member": {agui.ResumeResolved, `{"action":"decline","name":"x"}`, wire.ElicitAccept, `{"action":"decline","name":"x"}`},
		"another word in it":        {agui.ResumeResolved, `{"action":"dance"}`, wire.ElicitAccept, `{"action":"dance"}`},
		"no object":                 {agui.ResumeResolved, `true`, wire.ElicitAccept, ""},
		"cancelled":                 {agui.ResumeCancelled, `{"name":"x"}`, wire.ElicitDecline, ""},
	} {
		f := key.answer("run", approval.Delivery{Status: c.status, Payload: json.RawMessage(c.payload)}).(*wire.SessionElicitation)
		if f.Action != c.action || string(f.Content) != c.content || f.RequestID != "r" || f.SessionID != "s" || f.RunID != "run" {
			t.Errorf("%s: the agent gets %+v, content %s", name, f, f.Content)
		}
	}
	if f := key.cancelled("run").(*wire.SessionElicitation); f.Action != wire.ElicitCancel {
		t.Errorf("without a decision the agent gets %+v", f)
	}
}

// If this fails, an answer to an earlier question approves what the agent has asked since under the same id.
func TestPermissionsKnowWhatIsOpen(t *testing.T) {
	t.Parallel()
	ps := permissions{open: make(map[string]*request)}
	a, b := requestKey{Session: "s", Request: "1"}, requestKey{Session: "s", Request: "2"}
	if ps.any() {
		t.Error("a request is open before any came")
	}
	ps.add(a, "old")
	ps.add(a, "new")
	ps.add(b, "b")
	if ps.answered(approval.Delivery{UpstreamID: a.String(), Fingerprint: "old"}) {
		t.Error("an answer to an earlier question is passed on")
	}
	if !ps.answered(approval.Delivery{UpstreamID: a.String(), Fingerprint: "new"}) || len(ps.open) != 1 {
		t.Errorf("the answer is not passed on, or %d requests stay open", len(ps.open)-1)
	}
	if !ps.answered(approval.Delivery{UpstreamID: a.String(), Fingerprint: "of an earlier process"}) {
		t.Error("an answer to a request of an earlier process is not passed on")
	}
	if _, ok := ps.cancel("1"); ok {
		t.Error("a request that is answered is withdrawn")
	}
	if key, ok := ps.named("2"); !ok || key != b.String() || ps.any() {
		t.Errorf("the agent's id 2 is the request %q", key)
	}
	if key, ok := ps.named(a.String()); !ok || key != a.String() {
		t.Errorf("a key names the request %q", key)
	}
	if _, ok := ps.named("3"); ok {
		t.Error("an id that was never used names a request")
	}
	ps.add(a, "")
	ps.add(b, "")
	if all := ps.withdrawAll(); len(all) != 2 || all[a.String()] == nil || ps.any() {
		t.Errorf("%d requests are withdrawn, any stays: %v", len(all), ps.any())
	}
	ps.add(a, "") // the set is usable afterwards
	if !ps.any() {
		t.Error("a request behind a withdrawal is not open")
	}
}
