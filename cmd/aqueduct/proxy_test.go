package main

import (
	"slices"
	"testing"
)

func TestProxyFlags(t *testing.T) {
	t.Parallel()
	flags, err := parse(t, env(), "proxy", "--url", "ws://h/ws/agent", "--token-file", "f", "--id", "x", "--max-concurrent", "3", "--", "agent", "--acp", "-v")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := flags.Proxy.config()
	if err != nil || cfg.ID != "x" || cfg.MaxConcurrent != 3 || !slices.Equal(cfg.Command, []string{"agent", "--acp", "-v"}) {
		t.Fatalf("%+v %v", cfg, err)
	}
}

func TestProxyNeedsAToken(t *testing.T) {
	t.Parallel()
	flags, err := parse(t, env(), "proxy", "--url", "ws://h/ws/agent", "--", "agent")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := flags.Proxy.config(); err == nil {
		t.Fatal("a proxy without a token")
	}
}
