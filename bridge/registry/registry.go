// This file is the door: registrations, heartbeats and removals of the HTTP edge, and the ids of the server's own
// agents. It writes rows; the agents of the Directory are the syncer's.

package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval/audit"
	"aqueduct/bridge/redact"
	"aqueduct/bridge/signed"
	"aqueduct/internal/fault"
	"aqueduct/internal/retry"
	"aqueduct/store"
)

// Config is what a Registry needs.
type Config struct {
	Store     store.Store
	Directory *bridge.Directory
	// Secrets masks what is shown of registrations, and encrypts their credentials.
	Secrets redact.Hasher
	// Make makes the Agent of an entry. It is a function so that this room knows no protocol.
	Make func(Upstream) bridge.Agent
	// CheckURL refuses endpoints that may not be called.
	CheckURL func(string) error
	Logger   *slog.Logger
}

// Upstream is how a registered agent is called. Header and Secret are its credential: one of them, or none.
type Upstream struct {
	ID, URL  string
	Protocol string
	Header   http.Header   // is sent with each call
	Secret   signed.Secret // signs each call
	// Resumable is the value in its capabilities (bridge.Resumable).
	Resumable bool
	// KeepRaw is set if its capabilities have "raw": "keep".
	KeepRaw bool
}

// Each registered agent is in every list of its tenant, in the memory of every replica, and is probed by each of them.
const (
	// maxOfOwner is far above what one program, or the team behind one API key, runs, and so low that a loop of a faulty
	// one leaves room for the others of its tenant.
	maxOfOwner = 100
	// maxOfTenant is as many as can be probed with what a tenant may have of probes at once (bridge.Directory.Probe), also
	// when none of them answers.
	maxOfTenant = 500
)

// Registry is the door to the directory for the HTTP edge. It is safe for concurrent use.
type Registry struct {
	cfg    Config
	syncer syncer
}

// New makes a Registry; Run must run for what other replicas register to be known.
func New(cfg Config) *Registry {
	r := &Registry{cfg: cfg, syncer: syncer{
		store: cfg.Store, directory: cfg.Directory, sealer: sealer{cfg.Secrets.Vault}, make: cfg.Make, log: cfg.Logger, made: make(map[string]made),
	}}
	cfg.Directory.OnUnknown(r.syncer.one)
	return r
}

// Run claims the ids of this server's own agents and follows the directory until ctx ends. It has to be behind those parts
// that put the server's own agents into the Directory, since it claims what it finds there.
func (r *Registry) Run(ctx context.Context) error {
	err := retry.While(ctx, isAway, func() error { return r.claimOwn(ctx) })
	if err != nil && ctx.Err() == nil {
		return err
	}
	return r.syncer.run(ctx)
}

func isAway(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome)
}

func isMissing(err error) bool { return errors.Is(err, store.ErrNotFound) }

// claimOwn keeps the ids of the agents that this server was configured with, so that none of them can be registered, and
// gives up those that an earlier configuration had. An operator's name goes before one that was registered: the flag
// cannot wait for the owner of the entry.
func (r *Registry) claimOwn(ctx context.Context) error {
	// Claims and what is given up are one transaction, of which other replicas see all or nothing.
	own := r.cfg.Directory.IDsFor("") // not what is registered: a chat may have had it looked up already
	return r.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		for _, id := range own {
			if err := r.claim(ctx, tx, id); err != nil {
				return err
			}
		}
		page := store.Page{Limit: store.MaxPageLimit}
		for {
			rows, err := tx.Agents(ctx, store.System(), page)
			if err != nil {
				return err
			}
			for _, row := range rows {
				if id := store.AgentID(row.ID); id != row.ID && slices.Contains(own, id) {
					if err := r.replaced(ctx, tx, row, time.Now()); err != nil {
						return err
					}
					if _, err := tx.DeleteAgent(ctx, row.ID, row.Source); err != nil {
						return err
					}
				}
				// An earlier version let reserved ids be registered; nothing ever called those agents.
				if row.Source == store.AgentFromConfig && !slices.Contains(own, row.ID) || bridge.ReservedAgent(row.ID) {
					if _, err := tx.DeleteAgent(ctx, row.ID, row.Source); err != nil {
						return err
					}
				}
			}
			if len(rows) < page.Size() {
				return nil
			}
			page.After = rows[len(rows)-1].ID
		}
	})
}

// claim keeps one id for the configuration. A row of a proxy is taken over in silence: the proxies of a configured agent have
// claimed its id at an earlier start. A registration that is replaced is audited, because its owner loses an agent by it.
func (r *Registry) claim(ctx context.Context, tx store.Tx, id string) error {
	now := time.Now()
	a := store.Agent{ID: id, Source: store.AgentFromConfig, Protocol: r.cfg.Directory.Protocol("", id), RegisteredAt: now, UpdatedAt: now}
	first, err := tx.ClaimAgent(ctx, a)
	if err != nil || first {
		return err
	}
	before, err := tx.Agent(ctx, store.System(), id)
	if err != nil || before.Source == a.Source && before.Protocol == a.Protocol {
		return err
	}
	if _, err := tx.UpdateAgent(ctx, a); err != nil || before.Source != store.AgentFromAPI {
		return err
	}
	return r.replaced(ctx, tx, before, now)
}

