package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"aqueduct/internal/bubbletest"
	"aqueduct/policy"
)

// watched is a policy file, watched, and the rule that decides.
type watched struct {
	*policyFile
	t   *testing.T
	log bytes.Buffer
}

func (w *watched) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// after is the rule in force after so many looks, and what was logged.
func (w *watched) after(looks int) (rule, logged string) {
	for range looks {
		w.look(w.t.Context())
	}
	logged = w.log.String()
	w.log.Reset()
	return ruleOf(w.holder), logged
}

func ruleOf(h *policy.Holder) string { return h.Decide(policy.Call{}, nil, time.Time{}).Rule }

func TestThePolicyFileIsReloaded(t *testing.T) {
	t.Parallel()
	w := &watched{t: t}
	path := written(t, "p.yaml", "rules: [{name: one, verdict: block}]")
	var err error
	if w.policyFile, err = openPolicy(path, slog.New(slog.NewTextHandler(&w.log, nil))); err != nil {
		t.Fatal(err)
	}
	expect := func(looks int, rule, logged string) {
		t.Helper()
		gotRule, gotLog := w.after(looks)
		if gotRule != rule || logged == "" && gotLog != "" || !strings.Contains(gotLog, logged) {
			t.Errorf("rule %s, want %s; log %q, want %q", gotRule, rule, gotLog, logged)
		}
	}
	expect(3, "one", "")
	w.write("rules: [{name: second, verdict: block}]")
	expect(1, "one", "") // a writer may not have finished yet
	expect(1, "second", "in force")
	w.write("rules: [{name: broken, verdict: blo")
	expect(2, "second", "level=ERROR")
	expect(3, "second", "") // logged once
	w.write("")
	expect(2, "second", "the file is empty")
	w.write("rules: [{name: second, verdict: block}]")
	expect(3, "second", "in force")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect(3, "second", "NOT IN FORCE")
	expect(3, "second", "")
	w.write("rules: [{name: third one, verdict: block}]")
	expect(3, "third one", "in force")
}

func TestThePolicyFileIsWatched(t *testing.T) {
	t.Parallel()
	path := written(t, "p.yaml", "rules: [{name: one, verdict: block}]")
	bubbletest.Test(t, func(t *testing.T) {
		f, err := openPolicy(path, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.watch(ctx) }()
		if err := os.WriteFile(path, []byte("rules: [{name: second, verdict: block}]"), 0o600); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * policyEvery)
		bubbletest.Wait()
		if rule := ruleOf(f.holder); rule != "second" {
			t.Error(rule)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestABadPolicyFileAtTheStart(t *testing.T) {
	t.Parallel()
	for _, path := range []string{written(t, "p.yaml", "rules: {"), written(t, "q.yaml", ""), "/nowhere"} {
		if _, err := openPolicy(path, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%v", err)
		}
	}
	f, err := openPolicy("", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := f.watch(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
