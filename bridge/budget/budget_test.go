package budget

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"aqueduct/bridge/tools"
	"aqueduct/internal/schema"
	"aqueduct/store"
)

// TestAmounts: what a person reads and enters is what is counted, whatever the unit.
func TestAmounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		unit  Unit
		shown float64
		kept  int64
		text  string
	}{
		{Tokens, 1, 1, "1 tokens"}, {Tokens, 1e12, 1e12, "1000000000000 tokens"},
		{Cost, 0.000001, 1, "0.00 EUR"}, {Cost, 0.1, 100_000, "0.10 EUR"}, {Cost, 12.345678, 12_345_678, "12.35 EUR"},
	} {
		b := Budget{Unit: c.unit, Currency: "EUR"}
		if got := b.amount(c.shown); got != c.kept || b.shown(got) != c.shown || b.text(got) != c.text {
			t.Errorf("%v %s are %d, read as %v and %q", c.shown, c.unit, got, b.shown(got), b.text(got))
		}
	}
	if got := (Budget{Unit: Cost}).amount(math.MaxFloat64); got <= 0 {
		t.Errorf("the largest number is %d", got)
	}
}

// TestKey: what a question is about is read from its key, which the approver cannot edit.
func TestKey(t *testing.T) {
	t.Parallel()
	for _, of := range []Of{OfRun, OfUser, OfAgent, OfTenant} {
		for _, unit := range []Unit{Tokens, Cost} {
			for _, day := range []string{"", "2026-11-25"} {
				key := Budget{Of: of, Unit: unit, Limit: 5}.key(day, 7)
				if b, on := parseKey(key); b.Of != of || b.Unit != unit || on != day {
					t.Errorf("%s is read as %+v on %q", key, b, on)
				}
			}
		}
	}
	if b, day := parseKey("of/another/tool"); b.Of != "" || b.Unit != "" || day != "" {
		t.Errorf("a key of another tool is %+v on %q", b, day)
	}
}

// TestCountedUnder: a run's budget is for the person's prompt, however many days it takes; the others are for a day in UTC.
func TestCountedUnder(t *testing.T) {
	t.Parallel()
	s := subjects{tenant: "acme", user: "ann", agent: "helper", root: "turn", rootSession: "thread"}
	late := time.Date(2026, 11, 25, 23, 30, 0, 0, time.FixedZone("", -3600)) // which is another day in UTC
	for of, want := range map[Of]store.BudgetUse{
		OfRun:    {BudgetKey: store.BudgetKey{Tenant: "acme", Budget: "run:cost", Subject: "turn"}, SessionID: "thread"},
		OfUser:   {BudgetKey: store.BudgetKey{Tenant: "acme", Budget: "user:cost", Subject: "ann", Period: "2026-11-26"}},
		OfAgent:  {BudgetKey: store.BudgetKey{Tenant: "acme", Budget: "agent:cost", Subject: "helper", Period: "2026-11-26"}},
		OfTenant: {BudgetKey: store.BudgetKey{Tenant: "acme", Budget: "tenant:cost", Period: "2026-11-26"}},
	} {
		if got := (Budget{Of: of, Unit: Cost}).use(s, late); got != want {
			t.Errorf("%s: %+v", of, got)
		}
	}
}

// TestExtensionSchema: an approver may add what counts, and nothing less.
func TestExtensionSchema(t *testing.T) {
	t.Parallel()
	s := schema.Of(Tool().Schema)
	for args, ok := range map[string]bool{
		`{"budget":"run","unit":"tokens","add":1}`:                                           true,
		`{"budget":"run","unit":"tokens","add":0.5}`:                                         false,
		`{"budget":"run","unit":"tokens","add":-1}`:                                          false,
		`{"budget":"user","unit":"cost","currency":"EUR","day":"d","limit":1,"add":0.25}`:    true,
		`{"budget":"user","unit":"cost","add":0}`:                                            false,
		`{"budget":"user","unit":"cost","add":0.0000001}`:                                    false,
		`{"budget":"all","unit":"cost","add":1}`:                                             false,
		`{"budget":"user","unit":"cost","add":1,"subject":"bob"}`:                            false,
		`{"budget":"user","unit":"cost"}`:                                                    false,
		`{"budget":"user","unit":"cost","add":"1"}`:                                          false,
		`{"budget":"tenant","unit":"tokens","day":"2026-11-25","limit":10,"add":1000000000}`: true,
	} {
		if err := s.Check(json.RawMessage(args)); (err == nil) != ok {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// TestExtendRefuses: what an approver made of the arguments is refused before anything is written, where it is about another
// budget, or adds nothing. The Runtime has no store here.
func TestExtendRefuses(t *testing.T) {
	t.Parallel()
	key := Budget{Of: OfUser, Unit: Cost}.key("2026-11-25", 7)
	for _, args := range []string{
		`{"budget":"tenant","unit":"cost","day":"2026-11-25","add":1}`, `{"budget":"user","unit":"tokens","day":"2026-11-25","add":1}`,
		`{"budget":"user","unit":"cost","day":"2026-11-26","add":1}`, `{"budget":"user","unit":"cost","day":"2026-11-25","add":0.0000001}`,
		`{"budget":"user","unit":"cost","day":"2026-11-25","add":-3}`, `[]`,
	} {
		_, refused := Runtime{}.Execute(t.Context(), tools.Dispatch{Call: store.ToolCall{IdempotencyKey: key, Args: json.RawMessage(args)}})
		if refused == nil || refused.Code != tools.CodeInvalidArgs {
			t.Errorf("%s: %v", args, refused)
		}
	}
}
