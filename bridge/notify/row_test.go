package notify_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/notify"
	"aqueduct/store"
)

// TestRows checks which target gets which notice, and that no argument's value is kept.
func TestRows(t *testing.T) {
	t.Parallel()
	to := func(name string, more func(*notify.Target)) notify.Target {
		x := notify.Target{Name: name, URL: "https://x.example", Secret: secret}
		more(&x)
		return x
	}
	h := newEnv(t, openStore(t),
		to("all", func(*notify.Target) {}), to("acme", func(x *notify.Target) { x.Tenant = "acme" }), to("other", func(x *notify.Target) { x.Tenant = "other" }),
		to("ends", func(x *notify.Target) { x.Types = []string{notify.QuestionSettled, notify.QuestionExpired} }))
	open := asked()
	settled, expired, tool := open, open, open
	settled.Approval.Status, settled.Approval.DecidedBy, settled.Approval.DecidedVia = store.ApprovalApproved, "bob", "rest"
	settled.Approval.Decision, settled.Approval.EditedArgs = []byte(`{"payload":"hunter2"}`), []byte(`"hunter2"`)
	expired.Approval.Status, expired.Approval.DecidedBy = store.ApprovalExpired, "system"
	tool.Approval = store.Approval{} // a client's tool call
	for _, c := range []struct {
		q    approval.Question
		want string
		said string
	}{
		{open, "all acme", `"type":"question.opened"`}, {settled, "all acme ends", `"status":"APPROVED"`},
		{expired, "all acme ends", `"type":"question.expired"`}, {tool, "", ""},
	} {
		var told []string
		for _, row := range h.Rows(c.q, session) {
			told = append(told, row.Target)
			if strings.Contains(string(row.Payload), "hunter2") || !strings.Contains(string(row.Payload), c.said) || !row.NextAt.Equal(start) {
				t.Errorf("%+v %s", row, row.Payload)
			}
		}
		if got := strings.Join(told, " "); got != c.want {
			t.Errorf("%s: told %q, want %q", c.said, got, c.want)
		}
	}
	var nobody *notify.Notifier
	if nobody.Rows(open, session) != nil {
		t.Error("nobody tells somebody")
	}
	nobody.Kick()
}

// TestLinks: for whom a link is made.
func TestLinks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*store.Approval)
		want   string
	}{
		"the owner":    {func(*store.Approval) {}, "ada"},
		"a delegate":   {func(a *store.Approval) { a.DelegatedTo = "bob" }, "bob"},
		"no longer":    {func(a *store.Approval) { a.DelegatedTo, a.DelegatedUntil = "bob", start }, "ada"},
		"four eyes":    {func(a *store.Approval) { a.FourEyes = true }, ""},
		"approvers":    {func(a *store.Approval) { a.Approvers = []byte(`["ops"]`) }, ""},
		"an input":     {func(a *store.Approval) { a.Kind = store.ApprovalInput }, ""},
		"settled":      {func(a *store.Approval) { a.Status = store.ApprovalRejected }, ""},
		"out of time":  {func(a *store.Approval) { a.ExpiresAt = start }, ""},
		"without time": {func(a *store.Approval) { a.ExpiresAt = time.Time{} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			there := newHook(t, nil)
			h := newEnv(t, openStore(t), target(there))
			q := asked()
			c.change(&q.Approval)
			h.keep(h.Rows(q, session)...)
			h.run()
			var m notify.Message
			if err := json.Unmarshal([]byte((<-there.got).body), &m); err != nil {
				t.Fatal(err)
			}
			token, ok := strings.CutPrefix(m.Link, "https://aqueduct.example/decide/")
			if ok != (c.want != "") {
				t.Fatalf("the link is %q", m.Link)
			}
			if !ok {
				return
			}
			if l, err := readLink(token); err != nil || l.User != c.want || l.Tenant != "acme" || l.RowID == "" ||
				l.ApprovalID != q.Approval.ID || l.ArgsSHA256 != "abc123" || !l.ExpiresAt.Equal(q.Approval.ExpiresAt) {
				t.Errorf("%+v, %v", l, err)
			}
		})
	}
}

// TestTargets checks that a target which cannot be called is refused at the start, and that secrets do not print.
func TestTargets(t *testing.T) {
	t.Parallel()
	good := notify.Target{Name: "a", URL: "https://x.example", Secret: secret}
	for name, change := range map[string]func(*notify.Target){
		"no name": func(x *notify.Target) { x.Name = "" }, "no address": func(x *notify.Target) { x.URL = "x.example" },
		"file": func(x *notify.Target) { x.URL = "file:///x" }, "short secret": func(x *notify.Target) { x.Secret = "short" },
		"no such type": func(x *notify.Target) { x.Types = []string{"question.asked"} },
	} {
		bad := good
		change(&bad)
		if _, err := notify.New(notify.Config{Targets: []notify.Target{bad}}); err == nil || strings.Contains(err.Error(), string(secret)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := notify.New(notify.Config{Targets: []notify.Target{good, good}}); err == nil {
		t.Error("two of one name")
	}
	if _, err := notify.New(notify.Config{Link: linkToken}); err == nil {
		t.Error("links to nowhere")
	}
	if text := fmt.Sprintf("%v %+v %#v %s", good, good, good, good.Secret); strings.Contains(text, string(secret)) {
		t.Error(text)
	}
}

// TestSignature: the body, the time and the secret are signed.
func TestSignature(t *testing.T) {
	t.Parallel()
	body := []byte(`{"a":1}`)
	header := notify.Sign(secret, body, start)
	check := func(s notify.Secret, h string, b []byte, at time.Time) bool {
		return notify.Verify(s, h, b, at, 5*time.Minute) == nil
	}
	late := strings.Replace(header, "t=", "t=1", 1)
	for name, ok := range map[string]bool{
		"it": check(secret, header, body, start.Add(time.Minute)), "one of several": check(secret, header+",v1=00", body, start),
		"secret": !check("another secret, as long", header, body, start), "body": !check(secret, header, []byte(`{"a":2}`), start),
		"old": !check(secret, header, body, start.Add(6*time.Minute)), "early": !check(secret, header, body, start.Add(-6*time.Minute)),
		"time": !check(secret, late, body, start), "empty": !check(secret, "", body, start), "no v1": !check(secret, "t=1", body, time.Unix(1, 0)),
	} {
		if !ok {
			t.Error(name)
		}
	}
}
