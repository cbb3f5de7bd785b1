package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Each bound holds at its last value and not one further.
func TestBoundsOfArguments(t *testing.T) {
	t.Parallel()
	nested := func(open, end string, depth int) string {
		return strings.Repeat(open, depth) + "1" + strings.Repeat(end, depth)
	}
	long := func(bytes int) string { return `"` + strings.Repeat("x", bytes-2) + `"` }
	for name, c := range map[string]struct {
		args string
		want bool
	}{
		"as long as may be":       {long(maxArgs), true},
		"a byte longer":           {long(maxArgs + 1), false},
		"lists as deep as may be": {nested("[", "]", maxDepth), true},
		"one list deeper":         {nested("[", "]", maxDepth+1), false},
		"objects as deep":         {nested(`{"a":`, "}", maxDepth), true},
		"one object deeper":       {nested(`{"a":`, "}", maxDepth+1), false},
		"both by turns":           {nested(`[{"a":`, "}]", maxDepth/2), true},
		"both, deeper":            {nested(`[{"a":`, "}]", maxDepth/2+1), false},
	} {
		if _, err := readStrictly([]byte(c.args)); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Numbers reach expressions as whole ones as long as they are, and as texts beyond all.
func TestNumbersOfArguments(t *testing.T) {
	t.Parallel()
	args, err := readStrictly([]byte(`{"n":[-7,9223372036854775807,18446744073709551615,1.5,1e999],"o":{"i":3}}`))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%#v", forExpression(args))
	want := fmt.Sprintf("%#v", map[string]any{
		"n": []any{int64(-7), int64(9223372036854775807), uint64(18446744073709551615), 1.5, "1e999"}, "o": map[string]any{"i": int64(3)},
	})
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A standing answer counts until its cap, and no longer.
func TestGrantTTLEnds(t *testing.T) {
	t.Parallel()
	given := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	call := Call{Tool: "shell", Args: []byte(`{"a":1}`), By: Principal{Tenant: "acme", User: "eve"}}
	g := Grant{ID: "g", Tenant: "acme", Tool: "shell", Match: []byte(`{"a":1}`), UsesLeft: Unlimited, GivenAt: given, GivenBy: call.By}
	for after, want := range map[time.Duration]bool{0: true, time.Hour - 1: true, time.Hour: false, 2 * time.Hour: false} {
		if got := g.covers(&question{Call: call}, Terms{GrantTTL: time.Hour}, given.Add(after)); got != want {
			t.Errorf("%v after it was given: %t", after, got)
		}
	}
}

// What is kept of a Call is its arguments as short JSON, up to a bound; behind it there is the hash.
func TestDecidedKeepsArguments(t *testing.T) {
	t.Parallel()
	d := Decided(Call{Args: []byte(` { "a" : [ 1, 2 ] } `)}, Verdict{})
	if string(d.Args) != `{"a":[1,2]}` || d.SHA256 != hashOf([]byte(`{"a":[1,2]}`)) {
		t.Errorf("kept %s, %s", d.Args, d.SHA256)
	}
	for size, want := range map[int]int{maxKeptArgs: maxKeptArgs, maxKeptArgs + 1: 0} {
		args := []byte(`"` + strings.Repeat("x", size-2) + `"`)
		d := Decided(Call{Args: args}, Verdict{})
		if len(d.Args) != want || d.SHA256 != hashOf(args) {
			t.Errorf("of %d bytes %d are kept", size, len(d.Args))
		}
		if _, ok := d.Call(); ok != (want > 0) {
			t.Errorf("of %d bytes the call is known: %t", size, ok)
		}
	}
}

// The words of a button: how long in the largest unit that is exact enough, and the end of a
// long path.
func TestWordsOfAlways(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		90 * time.Minute: "90 minutes", 2*time.Hour - 1: "119 minutes", 2 * time.Hour: "2 hours",
		day: "24 hours", 2*day - 1: "47 hours", 2 * day: "2 days", exactTTL: "30 days", wideTTL: "8 hours",
	} {
		if got := span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	fits := strings.Repeat("f", shownPath)
	for file, want := range map[string]string{fits: fits, "g" + fits: "…" + fits[1:], "a/" + fits: "…" + fits[1:]} {
		if got := lastOf(file); got != want {
			t.Errorf("%q is shown as %q", file, got)
		}
	}
}

// A drive of Windows is one only with a separator behind it.
func TestDriven(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{`C:\x`: true, "C:/": true, "C:": false, "C:x": false, "": false, "a/b": false} {
		if got := driven(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// A time to live is at least a second, or not set.
func TestTermsTTLs(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]bool{0: true, time.Second: true, time.Second - 1: false, -time.Second: false} {
		for name, terms := range map[string]Terms{"ttl": {TTL: d}, "grant_ttl": {GrantTTL: d}} {
			if err := terms.check(); (err == nil) != want {
				t.Errorf("%s of %v: %v", name, d, err)
			}
		}
	}
}

// An error of a rule has its place, counted from one.
func TestRuleErrorsHaveTheirPlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"rules: [{name: a, verdict: allow}, {name: a, verdict: ask}]":   "rule 2:",
		"rules: [{name: a, verdict: allow}, {name: b, verdict: maybe}]": "rule 2 (",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
