package policy_test

import (
	"sync"
	"testing"
	"time"

	"aqueduct/policy"
)

func TestABadFileLeavesTheOldOne(t *testing.T) {
	t.Parallel()
	h := policy.NewHolder(policy.Default())
	if err := h.Replace([]byte("rules: [{name: a, verdict: block}]")); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"rules: {", "rules: [{name: b}]", "", " \n", "rules: []", "rules: [{name: b, verdict: allow, when: \"args.x\"}]"} {
		if err := h.Replace([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
		if v := h.Decide(policy.Call{}, nil, time.Time{}); v.Rule != "a" {
			t.Errorf("after %q: %+v", bad, v)
		}
	}
	if err := h.Replace([]byte("tools: {x: low}")); err != nil {
		t.Fatal(err)
	}
	if v := h.Decide(policy.Call{}, nil, time.Time{}); v.Rule != "default" {
		t.Errorf("%+v", v)
	}
}

func TestReplacingWhileAsked(t *testing.T) {
	t.Parallel()
	h := policy.NewHolder(example(t))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				for _, c := range goldenCalls()[:6] {
					h.Decide(c, nil, time.Time{})
				}
			}
		})
	}
	for range 50 {
		if err := h.Replace([]byte(file)); err != nil {
			t.Error(err)
		}
	}
	all.Wait()
}
