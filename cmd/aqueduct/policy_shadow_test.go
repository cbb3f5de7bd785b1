package main

import (
	"strings"
	"testing"
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
		t.Errorf("%v\n%s", err, out)
	}
	blind := written(t, "p.yaml", `rules: [{name: mail, tool: mail, verdict: allow}]`)
	if out, err := policyCommand(t, "shadow", blind, "--calls", calls); err != nil || !strings.Contains(out, "4 decisions: 3 as before, 1 would change, 0 cannot be told") {
		t.Errorf("%v\n%s", err, out)
	}
	for text, want := range map[string]string{"{": "line 1", `{"verdict":"ask"}` + "\nx": "line 2", strings.Repeat("x", longestDecision+1): "too long"} {
		if _, err := policyCommand(t, "shadow", rules, "--calls", written(t, "c", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v", text, err)
		}
	}
	if _, err := policyCommand(t, "shadow", rules); err == nil {
		t.Error("calls are needed")
	}
}
