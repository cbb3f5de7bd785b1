package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"aqueduct/server/limit"
	"aqueduct/store"
)

// withBudgets is a server whose models have budgets. A call of m1 uses 18 tokens.
func withBudgets(t *testing.T, budgets string) *modelEnv {
	t.Helper()
	return withBudgetsOn(t, budgets, plan{})
}

func withBudgetsOn(t *testing.T, budgets string, p plan) *modelEnv {
	t.Helper()
	w := newModelEnvWith(t, oneUpstream+"budgets:\n"+budgets, p)
	if err := w.tools.Load(t.Context(), nil, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	return w
}

const callM1 = `{"model":"m1","messages":[]}`

// asked waits for the one question that is open, and gives what it asks.
func (w *modelEnv) asked() (id string, args map[string]any) {
	w.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		rows, err := w.store.Approvals(w.t.Context(), store.System(), store.ApprovalFilter{Status: store.ApprovalPending}, store.Page{})
		if err != nil || len(rows) > 1 || time.Now().After(end) {
			w.t.Fatalf("%d questions, %v", len(rows), err)
		}
		if len(rows) == 1 {
			if err := json.Unmarshal(rows[0].Args, &args); err != nil || rows[0].Tool != "budget.extend" {
				w.t.Fatal(rows[0].Tool, err)
			}
			return rows[0].ID, args
		}
	}
}

// calls calls the model, beside the test.
func (w *modelEnv) calls() <-chan *http.Response {
	done := make(chan *http.Response, 1)
	go func() { done <- w.post(w.t.Context(), "/v1/chat/completions", callM1) }()
	return done
}

// TestBudgetOfRun: at the limit a call waits for a person and goes on with what was added; calls that wait side by side wait
// for one question; one that is refused is refused for good.
func TestBudgetOfRun(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, testBudgetOfRun)
}

func testBudgetOfRun(t *testing.T, db database) {
	t.Helper()
	w := withBudgetsOn(t, "  - {of: run, tokens: 18}\n", plan{open: db.open})
	resp, text := w.posted("/v1/chat/completions", callM1)
	if resp.StatusCode != 200 {
		t.Fatal(text)
	}
	w.recorded(resp)
	first, second := w.calls(), w.calls()
	id, args := w.asked()
	if args["budget"] != "run" || args["unit"] != "tokens" || args["limit"] != 18.0 || args["add"] != 18.0 {
		t.Errorf("the question is %v", args)
	}
	if got := w.decide(id, `{"decision":"approve","edited_args":{"budget":"run","unit":"tokens","limit":18,"add":30}}`); got.status != 200 {
		t.Fatal(got)
	}
	for _, waits := range []<-chan *http.Response{first, second} {
		resp := <-waits
		if resp.StatusCode != 200 {
			t.Errorf("after the approval a call is answered %d", resp.StatusCode)
		}
		w.recorded(resp)
	}
	third := w.calls() // 54 of 48 are used
	id, args = w.asked()
	if args["limit"] != 48.0 {
		t.Errorf("the second question is %v", args)
	}
	if got := w.decide(id, `{"decision":"reject"}`); got.status != 200 {
		t.Fatal(got)
	}
	for range 2 {
		resp := <-third
		if resp.StatusCode != http.StatusPaymentRequired {
			t.Errorf("after the refusal a call is answered %d", resp.StatusCode)
		}
		third = w.calls() // the same question, which has its answer
	}
	resp, text = w.posted("/v1/chat/completions", callM1)
	if resp.StatusCode != http.StatusPaymentRequired || !strings.Contains(text, `"budget_exhausted"`) || !strings.Contains(text, "48 tokens") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	<-third
	w.upstream.mu.Lock()
	defer w.upstream.mu.Unlock()
	if n := len(w.upstream.calls); n != 3 {
		t.Errorf("the upstream was called %d times", n)
	}
}

