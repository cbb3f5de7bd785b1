package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// status is that of a list of threads with a token.
func (r *running) status(token string) int {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.URL+"/api/threads", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// TestTokenCommands: a token of the command, an API key and the rotation of the key, against a server that runs.
func TestTokenCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	database, key := "sqlite:"+filepath.Join(dir, "a.db"), filepath.Join(dir, "signing.key")
	r := start(t, "--demo", "--database", database, "--signing-key-file", key)
	call := func(want string, args ...string) string {
		t.Helper()
		out, err := program(t, env(), append(args, "--url", r.URL, "--database", database)...)
		if err != nil && want == "" || err != nil && !strings.Contains(err.Error(), want) {
			t.Fatalf("%v: %v", args, err)
		}
		return out
	}
	issue := func() string {
		t.Helper()
		out, err := program(t, env(), "token", "issue", "--type", "user", "--user", "ada", "--signing-key-file", key)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := issue()
	if code := r.status(first); code != 200 {
		t.Fatalf("a new token: %d", code)
	}
	list := call("", "token", "list", "--user", "ada")
	if strings.Count(list, "\n") != 2 || !strings.Contains(list, "  user  ada  ") || strings.Contains(list, strings.Split(first, ".")[1]) {
		t.Fatalf("%s", list)
	}
	id, _, _ := strings.Cut(strings.Split(list, "\n")[1], " ")

	if _, err := program(t, env(), "token", "rotate", "--signing-key-file", key); err != nil {
		t.Fatal(err)
	}
	rotated := issue()
	for look := time.NewTicker(time.Second); r.status(rotated) != 200; <-look.C { // within seconds; to try more often is braked
		if t.Context().Err() != nil {
			t.Fatal("the server goes on with the key of before")
		}
	}
	if code := r.status(first); code != 200 {
		t.Errorf("a token of the key before: %d", code)
	}
	if out := call("", "token", "revoke", id); !strings.Contains(out, id) || r.status(first) != 401 || r.status(rotated) != 200 {
		t.Errorf("%s: %d %d", out, r.status(first), r.status(rotated))
	}
	call("not_found", "token", "revoke", "no-such-id")
	call("", "token", "revoke", "--user", "ada")
	if code := r.status(rotated); code != 401 {
		t.Errorf("all of a user: %d", code)
	}

	account := strings.TrimSpace(call("", "service-account", "create", "ci", "--roles", "user"))
	if code := r.status(account); code != 200 || !strings.HasPrefix(account, "aqk_") {
		t.Fatalf("an API key: %d", code)
	}
	call("wider_than_own", "service-account", "create", "ops", "--roles", "operator")
	accounts := call("", "service-account", "list")
	id, _, _ = strings.Cut(strings.Split(accounts, "\n")[1], " ")
	call("", "service-account", "revoke", id)
	if code := r.status(account); code != 401 {
		t.Errorf("a revoked API key: %d", code)
	}
	if log := r.log.String(); strings.Contains(log, account) || strings.Contains(log, strings.TrimSpace(rotated)) {
		t.Error("a credential is in the log")
	}
	for _, args := range [][]string{
		{"issue", "--type", "user", "--user", "ada", "--ttl", "2161h"}, {"issue", "--type", "user", "--user", "ada", "--ttl", "8761h", "--token-max-life", "8760h"},
		{"issue", "--type", "user", "--user", "ada", "--token-max-life", "8761h"}, {"issue", "--type", "user", "--user", "ada", "--roles", "operator"},
		{"issue", "--type", "operator", "--user", "ops", "--roles", "admin"}, {"revoke"}, {"revoke", "x", "--user", "y"},
	} {
		if out, err := program(t, env("AQUEDUCT_SIGNING_KEY_FILE", key), append([]string{"token"}, args...)...); err == nil || out != "" {
			t.Errorf("%v: %q", args, out)
		}
	}
}
