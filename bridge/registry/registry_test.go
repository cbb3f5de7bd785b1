package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/httpagent"
	"aqueduct/bridge/outbound"
	"aqueduct/bridge/redact"
	"aqueduct/internal/fault"
	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// env is a Registry on a real database; its clock is the caller's.
type env struct {
	*testing.T
	*Registry
	store store.Store
}

func newEnv(t *testing.T) *env {
	t.Helper()
	st, err := sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return &env{t, onStore(t, st, bridge.NewDirectory()), st}
}

// onStore is a Registry of another replica on the same rows.
func onStore(t *testing.T, st store.Store, d *bridge.Directory) *Registry {
	t.Helper()
	vault, err := redact.NewVault("k1 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	if err != nil {
		t.Fatal(err)
	}
	gate, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.0/8"}})
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{
		Store: st, Directory: d, Secrets: redact.Hasher{Vault: vault}, CheckURL: gate.CheckURL, Logger: slog.New(slog.DiscardHandler),
		Make: func(u Upstream) bridge.Agent {
			return httpagent.New(httpagent.Config{ID: u.ID, URL: u.URL, Header: u.Header, Secret: u.Secret, Gate: gate})
		},
	})
}

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// scripted is an agent of the configuration.
type scripted struct {
	bridge.Agent
	away bool
	ill  error
}

func (s *scripted) Available() bool { return !s.away }

func (s *scripted) Healthy(context.Context) error { return s.ill }

var (
	planner = store.Principal{Tenant: "acme", User: "service:planner", Roles: []string{store.RoleAgent}}
	ann     = store.Principal{Tenant: "acme", User: "ann", Roles: []string{store.RoleUser}}
)

func at(id string) Registration { return Registration{AgentID: id, Endpoint: "http://127.0.0.1:1"} }

// TestOwnIDsComeFirst: what the operator configured is never registered by others, takes the place of what was, and is free
// again when a later configuration leaves it out.
func TestOwnIDsComeFirst(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.must(e.Register(t.Context(), planner, at("a")))
	e.must(e.Register(t.Context(), planner, at("b")))

	configured := bridge.NewDirectory()
	configured.Add("a", &scripted{})
	next := onStore(t, e.store, configured)
	e.must(next.claimOwn(t.Context()))
	e.must(next.syncer.all(t.Context()))
	if got := configured.IDsFor("globex"); fmt.Sprint(got) != "[a]" {
		t.Errorf("another tenant sees %v", got)
	}
	if got := configured.IDsFor("acme"); fmt.Sprint(got) != "[a b]" {
		t.Errorf("the tenant sees %v", got)
	}
	if err := next.Register(t.Context(), planner, at("a")); err == nil || !strings.Contains(err.Error(), Taken) {
		t.Errorf("registered what the operator configured: %v", err)
	}
	if entry, err := next.Entry(t.Context(), ann, "a"); err != nil || entry.Source != store.AgentFromConfig {
		t.Errorf("%+v %v", entry, err)
	}
	last := onStore(t, e.store, bridge.NewDirectory())
	e.must(last.claimOwn(t.Context()))
	e.must(last.Register(t.Context(), planner, at("a")))
}

// TestHowMany: an owner, and a tenant, may have so many agents; what is there can be registered again, and one that is
// removed makes room.
func TestHowMany(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	is := func(who store.Principal, id, code string) {
		t.Helper()
		if err := e.Register(t.Context(), who, at(id)); fault.CodeOf(err) != code || code == "" && err != nil {
			t.Fatalf("%s of %s: %v", id, who.User, err)
		}
	}
	owner := func(i int) store.Principal {
		return store.Principal{Tenant: "acme", User: fmt.Sprint("service:", i/maxOfOwner), Roles: []string{store.RoleAgent}}
	}
	for i := range maxOfTenant {
		is(owner(i), fmt.Sprint("a", i), "")
		if i == maxOfOwner-1 {
			is(owner(0), "more", TooMany)
			is(owner(0), "a0", "")
		}
	}
	is(owner(maxOfTenant), "more", TooMany)
	is(store.Principal{Tenant: "globex", User: "service:0"}, "other", "")
	e.must(e.Remove(t.Context(), owner(0), "a0"))
	is(owner(maxOfTenant), "more", "")
	if _, err := e.Entry(t.Context(), planner, "more"); err != nil {
		t.Error(err)
	}
}

