package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"aqueduct/store"
)

// TestS45BudgetsAreExtendedByOthers: the budget of a tenant, an agent or a user is added to by the role admin or by whom the
// models file names, never by the person whose prompt met the limit. An admin who meets a limit may, and the audit says so. If
// this fails, a limit is lifted by whom it limits.
func TestS45BudgetsAreExtendedByOthers(t *testing.T) {
	t.Parallel()
	for of, named := range map[string]string{"user": "", "agent": "", "tenant": "", "tenant ": ", approvers: ['user:bob']"} {
		t.Run(of+named, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				t.Helper()
				of := strings.TrimSpace(of)
				w := newProgramEnv(t, db, "budgets:\n  - {of: "+of+", tokens: 18"+named+"}\n")
				_, key := w.program(`{"name":"reports","agent":"reporter","owner":"ann"}`)
				w.asksForMore(key)
				id := w.budgetQuestion()
				decide := func(who, body string) answer { return w.by(who, "POST", "/api/approvals/"+id+"/decision", body) }
				edited := fmt.Sprintf(`{"decision":"approve","edited_args":{"budget":%q,"unit":"tokens","day":%q,"add":100}}`, of, time.Now().UTC().Format(time.DateOnly))
				for _, body := range []string{edited, `{"decision":"approve"}`} {
					if got := decide("ann", body); got.status != http.StatusForbidden {
						t.Errorf("the owner approves: %d %s", got.status, got.body)
					}
					if got := decide("bob", body); named == "" && got.status != http.StatusNotFound {
						t.Errorf("another user approves: %d %s", got.status, got.body)
					} else if named != "" {
						break
					}
				}
				if got := decide("admin", edited); got.status != http.StatusOK && named == "" {
					t.Fatalf("an admin approves: %d %s", got.status, got.body)
				}
				if got := w.by(key, "POST", "/v1/chat/completions", callM1); got.status != http.StatusOK {
					t.Errorf("after it was added to: %d %s", got.status, got.body)
				}
			})
		})
	}
}

// asksForMore has a program use up a budget of 18 tokens and meet it.
func (w *programEnv) asksForMore(key string) {
	w.t.Helper()
	if got := w.by(key, "POST", "/v1/chat/completions", callM1); got.status != http.StatusOK {
		w.t.Fatal(got.status, got.body)
	}
	done := make(chan struct{})
	go func() { // it waits until it is answered, or the test ends
		defer close(done)
		req := w.request("POST", "/v1/chat/completions", callM1, "Authorization", "Bearer "+key)
		if resp, err := http.DefaultClient.Do(req.WithContext(w.t.Context())); err == nil {
			_ = resp.Body.Close()
		}
	}()
	w.t.Cleanup(func() { <-done })
}

// budgetQuestion waits for the question about a budget.
func (w *programEnv) budgetQuestion() string {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		rows, err := w.store.Approvals(w.t.Context(), store.System(), store.ApprovalFilter{Status: store.ApprovalPending}, store.Page{})
		if err != nil {
			w.t.Fatal(err)
		}
		if len(rows) == 1 && rows[0].Tool == "budget.extend" {
			return rows[0].ID
		}
	}
	w.t.Fatal("nobody is asked")
	return ""
}

// TestS45NoGrantForBudgets: no standing answer is given for a budget, and one of before counts no more.
func TestS45NoGrantForBudgets(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		t.Helper()
		w := withBudgetsOn(t, "  - {of: tenant, tokens: 18}\n", plan{open: db.open})
		for _, body := range []string{`{"tool":"budget.extend"}`, `{"tool":"budget.extend","everyone":true}`, `{"tool":"budget.extend","match":{"args":{"budget":"tenant"}}}`} {
			if got := w.do("POST", "/api/grants", body); got.status < 400 {
				t.Errorf("%s: %d %s", body, got.status, got.body)
			}
		}
		who := store.LocalPrincipal()
		err := w.store.InTx(t.Context(), func(tx store.Tx) error { // of an earlier version
			return tx.InsertGrant(t.Context(), store.Grant{
				ID: "01a219e4-8182-72b4-a0b5-661d99600000", Tenant: who.Tenant, Tool: "budget.extend", Match: []byte("{}"), CreatedBy: who.User, CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour),
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		resp, text := w.posted("/v1/chat/completions", callM1)
		if resp.StatusCode != http.StatusOK {
			t.Fatal(text)
		}
		w.recorded(resp)
		waits := w.calls()
		id, _ := w.asked()
		if got := w.decide(id, `{"decision":"approve","option_id":"allow_always"}`); got.status == http.StatusOK {
			if list := w.do("GET", "/api/grants", "").body; strings.Count(list, `"budget.extend"`) > 1 {
				t.Errorf("an always became a grant: %s", list)
			}
		} else if got := w.decide(id, `{"decision":"approve"}`); got.status != http.StatusOK {
			t.Fatal(got)
		}
		if resp := <-waits; resp.StatusCode != http.StatusOK {
			t.Errorf("after the approval the call is answered %d", resp.StatusCode)
		}
		if audit := w.do("GET", "/api/audit?limit=1000", "").body; !strings.Contains(audit, `"self":true`) {
			t.Errorf("the audit does not say that the prompter added to a budget by its own decision: %s", audit)
		}
	})
}

// TestS45LargestExtension: what is added in a day has a bound, in one step and in many; one that the form would let through is
// refused, and the budget still counts afterwards.
func TestS45LargestExtension(t *testing.T) {
	t.Parallel()
	day := time.Now().UTC().Format(time.DateOnly)
	for name, c := range map[string]struct {
		file, args string
		adds       []string // the last of them is one too many
	}{
		"ten times, and one":    {"{of: tenant, tokens: 18}", `"budget":"tenant","unit":"tokens","day":"` + day + `"`, []string{"181"}},
		"in two steps":          {"{of: tenant, tokens: 18, add_most: 2}", `"budget":"tenant","unit":"tokens","day":"` + day + `"`, []string{"18", "36"}},
		"what the form allows":  {"{of: tenant, tokens: 18}", `"budget":"tenant","unit":"tokens","day":"` + day + `"`, []string{"1000000000000"}},
		"of a run, in one step": {"{of: run, tokens: 18, add_most: 1}", `"budget":"run","unit":"tokens"`, []string{"19"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				t.Helper()
				w := withBudgetsOn(t, "  - "+c.file+"\n", plan{open: db.open})
				resp, text := w.posted("/v1/chat/completions", callM1)
				if resp.StatusCode != http.StatusOK {
					t.Fatal(text)
				}
				w.recorded(resp)
				for i, add := range c.adds {
					waits := w.calls()
					id, _ := w.asked()
					if got := w.decide(id, `{"decision":"approve","edited_args":{`+c.args+`,"add":`+add+`}}`); got.status != http.StatusOK {
						t.Fatal(add, got)
					}
					want := http.StatusOK
					if i == len(c.adds)-1 {
						want = http.StatusPaymentRequired
					}
					resp := <-waits
					if resp.StatusCode != want {
						t.Errorf("after %s more the call is answered %d", add, resp.StatusCode)
					}
					if want == http.StatusOK {
						w.recorded(resp)
					}
				}
			})
		})
	}
}