// replaced audits, in its tenant, that a registered agent gave way to the operator's of the same id.
func (r *Registry) replaced(ctx context.Context, tx store.Tx, before store.Agent, now time.Time) error {
	return audit.AppendAt(ctx, tx, audit.Nobody(before.Tenant), audit.AgentRegistered, audit.OfAgent(store.AgentID(before.ID)),
		map[string]string{"source": string(store.AgentFromConfig), "before": before.Endpoint, "owner_before": before.Owner}, now)
}

// Register adds an agent of the caller's tenant, or changes one that is the caller's. The error is a *fault.Error when it
// was refused. The agent can be talked to here at once, and at other replicas when they need it.
func (r *Registry) Register(ctx context.Context, who store.Principal, reg Registration) error {
	if err := reg.check(r.cfg.CheckURL); err != nil {
		return err
	}
	now := time.Now()
	a := store.Agent{
		ID: reg.AgentID, Tenant: who.Tenant, Owner: who.User, Source: store.AgentFromAPI, Protocol: reg.Protocol, Name: r.cfg.Secrets.Filter.Text(reg.Name),
		Endpoint: reg.Endpoint, Capabilities: r.cfg.Secrets.Filter.JSON(reg.Capabilities), LastHeartbeatAt: now, RegisteredAt: now, UpdatedAt: now,
	}
	var key string
	err := r.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		key, err = keeper{tx, who, r.cfg.Directory.IDsFor(""), &r.syncer.sealer, reg.Auth}.keep(ctx, a)
		return err
	})
	if fault.CodeOf(err) == Taken {
		return errors.Join(err, r.refused(ctx, who, reg))
	}
	if err != nil {
		return err
	}
	return r.syncer.one(ctx, key)
}

// mayHave refuses a registration that is one too many. It is called behind the audit's entry, which one transaction at a time
// can make: so it counts also what others register at once.
func mayHave(ctx context.Context, r store.Reader, who store.Principal) error {
	for _, limit := range []struct {
		in   store.Scope
		most int
		of   string
	}{{store.As(who), maxOfOwner, "caller"}, {store.Within(who.Tenant), maxOfTenant, "tenant"}} {
		n, err := r.CountAgents(ctx, limit.in, limit.most+1)
		if err != nil {
			return err
		}
		if n > limit.most {
			return fault.New(TooMany, fmt.Sprintf("A %s may have %d registered agents. Remove some.", limit.of, limit.most))
		}
	}
	return nil
}

// mayManage reports whether a Principal may change an agent: who registered it, and administrators of the tenant.
func mayManage(who store.Principal, a store.Agent) bool {
	return a.Source == store.AgentFromAPI && a.Tenant == who.Tenant && (a.Owner == who.User || who.Has(store.RoleAdmin))
}

// refused audits an attempt on an id that is another's.
func (r *Registry) refused(ctx context.Context, who store.Principal, reg Registration) error {
	return r.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		return audit.Append(ctx, tx, who, audit.AgentRefused, audit.OfAgent(reg.AgentID), map[string]string{"endpoint": reg.Endpoint})
	})
}

// Beat notes that an agent lives. store.ErrNotFound when the caller has no agent of that id.
func (r *Registry) Beat(ctx context.Context, who store.Principal, id string) error {
	return r.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		a, err := manageable(ctx, tx, who, id)
		if err == nil {
			_, err = tx.BeatAgent(ctx, a.ID, time.Now())
		}
		return err
	})
}

// Remove takes an agent out of the directory. What it is at goes on to its end; its threads get no further answer.
// store.ErrNotFound when the caller has no agent of that id.
func (r *Registry) Remove(ctx context.Context, who store.Principal, id string) error {
	var a store.Agent
	err := r.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		if a, err = manageable(ctx, tx, who, id); err != nil {
			return err
		}
		if _, err := tx.DeleteAgent(ctx, a.ID, store.AgentFromAPI); err != nil {
			return err
		}
		return audit.Append(ctx, tx, who, audit.AgentRemoved, audit.OfAgent(id), nil)
	})
	if err != nil {
		return err
	}
	return r.syncer.one(ctx, a.ID)
}

// manageable finds an agent that the caller may change. Another's is as unknown as one that does not exist.
func manageable(ctx context.Context, tx store.Tx, who store.Principal, id string) (store.Agent, error) {
	a, err := find(ctx, tx, who, id)
	if err == nil && !mayManage(who, a) {
		err = store.ErrNotFound
	}
	return a, err
}

// find is the agent that the caller's tenant means by an id: everybody's, or its own. The ids of rows are no ids of agents.
func find(ctx context.Context, r store.Reader, who store.Principal, id string) (store.Agent, error) {
	if store.AgentID(id) != id {
		return store.Agent{}, store.ErrNotFound
	}
	a, err := r.Agent(ctx, store.As(who), id)
	if isMissing(err) {
		a, err = r.Agent(ctx, store.As(who), store.AgentKey(who.Tenant, id))
	}
	return a, err
}