// TestHowManyAtOnce: of those that register at once no more get in.
func TestHowManyAtOnce(t *testing.T) {
	t.Parallel()
	st, err := postgres.Open(t.Context(), storetest.Postgres(t), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	r := onStore(t, st, bridge.NewDirectory())
	var all sync.WaitGroup
	for i := range maxOfOwner + 20 {
		all.Go(func() { _ = r.Register(t.Context(), planner, at(fmt.Sprint("a", i))) })
	}
	all.Wait()
	if n, err := st.CountAgents(t.Context(), store.As(planner), 2*maxOfOwner); err != nil || n != maxOfOwner {
		t.Errorf("%d are registered, %v", n, err)
	}
}

// TestStatus: what is known of an agent, and why it is not well, without its address.
func TestStatus(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	agent := &scripted{}
	e.cfg.Directory.Add("a", agent)
	now := time.Now()
	row := store.Agent{ID: "a", Protocol: store.AgentHTTP, UpdatedAt: now.Add(-time.Hour)}
	is := func(want Status, reason string) {
		t.Helper()
		if got, why, _ := e.status(row, now); got != want || !strings.Contains(why, reason) || strings.Contains(why, "127.0.0.1") {
			t.Errorf("%s (%s), want %s (%s)", got, why, want, reason)
		}
	}
	probe := func(err error) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		agent.ill = err
		e.cfg.Directory.Probe(ctx, func(string, error) { cancel() })
	}
	is(Unknown, "")
	probe(nil)
	is(Online, "")
	probe(&httpagent.StatusError{Status: 503})
	is(Failing, "its probe was answered with HTTP 503")
	probe(errors.New("dial tcp 127.0.0.1:9: connection refused"))
	is(Failing, "it cannot be reached")
	probe(&outbound.Refused{Reason: outbound.ReasonHost})
	is(Failing, "its address may not be called")
	probe(context.DeadlineExceeded)
	is(Failing, "not answered in time")
	probe(nil)
	row.LastHeartbeatAt = now.Add(-heartbeatEnds)
	is(Online, "")
	row.LastHeartbeatAt = now.Add(-heartbeatEnds - time.Second)
	is(Offline, "no heartbeat for 91 s")
	row.UpdatedAt = now // it registered again
	is(Online, "")
	agent.away = true
	is(Offline, "")
	row = store.Agent{ID: "acp", Protocol: store.AgentACP}
	e.cfg.Directory.Add("acp", &scripted{})
	is(Online, "")
	row.ID = "nowhere"
	is(Offline, "")
}

// TestCredentialIsBound: a credential is sent to the endpoint that it was registered for, and to no other that is
// written into the row.
func TestCredentialIsBound(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	reg := at("a")
	reg.Auth = &Auth{Type: AuthHeader, Header: "x-key", Value: "tok-1"}
	e.must(e.Register(t.Context(), planner, reg))
	row, err := e.store.Agent(t.Context(), store.System(), "a")
	e.must(err)
	if header, _, err := e.syncer.sealer.open(row); err != nil || header.Get("X-Key") != "tok-1" {
		t.Errorf("%v %v", header, err)
	}
	row.Endpoint = "http://127.0.0.1:2"
	e.must(e.store.InTx(t.Context(), func(tx store.Tx) error {
		_, err := tx.UpdateAgent(t.Context(), row)
		return err
	}))
	e.must(e.syncer.all(t.Context()))
	if got := e.cfg.Directory.IDs(); len(got) != 0 {
		t.Errorf("%v is still called after its row was changed", got)
	}
	reg.Endpoint = row.Endpoint
	e.must(e.Register(t.Context(), planner, reg))
	if got := e.cfg.Directory.IDs(); len(got) != 1 {
		t.Errorf("registered again, and %v can be called", got)
	}
}

// TestSameAgentStays: a registration that changes nothing, and a heartbeat, leave the agent as it is; another endpoint is
// another agent.
func TestSameAgentStays(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.must(e.Register(t.Context(), planner, at("a")))
	first := e.syncer.made["a"].agent
	e.must(e.Beat(t.Context(), planner, "a"))
	e.must(e.syncer.all(t.Context()))
	if e.syncer.made["a"].agent != first {
		t.Error("a heartbeat made another agent")
	}
	reg := at("a")
	reg.Endpoint += "0"
	e.must(e.Register(t.Context(), planner, reg))
	if e.syncer.made["a"].agent == first {
		t.Error("another endpoint is the same agent")
	}
	e.must(e.Remove(t.Context(), planner, "a"))
	if err := e.Remove(t.Context(), planner, "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
	if len(e.syncer.made) != 0 || len(e.cfg.Directory.IDs()) != 0 {
		t.Error("an agent that was removed is still there")
	}
}

// TestComesAndGoesBetweenTwoReads: an agent that was registered, used and removed elsewhere between two reads of the
// directory, which are then of the same rows.
func TestComesAndGoesBetweenTwoReads(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	there := onStore(t, e.store, bridge.NewDirectory())
	e.must(there.Register(t.Context(), planner, at("stays")))
	e.must(e.syncer.all(t.Context()))
	e.must(there.Register(t.Context(), planner, at("goes")))
	e.must(e.syncer.one(t.Context(), "goes"))
	e.must(there.Remove(t.Context(), planner, "goes"))
	e.must(e.syncer.all(t.Context()))
	if got := e.cfg.Directory.IDs(); fmt.Sprint(got) != "[stays]" {
		t.Errorf("%v can be called", got)
	}
}

// TestSettingsInCapabilities: only "resumable": true in capabilities announces that an agent can be called again, and only
// "raw": "keep" has its RAW events passed on; each holds where the other has another type.
func TestSettingsInCapabilities(t *testing.T) {
	t.Parallel()
	for capabilities, want := range map[string]settings{
		"": {}, `{}`: {}, `["resumable"]`: {}, `{"resumable":"true"}`: {}, `{"resumable":false}`: {},
		`{"transport":{"resumable":true,"raw":"keep"}}`: {}, `{"resumable":true}`: {Resumable: true}, `{"identity":{"name":"a"},"resumable":true}`: {Resumable: true},
		`{"raw":"keep"}`: {Raw: KeepRaw}, `{"raw":true,"resumable":true}`: {Resumable: true}, `{"resumable":"x","raw":"keep"}`: {Raw: KeepRaw},
	} {
		if got := settingsOf([]byte(capabilities)); got != want {
			t.Errorf("%s: %+v", capabilities, got)
		}
	}
}
