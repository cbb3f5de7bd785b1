package policy_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"aqueduct/policy"
)

var update = flag.Bool("update", false, "write testdata/verdicts.golden anew")

func example(tb testing.TB) *policy.Policy {
	tb.Helper()
	raw, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	p, err := policy.Parse(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// goldenCalls are calls of a user who may be anybody.
func goldenCalls() []policy.Call {
	eve := policy.Principal{Tenant: "acme", User: "eve", Roles: []string{"support"}}
	bob := policy.Principal{Tenant: "acme", User: "bob"}
	return []policy.Call{
		{By: eve, Tool: "db.query", Args: []byte(`{"database":"prod-eu"}`)},
		{By: eve, Tool: "db.query", Args: []byte(`{"database":"test"}`)},
		{By: eve, Tool: "db.query", Args: []byte(`{"database":7}`)},
		{By: eve, Tool: "db.query", Args: []byte(`{"database":"test","database":"prod"}`)},
		{By: eve, Tool: "mysql"},
		{By: eve, Kind: "execute", Title: "git push origin"},
		{By: eve, Kind: "execute", Title: "go test ./...", Args: []byte(`{"command":"go test ./..."}`)},
		{By: eve, Kind: "execute", Title: "go test ./... && rm -rf /"},
		{By: eve, Kind: "execute", Title: "go test $(rm -rf /)"},
		{By: eve, Tool: "pay_invoice", Args: []byte(`{"amount":120}`)},
		{By: eve, Tool: "send_mail", Args: []byte(`{"to":"a@example.com","body":"hi"}`)},
		{By: eve, Tool: "send_mail", Args: []byte(`{"to":"a@example.org","body":"hi"}`)},
		{By: eve, Tool: "send_mail", Args: []byte(`{"to":"a@example.com"}`)},
		{By: bob, Tool: "send_mail", Args: []byte(`{"to":"a@example.com","body":"hi"}`)},
		{By: bob, Tool: "clock"},
		{By: bob, Tool: "clo\u200bck"},
		{By: bob, Tool: "file_read_all", Risk: policy.High},
		{By: bob, Tool: "shell", Kind: "read"},
		{By: bob, Tool: "unknown"},
		{By: bob, Tool: "registered", Risk: policy.Low},
		{By: bob, Tool: "registered", Risk: policy.High},
		{By: bob, Tool: "registered", Risk: "enormous"},
		{By: bob, Kind: "read", Title: "/etc/passwd"},
		{By: bob, Kind: "edit", Title: "/etc/passwd"},
	}
}

func TestGoldenVerdicts(t *testing.T) {
	t.Parallel()
	p := example(t)
	var got bytes.Buffer
	for _, c := range goldenCalls() {
		v := p.Decide(c, nil, time.Time{})
		line, err := json.Marshal(struct {
			policy.Decision
			policy.Terms
		}{policy.Decided(c, v), v.Terms})
		if err != nil {
			t.Fatal(err)
		}
		got.Write(append(line, '\n'))
	}
	const path = "testdata/verdicts.golden"
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the verdicts have changed (go test -update writes them):\n%s", &got)
	}
}
