package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/trace"
	"aqueduct/policy"
	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

func TestPolicyShadow(t *testing.T) {
	t.Parallel()
	calls := written(t, "calls.jsonl", `{"verdict":"ask","rule":"default","tool":"shell","title":"git\u202e push\n","args":{"command":"git push"},"args_sha256":"x","agent":"claude","user":"eve","tenant":"acme"}
{"verdict":"allow","rule":"default-read","tool":"read","kind":"read","args":{},"args_sha256":"x"}

{"verdict":"allow","rule":"default","grant_id":"g","tool":"shell","args":{"command":"ls"},"args_sha256":"x"}
{"verdict":"require_approval","rule":"default","tool":"mail","args_sha256":"of something"}
`)
	rules := written(t, "p.yaml", `rules: [{name: no-push, tool: shell, when: 'args.command.startsWith("git push")', verdict: block}]`)
	out, err := policyCommand(t, "shadow", rules, "--calls", calls)
	want := "ask -> block\tshell git⟨U+202E⟩ push\trule \"default\" -> \"no-push\"\tagent \"claude\" user \"eve\"\n" +
		"4 decisions: 2 as before, 1 would change, 1 cannot be told (arguments not kept)\n     1  ask -> block\n"
	if err != nil || out != want {
		t.Errorf("%v\n%.2000s", err, out)
	}
	blind := written(t, "p.yaml", `rules: [{name: mail, tool: mail, verdict: allow}]`)
	if out, err := policyCommand(t, "shadow", blind, "--calls", calls); err != nil || !strings.Contains(out, "4 decisions: 3 as before, 1 would change, 0 cannot be told") {
		t.Errorf("%v\n%.2000s", err, out)
	}
	for text, want := range map[string]string{"{": "line 1", `{"verdict":"ask"}` + "\nx": "line 2", strings.Repeat("x", longestDecision+1): "too long"} {
		if _, err := policyCommand(t, "shadow", rules, "--calls", written(t, "c", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v", text, err)
		}
	}
	for _, args := range [][]string{{"--calls", "none"}, {"--database", "sqlite:none"}, {"--database", "none"}} {
		if _, err := policyCommand(t, append([]string{"shadow", rules}, args...)...); err == nil {
			t.Errorf("%v", args)
		}
	}
}

// TestPolicyShadowOfADatabase beside a server that has it open, and when none has.
func TestPolicyShadowOfADatabase(t *testing.T) {
	t.Parallel()
	path := storetest.SQLite(t)
	st, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	const n = store.MaxPageLimit + 10 // more than a page
	err = st.InTx(t.Context(), func(tx store.Tx) error {
		session := store.Session{ID: "s", ExternalID: "T", Tenant: "acme", User: "eve", AgentID: "a", CreatedAt: time.Now(), UpdatedAt: time.Now()}
		if err := tx.InsertSession(t.Context(), session); err != nil {
			return err
		}
		for i := range n {
			call := policy.Call{AgentID: "a", Session: "s", Tool: "mail", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)), By: policy.Principal{Tenant: "acme", User: "eve"}}
			d, err := json.Marshal(policy.Decided(call, policy.Verdict{Action: policy.Ask, Rule: "default"}))
			if err != nil {
				return err
			}
			for kind, payload := range map[string][]byte{trace.PolicyDecision: d, trace.ToolResult: []byte("{}")} {
				r := store.Record{ID: uuid.Must(uuid.NewV7()).String(), SessionID: "s", Source: store.SourcePlatform, Type: kind, TS: time.Now(), Payload: payload}
				if err := tx.InsertRecord(t.Context(), r); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	rules := written(t, "p.yaml", `rules: [{name: few, tool: mail, when: 'args.n < 3.0', verdict: block}]`)
	for range 2 {
		out, err := policyCommand(t, "shadow", rules, "--database", "sqlite:"+path)
		want := fmt.Sprintf("%d decisions: %d as before, 3 would change, 0 cannot be told (arguments not kept)\n     3  ask -> block\n", n, n-3)
		if err != nil || !strings.HasSuffix(out, want) || strings.Count(out, "user \"eve\"") != 3 {
			t.Errorf("%v\n%.2000s", err, out)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