// TestBudgetOfDay: what a user used counts for the day, also of a thread that was deleted since; cost is in the currency.
func TestBudgetOfDay(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, testBudgetOfDay)
}

func testBudgetOfDay(t *testing.T, db database) {
	t.Helper()
	// 8 tokens at 2, 3 at 1 and 7 at 10 of a million: 89 millionths.
	w := withBudgetsOn(t, "  - {of: user, cost: 0.0001}\n  - {of: tenant, tokens: 1000}\n", plan{open: db.open})
	for range 2 {
		if resp, text := w.posted("/v1/chat/completions", `{"model":"m1","stream":true,"messages":[]}`); resp.StatusCode != 200 {
			t.Fatal(text)
		} else {
			w.recorded(resp)
		}
	}
	waits := w.calls()
	id, args := w.asked()
	if args["budget"] != "user" || args["unit"] != "cost" || args["limit"] != 0.0001 || args["currency"] != "USD" || args["day"] != time.Now().UTC().Format(time.DateOnly) {
		t.Errorf("the question is %v", args)
	}
	if got := w.decide(id, `{"decision":"approve"}`); got.status != 200 {
		t.Fatal(got)
	}
	resp := <-waits
	if resp.StatusCode != 200 {
		t.Errorf("after the approval a call is answered %d", resp.StatusCode)
	}
	w.recorded(resp)
	who := store.LocalPrincipal()
	key := store.BudgetKey{Tenant: who.Tenant, Budget: "user:cost", Subject: who.User, Period: time.Now().UTC().Format(time.DateOnly)}
	before, err := w.store.BudgetUse(t.Context(), store.System(), key)
	if err != nil || before.Added != 100 || before.Used < 178 {
		t.Errorf("%+v %v", before, err)
	}
	w.release()
	if got := w.do("DELETE", "/api/threads/T", ""); got.status != 204 {
		t.Fatal(got)
	}
	if after, err := w.store.BudgetUse(t.Context(), store.System(), key); err != nil || after.Used != before.Used {
		t.Errorf("%+v %v", after, err)
	}
}

// TestBudgetTool: agents neither see nor call the tool that adds to budgets, and none of its name is registered.
func TestBudgetTool(t *testing.T) {
	t.Parallel()
	w := withBudgets(t, "  - {of: run, tokens: 18}\n")
	if listed := w.do("GET", "/v1/tools", "", bearerOf(w.token)...).body; strings.Contains(listed, "budget") {
		t.Error(listed)
	}
	turn, err := w.store.FindRun(t.Context(), scope(), "R")
	if err != nil {
		t.Fatal(err)
	}
	got := w.do("POST", "/v1/tools/budget.extend:invoke", `{"run_id":"`+turn.TurnID+`","args":{"budget":"run","unit":"tokens","add":1}}`, bearerOf(w.token)...)
	if !strings.Contains(got.body, "tool_unknown") {
		t.Error(got)
	}
	resp, _ := w.posted("/v1/chat/completions", callM1)
	w.recorded(resp)
	waits := w.calls()
	id, _ := w.asked()
	if got := w.decide(id, `{"decision":"approve","edited_args":{"budget":"tenant","unit":"tokens","add":1}}`); got.status != 200 {
		t.Error(got)
	}
	if resp := <-waits; resp.StatusCode != http.StatusPaymentRequired {
		t.Errorf("a call whose budget was edited into another is answered %d", resp.StatusCode)
	}
	if resp, text := w.posted("/v1/chat/completions", callM1); resp.StatusCode != http.StatusPaymentRequired { // asked once, and edited since
		t.Errorf("the next call is answered %d %s", resp.StatusCode, text)
	}
	if got := w.do("POST", "/v1/tools", `{"name":"budget.extend","kind":"client_tool"}`); got.status != 400 {
		t.Error(got)
	}
}

