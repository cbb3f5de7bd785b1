package registry

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"aqueduct/bridge"
	"aqueduct/internal/fault"
	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/storetest"
)

// rows are the ids of all rows.
func rows(t *testing.T, st store.Store) (ids []string) {
	t.Helper()
	list, err := st.Agents(t.Context(), store.System(), store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		ids = append(ids, a.ID)
	}
	return ids
}

// TestS64TheOperatorTakesAnID: an operator who names an agent takes the id from each tenant that has it, which is audited in that
// tenant, and no tenant gets it back but after another configuration.
func TestS64TheOperatorTakesAnID(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	tenants := []string{"acme", "globex", "initech"}
	for _, tenant := range tenants {
		e.must(e.Register(t.Context(), store.Principal{Tenant: tenant, User: "p"}, at("a")))
	}
	if got := rows(t, e.store); len(got) != len(tenants) {
		t.Fatalf("%v", got)
	}
	configured := bridge.NewDirectory()
	configured.Add("a", &scripted{})
	next := onStore(t, e.store, configured)
	e.must(next.syncer.one(t.Context(), store.AgentKey("globex", "a"))) // a chat had it looked up before the claim
	e.must(next.claimOwn(t.Context()))
	e.must(next.syncer.all(t.Context()))
	if got := rows(t, e.store); fmt.Sprint(got) != "[a]" {
		t.Errorf("the rows are %v", got)
	}
	for _, tenant := range tenants {
		who := store.Principal{Tenant: tenant, User: "p"}
		log, err := e.store.Audit(t.Context(), store.Within(tenant), 0, 100)
		text := fmt.Sprintf("%+v", log)
		others := slices.DeleteFunc(slices.Clone(tenants), func(other string) bool { return other == tenant })
		if err != nil || !strings.Contains(text, "SubjectID:a ") || len(log) != 2 || slices.ContainsFunc(others, func(other string) bool { return strings.Contains(text, other) }) {
			t.Errorf("the audit of %s has %s %v", tenant, text, err)
		}
		if got := configured.IDsFor(tenant); fmt.Sprint(got) != "[a]" {
			t.Errorf("%s sees %v", tenant, got)
		}
		if entry, err := next.Entry(t.Context(), who, "a"); err != nil || entry.Source != store.AgentFromConfig {
			t.Errorf("%+v %v", entry, err)
		}
		if err := next.Register(t.Context(), who, at("a")); fault.CodeOf(err) != Taken {
			t.Errorf("registered what the operator configured: %v", err)
		}
	}
}

// TestS64AtOnce: of the programs that register an id at once, one of each tenant has it.
func TestS64AtOnce(t *testing.T) {
	t.Parallel()
	st, err := postgres.Open(t.Context(), storetest.Postgres(t), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	r := onStore(t, st, bridge.NewDirectory())
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			who := store.Principal{Tenant: fmt.Sprint("t", i%4), User: fmt.Sprint("p", i%3)}
			if err := r.Register(t.Context(), who, at("a")); err != nil && fault.CodeOf(err) != Taken {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got := rows(t, st)
	if len(got) != 4 || got[0] != "a" {
		t.Errorf("the rows are %v", got)
	}
	for i := range 4 {
		if seen := r.cfg.Directory.IDsFor(fmt.Sprint("t", i)); fmt.Sprint(seen) != "[a]" {
			t.Errorf("t%d sees %v", i, seen)
		}
	}
}

// TestS64BeforeTheOperators: what was registered before an agent of the operator's that it looks like goes on registering, and
// takes no such name.
func TestS64BeforeTheOperators(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.must(e.Register(t.Context(), planner, at("p1anner")))
	e.cfg.Directory.Add("planner", &scripted{})
	e.must(e.Register(t.Context(), planner, at("p1anner")))
	named := at("p1anner")
	named.Name = "The Planner"
	e.must(e.Register(t.Context(), planner, named))
	named.Name = "Planner"
	if err := e.Register(t.Context(), planner, named); fault.CodeOf(err) != Taken {
		t.Errorf("the operator's name: %v", err)
	}
	if err := e.Register(t.Context(), planner, at("planner-")); fault.CodeOf(err) != Taken {
		t.Errorf("a new id that looks so: %v", err)
	}
}
