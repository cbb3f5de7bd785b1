package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	keys, err := keyFlag{SigningKeyFile: path}.keys()
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
	if c := flags.Token.Issue; err != nil || c.TTL != 720*time.Hour || c.Key.SigningKeyFile != "./data/signing.key" {
		t.Errorf("%+v %v", c, err)
	}
}

func TestTokensThatAreNotIssued(t *testing.T) {
	t.Parallel()
	key := "--signing-key-file=" + filepath.Join(t.TempDir(), "signing.key")
	for _, args := range [][]string{
		{"--proxy", "p"}, {"--type", "user", "--proxy", "p"}, {"--type", "acp_proxy"}, {"--type", "acp_proxy", "--proxy", "a/b"},
		{"--type", "acp_proxy", "--proxy", "p", "--agent", "x y"}, {"--type", "acp_proxy", "--proxy", "p", "--ttl", "0s"},
	} {
		if out, err := program(t, env(), append([]string{"token", "issue", key}, args...)...); err == nil || out != "" {
			t.Errorf("%v: %q", args, out)
		}
	}
}