// TestBudgetToolByMCP: nor do users' programs call it. A question that only looks like one about a budget is asked of no person.
func TestBudgetToolByMCP(t *testing.T) {
	t.Parallel()
	w := withBudgets(t, "  - {of: run, tokens: 18}\n")
	got := w.mcpCall("/mcp", "budget.extend", `{"budget":"tenant","unit":"tokens","add":1000000}`)
	asked := make(chan string, 1)
	go func() {
		for t.Context().Err() == nil {
			if rows, err := w.store.OpenApprovals(t.Context(), scope(), store.Page{}); err == nil && len(rows) > 0 {
				asked <- rows[0].Approval.Title
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	select {
	case text := <-got:
		if !strings.HasPrefix(text, "tool_unknown: ") {
			t.Error(text)
		}
	case title := <-asked:
		t.Errorf("a person is asked: %q", title)
	}
}

// TestBudgetEditedToNothing: an addition that would round to nothing is refused, and the question stays open for a better one.
func TestBudgetEditedToNothing(t *testing.T) {
	t.Parallel()
	for budget, c := range map[string]struct{ unit, day, good string }{
		"  - {of: run, tokens: 18}\n":   {"tokens", "", "100"},
		"  - {of: run, cost: 0.0001}\n": {"cost", "", "0.0005"},
	} {
		t.Run(c.unit, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				t.Helper()
				w := withBudgetsOn(t, budget, plan{open: db.open})
				for range 2 {
					resp, _ := w.posted("/v1/chat/completions", `{"model":"m1","stream":true,"messages":[]}`)
					if w.recorded(resp); c.unit == "tokens" {
						break
					}
				}
				waits := w.calls()
				id, _ := w.asked()
				edit := func(add string) answer {
					return w.decide(id, `{"decision":"approve","edited_args":{"budget":"run","unit":"`+c.unit+`","currency":"USD","add":`+add+`}}`)
				}
				wrong := []string{"0", "-1", "0.0000004", `"x"`}
				if c.unit == "tokens" {
					wrong = append(wrong, "0.4", "1.5")
				}
				for _, add := range wrong {
					if got := edit(add); got.status != http.StatusUnprocessableEntity && got.status != http.StatusBadRequest {
						t.Errorf("%s is answered %d %s", add, got.status, got.body)
					}
				}
				if got := edit(c.good); got.status != 200 {
					t.Fatal(got)
				}
				if resp := <-waits; resp.StatusCode != 200 {
					t.Errorf("the call is answered %d", resp.StatusCode)
				}
			})
		})
	}
}

// TestBudgetWaitsBesideOthers: a large request that waits for a person takes no room from the bodies of others, also of the
// same user. Those that wait have a bound of their own.
func TestBudgetWaitsBesideOthers(t *testing.T) {
	t.Parallel()
	w := withBudgetsOn(t, "  - {of: run, tokens: 18}\n", plan{limits: limit.Limits{Body: 64 << 10, Bodies: 256 << 10, BodiesWait: 50 * time.Millisecond}})
	resp, _ := w.posted("/v1/chat/completions", callM1)
	w.recorded(resp)
	large := `{"model":"m1","messages":["` + strings.Repeat("x", 100<<10) + `"]}` // a user may hold half of the bound
	waits := make(chan *http.Response, 1)
	go func() { waits <- w.post(t.Context(), "/v1/chat/completions", large) }()
	id, _ := w.asked()
	if got := w.do("POST", "/api/agui/chat", inputBody("T", "R", strings.Repeat("y", 50<<10))); strings.Contains(got.body, "too_many_bodies") {
		t.Errorf("another request is answered %d %s", got.status, got.body)
	}
	if resp, text := w.posted("/v1/chat/completions", large); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "too_many_bodies") {
		t.Errorf("one more that waits than there is room for is answered %d %s", resp.StatusCode, text)
	}
	if got := w.decide(id, `{"decision":"approve"}`); got.status != 200 {
		t.Fatal(got)
	}
	if resp := <-waits; resp.StatusCode != 200 {
		t.Errorf("after the approval the call is answered %d", resp.StatusCode)
	}
}
