package main

import (
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"aqueduct/internal/ownfile"
	"aqueduct/server/auth"
)

// TestTokenIssue prints a token that the key of the same file tells as its own.
func TestTokenIssue(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "signing.key")
	out, err := program(t, env("AQUEDUCT_SIGNING_KEY_FILE", path), "token", "issue", "--type", "acp_proxy", "--proxy", "mac", "--agent", "opencode", "--name", "Mac", "--ttl", "1h")
	if err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("%q %v", out, err)
	}
	keys, err := (&stateFlags{SigningKeyFile: ownfile.Secret(path)}).keys()
	if err != nil {
		t.Fatal(err)
	}
	claims, err := keys.Verify(strings.TrimSpace(out), auth.TypeACPProxy)
	if err != nil || claims.ProxyClaims != (auth.ProxyClaims{ProxyID: "mac", Name: "Mac", AgentID: "opencode"}) {
		t.Errorf("%+v %v", claims, err)
	}
}

func TestTokenDefaults(t *testing.T) {
	t.Parallel()
	flags, err := parse(t, env(), "token", "issue", "--type", "acp_proxy", "--proxy", "p")
	if c := flags.Token.Issue; err != nil || c.TTL != 720*time.Hour || c.Files.SigningKeyFile != ownfile.Secret(c.Files.in("signing.key")) {
		t.Errorf("%+v %v", c, err)
	}
}

func TestTokensThatAreNotIssued(t *testing.T) {
	t.Parallel()
	key := "--signing-key-file=" + filepath.Join(t.TempDir(), "signing.key")
	for _, args := range [][]string{
		{"--proxy", "p"}, {"--type", "user", "--proxy", "p"}, {"--type", "user"}, {"--type", "run", "--user", "u"}, {"--type", "session", "--user", "u"},
		{"--type", "user", "--user", "a b"}, {"--type", "user", "--user", "system"}, {"--type", "user", "--user", "u", "--tenant", "a/b"},
		{"--type", "user", "--user", "u", "--tenant", ""}, {"--type", "user", "--user", "u", "--roles", "a b"}, {"--type", "user", "--user", "u", "--id", "x"},
		{"--type", "approver"}, {"--type", "channel"}, {"--type", "channel", "--id", "x", "--user", "u"},
		{"--type", "channel", "--id", "x", "--roles", "admin"}, {"--type", "channel", "--user", "u"}, {"--type", "acp_proxy", "--id", "p", "--user", "u"},
		{"--type", "acp_proxy", "--id", "p", "--proxy", "q"}, {"--type", "acp_proxy"}, {"--type", "acp_proxy", "--proxy", "a/b"},
		{"--type", "acp_proxy", "--proxy", "p", "--agent", "x y"}, {"--type", "acp_proxy", "--proxy", "p", "--ttl", "0s"},
	} {
		if out, err := program(t, env(), append([]string{"token", "issue", key}, args...)...); err == nil || out != "" {
			t.Errorf("%v: %q", args, out)
		}
	}
}

// TestTokenIssueForPeopleAndChannels: the claims are what the flags say.
func TestTokenIssueForPeopleAndChannels(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "signing.key")
	for line, want := range map[string]auth.Claims{
		"--type user --tenant acme --user ada --roles admin,dev": {Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: "ada", Roles: []string{"admin", "dev"}}},
		"--type user --user ada":                                 {Type: auth.TypeUser, Tenant: "local", UserClaims: auth.UserClaims{User: "ada"}},
		"--type approver --tenant acme --user bea":               {Type: auth.TypeApprover, Tenant: "acme", UserClaims: auth.UserClaims{User: "bea"}},
		"--type channel --tenant acme --id im":                   {Type: auth.TypeChannel, Tenant: "acme", ChannelClaims: auth.ChannelClaims{ChannelID: "im"}},
		"--type acp_proxy --id mac --tenant acme":                {Type: auth.TypeACPProxy, ProxyClaims: auth.ProxyClaims{ProxyID: "mac"}},
	} {
		out, err := program(t, env(), append([]string{"token", "issue", "--signing-key-file", path}, strings.Fields(line)...)...)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		keys, err := (&stateFlags{SigningKeyFile: ownfile.Secret(path)}).keys()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := keys.Verify(strings.TrimSpace(out), want.Type); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v %v", line, got, err)
		}
	}
}

// TestServeTakesTypedTokens, issued while it runs, beside the static one; each type where it belongs.
func TestServeTakesTypedTokens(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "signing.key")
	r := start(t, "--demo", "--database", "sqlite:"+filepath.Join(t.TempDir(), "a.db"), "--auth", "token",
		"--token-file", write(t, "token", "a token with some length\n"), "--signing-key-file", key)
	ask := func(token string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL+"/api/threads", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	issue := func(line string) string {
		t.Helper()
		out, err := program(t, env(), append([]string{"token", "issue", "--signing-key-file", key}, strings.Fields(line)...)...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	for token, want := range map[string]int{
		"a token with some length": 200, "another token of some length": 401, "a.b.c": 401,
		issue("--type user --tenant acme --user ada"): 200, issue("--type channel --id im"): 401, issue("--type acp_proxy --id p"): 401,
	} {
		if got := ask(token); got != want {
			t.Errorf("%.12s…: %d, want %d", token, got, want)
		}
	}
}

// TestTokenBootstrapReusable: a reusable token need not name its proxy, lives for long, and tells its id and its end.
func TestTokenBootstrapReusable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "signing.key")
	issue := func(args ...string) (string, error) {
		return program(t, env("AQUEDUCT_SIGNING_KEY_FILE", path), append([]string{"token", "bootstrap"}, args...)...)
	}
	for _, c := range []struct {
		args     []string
		proxy    string
		reusable bool
		life     time.Duration
	}{
		{[]string{"--proxy", "mac"}, "mac", false, time.Hour},
		{[]string{"--proxy", "mac", "--ttl", "2h"}, "mac", false, 2 * time.Hour},
		{[]string{"--reusable"}, "", true, 90 * 24 * time.Hour},
		{[]string{"--reusable", "--proxy", "mac", "--ttl", "48h"}, "mac", true, 48 * time.Hour},
		{[]string{"--reusable", "--ttl", "8760h", "--token-max-life", "8760h"}, "", true, 8760 * time.Hour},
		{[]string{"--reusable", "--token-max-life", "24h"}, "", true, 24 * time.Hour},
	} {
		out, err := issue(c.args...)
		if err != nil || strings.Count(out, "\n") != 1 {
			t.Fatalf("%v: %q %v", c.args, out, err)
		}
		keys, err := (&stateFlags{SigningKeyFile: ownfile.Secret(path)}).keys()
		if err != nil {
			t.Fatal(err)
		}
		got, err := keys.Bootstrap(strings.TrimSpace(out))
		if err != nil || got.ProxyID != c.proxy || got.Reusable != c.reusable || (time.Until(got.Until)-c.life).Abs() > time.Minute {
			t.Errorf("%v: %+v %v", c.args, got, err)
		}
		if _, err := keys.Verify(strings.TrimSpace(out), auth.TypeACPProxy); err == nil {
			t.Errorf("%v: it is a proxy's own token", c.args)
		}
	}
	for _, args := range [][]string{{}, {"--agent", "a"}, {"--proxy", "p", "--ttl", "48h"}, {"--reusable", "--ttl", "2161h"}, {"--reusable", "--proxy", "local-x"}, {"--reusable", "--proxy", "a/b"}} {
		if out, err := issue(args...); err == nil || out != "" {
			t.Errorf("%v: %q %v", args, out, err)
		}
	}
}
