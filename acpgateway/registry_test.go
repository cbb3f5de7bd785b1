package acpgateway_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

func openRegistry(t *testing.T) (*acpgateway.Registry, store.Store) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return acpgateway.NewRegistry(st), st
}

func TestProxiesSurvive(t *testing.T) {
	t.Parallel()
	_, st := openRegistry(t)
	if err := acpgateway.NewRegistry(st).SaveProxy(t.Context(), store.Proxy{ID: "p1", AgentID: "opencode", Status: store.ProxyOnline}); err != nil {
		t.Fatal(err)
	}
	r := acpgateway.NewRegistry(st)
	p, err := r.Proxy(t.Context(), "p1")
	if err != nil || p.AgentID != "opencode" || p.Status != store.ProxyOnline {
		t.Errorf("%+v %v", p, err)
	}
	if all, err := r.Proxies(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%+v %v", all, err)
	}
	if _, err := r.Proxy(t.Context(), "p2"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

// TestInstancesOfAllPages: more than one page of them.
func TestInstancesOfAllPages(t *testing.T) {
	t.Parallel()
	r, st := openRegistry(t)
	const n = store.MaxPageLimit + 1
	err := st.InTx(t.Context(), func(tx store.Tx) error {
		for i := range n {
			id := fmt.Sprintf("s%05d", i)
			s := store.Session{ID: id, Tenant: "t", User: "u", ExternalID: id, AgentID: "a", CreatedAt: time.UnixMilli(1), UpdatedAt: time.UnixMilli(1)}
			err := errors.Join(tx.InsertSession(t.Context(), s), tx.UpsertSandboxInstance(t.Context(), store.SandboxInstance{SessionID: id, ProxyID: "p1"}))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	all, err := r.InstancesOf(t.Context(), "p1")
	if err != nil || len(all) != n || all[0].SessionID != fmt.Sprintf("s%05d", n-1) || all[n-1].SessionID != "s00000" {
		t.Errorf("%d %v", len(all), err)
	}
}

func TestInstanceGoesWithItsSession(t *testing.T) {
	t.Parallel()
	r, st := openRegistry(t)
	s := store.Session{ID: "s1", Tenant: "t", User: "u", ExternalID: "x", AgentID: "a", CreatedAt: time.UnixMilli(1), UpdatedAt: time.UnixMilli(1)}
	if err := st.InTx(t.Context(), func(tx store.Tx) error { return tx.InsertSession(t.Context(), s) }); err != nil {
		t.Fatal(err)
	}
	if err := r.SaveInstance(t.Context(), store.SandboxInstance{SessionID: "s1", ProxyID: "p1", Status: "running"}); err != nil {
		t.Fatal(err)
	}
	if i, err := r.Instance(t.Context(), "s1"); err != nil || i.Status != "running" {
		t.Errorf("%+v %v", i, err)
	}
	if err := st.InTx(t.Context(), func(tx store.Tx) error { return tx.DeleteSession(t.Context(), "s1", time.UnixMilli(2)) }); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Instance(t.Context(), "s1"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

// TestIDOfProxiesAgent: the id of an agent stays its proxies' until the last of them is removed.
func TestIDOfProxiesAgent(t *testing.T) {
	t.Parallel()
	r, st := openRegistry(t)
	registered := func() (first bool) {
		t.Helper()
		if err := st.InTx(t.Context(), func(tx store.Tx) (err error) {
			first, err = tx.ClaimAgent(t.Context(), store.Agent{ID: "opencode", Tenant: "acme", Source: store.AgentFromAPI, Protocol: store.AgentHTTP})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return first
	}
	for _, id := range []string{"p1", "p2"} {
		if err := r.SaveProxy(t.Context(), store.Proxy{ID: id, AgentID: "opencode", Status: store.ProxyOffline}); err != nil {
			t.Fatal(err)
		}
		if free, err := r.ClaimAgent(t.Context(), "opencode"); err != nil || !free {
			t.Fatal(free, err)
		}
	}
	for i, id := range []string{"p1", "p2"} {
		if registered() {
			t.Errorf("the id was free with %d proxies left", 2-i)
		}
		if err := r.RemoveProxy(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if !registered() {
		t.Error("the id is not free without a proxy")
	}
	if free, err := r.ClaimAgent(t.Context(), "opencode"); err != nil || free {
		t.Errorf("a proxy takes the id of a registered agent: %t %v", free, err)
	}
	if err := r.RemoveProxy(t.Context(), "p1"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}
