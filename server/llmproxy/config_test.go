package llmproxy

import (
	"strings"
	"testing"
)

// If this fails, an operator who bounded costs learns of a model that costs nothing from its bill.
func TestUnpriced(t *testing.T) {
	t.Parallel()
	const upstreams = "upstreams:\n- {name: a, url: 'http://a/v1', models: [m1, 'm2-*']}\n- {name: b, url: 'http://b/v1', models: ['*', m1]}\n"
	for rest, want := range map[string]string{
		"budgets: [{of: run, tokens: 1}]":                                                  "",
		"budgets: [{of: run, cost: 1}]":                                                    "m1 m2-* *",
		"budgets: [{of: run, cost: 1}]\nprices: [{model: m1, input: 1}]":                   "m2-* *",
		"budgets: [{of: run, cost: 1}]\nprices: [{model: 'm*', input: 1}]":                 "*",
		"budgets: [{of: run, cost: 1}]\nprices: [{model: 'm2-1', input: 1}]":               "m1 m2-* *",
		"budgets: [{of: run, cost: 1}]\nprices: [{model: m1, input: 1}, {model: '*'}]":     "",
		"budgets: [{of: run, cost: 1}]\nprices: [{model: '*'}, {model: 'm2-*', input: 1}]": "",
	} {
		u, err := Parse([]byte(upstreams+rest), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(u.Unpriced(), " "); got != want {
			t.Errorf("%s: %q, want %q", rest, got, want)
		}
	}
}
