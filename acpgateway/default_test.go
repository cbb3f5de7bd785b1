package acpgateway_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/bridge"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// The order of Agents, and so the default, is that of the settings, whatever a map's order is.
func TestAgentsAreInTheOrderOfTheSettings(t *testing.T) {
	t.Parallel()
	cfg := acpgateway.Config{Agents: map[string]acpgateway.AgentConfig{}}
	for i := range 8 {
		id := "agent" + strconv.Itoa(i)
		cfg.Agents[id] = acpgateway.AgentConfig{}
		cfg.Order = append([]string{id}, cfg.Order...)
	}
	for range 30 {
		cfg.Directory = bridge.NewDirectory()
		acpgateway.New(cfg)
		if got := cfg.Directory.Default(""); got != "agent7" {
			t.Fatalf("the default is %s", got)
		}
	}
}

// Agents that proxies bring are in the order these registered first, also after a restart; one that is online goes before
// one that is not.
func TestDefaultIsTheFirstRegisteredOnline(t *testing.T) {
	inEnv(t, plan{agents: map[string]acpgateway.AgentConfig{}}, func(h *acpEnv) {
		is := func(want string) {
			t.Helper()
			if got := h.agents.Default(""); got != want {
				t.Errorf("the default is %q, not %q", got, want)
			}
		}
		var all []*fakeProxy
		for _, id := range []string{"z", "m", "a"} {
			p := newProxy(h, id)
			p.agent = id
			all = append(all, p.link())
			h.pass(time.Second)
		}
		is("z")
		all[0].cut()
		is("m")
		for range 3 {
			h.restart()
			is("z") // none is back yet
			all[1].closed()
			all[2].closed()
			all[2].link()
			is("a")
			all[1].link()
			is("m")
		}
		all[0].link()
		is("z")
	})
}

// A proxy that left can be removed, and its Agent with it; its threads get a place at another proxy.
func TestProxyIsRemoved(t *testing.T) {
	inEnv(t, plan{agents: map[string]acpgateway.AgentConfig{}}, func(h *acpEnv) {
		gone := newProxy(h, "p1").link()
		c := gone.begin("t1", "hi")
		c.says("m", "one")
		c.ends()
		c.s.rest()
		other := newProxy(h, "p2")
		other.agent = "other"
		other.link()
		h.pass(time.Second)
		code := func(id string) string {
			t.Helper()
			err := h.gateway.Controller().Remove(h.t.Context(), id)
			var refused *fault.Error
			if errors.As(err, &refused) {
				return refused.Code
			}
			h.must(err)
			return ""
		}
		if got := code("p1"); got != bridge.ControlConnected {
			t.Errorf("removing one that is connected: %q", got)
		}
		gone.cut()
		if got := code("p1"); got != "" {
			t.Errorf("removing it: %q", got)
		}
		if got := code("p1"); got != bridge.ControlUnknown {
			t.Errorf("removing it again: %q", got)
		}
		h.pass(time.Minute) // nothing writes it down again
		for range 2 {
			if rows, err := h.store.Proxies(h.t.Context(), store.System()); err != nil || len(rows) != 1 || rows[0].ID != "p2" {
				t.Errorf("%+v %v", rows, err)
			}
			if ids := h.agents.IDs(); len(ids) != 1 || ids[0] != "other" {
				t.Errorf("agents: %v", ids)
			}
			other.restart()
			other.link()
			h.pass(time.Second)
		}
		// Its name is free, and its threads go on there.
		p := newProxy(h, "p3").link()
		c = p.begin("t1", "again")
		if c.sent.SessionID != "" {
			t.Errorf("%+v", c.sent)
		}
		c.ends()
		c.s.rest()
	})
}
