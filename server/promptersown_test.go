package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"aqueduct/server/auth"
	"aqueduct/store"
)

// TestS50RunTokenOpensThePromptersOwn: in a shared thread the agent works for who prompted. Its token opens the prompter's context
// and budgets, and the thread's; it opens nothing of the thread's owner besides.
func TestS50RunTokenOpensThePromptersOwn(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		p, keys := keyed(t)
		p.open = db.open
		p, _ = withModels(t, oneUpstream+"budgets:\n  - {of: user, tokens: 1000000}\n", p)
		a := newAtWork(t, p)
		tokens := make(map[string][]string)
		for _, user := range []string{"ann", "bob"} {
			tokens[user] = bearerOf(issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: user}}, time.Hour))
		}
		thread := "T"
		prompted := func(who, run string) (token []string, turn string, over func()) {
			t.Helper()
			r := a.h.open(a.h.request("POST", "/api/agui/chat", inputBody(thread, run, "hi "+run), tokens[who]...))
			call := <-a.calls
			return bearerOf(call.RunToken), call.TurnID, func() { a.end <- struct{}{}; r.rest() }
		}
		h := a.h
		anns := "/v1/context/" + h.mints(`{"owner_type":"user","content":"Ann's secret"}`, tokens["ann"]...).ContextKey
		token, _, over := prompted("ann", "R1")
		session := "/v1/context/" + h.mints(`{"content":"of the thread"}`, token...).ContextKey
		annsAgent := "/v1/context/" + h.mints(`{"owner_type":"agent","content":"Ann's agent's"}`, token...).ContextKey
		over()
		thread2 := fields(t, h.do("GET", "/api/threads/T", "", tokens["ann"]...))["sessionId"]
		if got := h.do("POST", "/api/threads/T/shares", `{"user":"bob","rights":["write"]}`, tokens["ann"]...); got.status != http.StatusCreated {
			t.Fatal(got)
		}
		thread = fmt.Sprint(thread2)
		token, turn, over := prompted("bob", "R2")
		defer over()
		for path, want := range map[string]int{anns: 404, annsAgent: 404, session: 200} {
			if got := h.do("GET", path, "", token...); got.status != want {
				t.Errorf("GET %s: %d %s, want %d", path, got.status, got.body, want)
			}
			if got := h.do("PUT", path, `changed`, bytesOf("text/plain", token...)...); got.status != want {
				t.Errorf("PUT %s: %d %s, want %d", path, got.status, got.body, want)
			}
		}
		for query, want := range map[string]int{"": 1, "?owner_type=user": 0, "?owner_type=agent": 0} {
			if got, _ := h.listed(query, token...); len(got) != want {
				t.Errorf("the list %q has %d entries, want %d", query, len(got), want)
			}
		}
		if got := h.do("POST", "/v1/context", `{"owner_type":"user","owner_id":"ann","content":"x"}`, token...); got.status != http.StatusForbidden {
			t.Errorf("an entry for the owner: %d %s", got.status, got.body)
		}
		if e := h.mints(`{"owner_type":"user","content":"x"}`, token...); e.OwnerID != "bob" {
			t.Errorf("an entry of the user: %+v", e)
		}
		if e := h.mints(`{"owner_type":"run","content":"x"}`, token...); e.OwnerID != turn {
			t.Errorf("an entry of the run: %+v", e)
		}
		if got, _ := h.listed("?owner_type=session&owner_id=T", tokens["ann"]...); len(got) != 1 {
			t.Errorf("the owner lists %d entries of her thread", len(got))
		}
		if got := h.do("POST", "/v1/chat/completions", callM1, token...); got.status != 200 {
			t.Fatal(got)
		}
		eventually(t, func() error {
			_, err := h.store.BudgetUse(t.Context(), store.System(), store.BudgetKey{Tenant: "acme", Budget: "user:tokens", Subject: "bob", Period: time.Now().UTC().Format(time.DateOnly)})
			return err
		})
		if _, err := h.store.BudgetUse(t.Context(), store.System(), store.BudgetKey{Tenant: "acme", Budget: "user:tokens", Subject: "ann", Period: time.Now().UTC().Format(time.DateOnly)}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the owner's budget: %v", err)
		}
	})
}
