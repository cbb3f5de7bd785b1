package proxies

import (
	"context"
	"errors"
	"time"

	"aqueduct/bridge/audit"
	"aqueduct/store"
)

// Why a proxy is not enrolled.
var (
	ErrTokenUsed  = errors.New("proxies: the bootstrap token was used before")
	ErrProxyKnown = errors.New("proxies: a proxy of that id is known")
)

// usesKept is how long after its end a used token is remembered: clocks of two replicas may be apart.
const usesKept = 10 * time.Minute

// Enrolment is what a bootstrap token says of the proxy it is for.
type Enrolment struct {
	TokenID   string
	ExpiresAt time.Time
	ProxyID   string
	Name      string
	AgentID   string
	Remote    string // the address it came from, for the audit
}

// Enrol makes a proxy known, by a token that is used up with it. Of tokens and ids that race, the keys of two rows choose
// one: all others get ErrTokenUsed or ErrProxyKnown.
func (r *Registry) Enrol(ctx context.Context, e Enrolment, now time.Time) error {
	entry, err := audit.Entry(audit.Nobody(store.LocalPrincipal().Tenant), audit.ProxyRegistered, audit.OfProxy(e.ProxyID),
		map[string]string{"by": "bootstrap", "token_id": e.TokenID, "agent": e.AgentID, "remote_addr": e.Remote}, now)
	if err != nil {
		return err
	}
	entry.Remote = audit.Remote(ctx)
	return r.store.InTx(ctx, func(tx store.Tx) error {
		first, err := tx.UseBootstrap(ctx, store.BootstrapUse{TokenID: e.TokenID, ProxyID: e.ProxyID, UsedAt: now, ExpiresAt: e.ExpiresAt})
		if err != nil {
			return err
		}
		if !first {
			return ErrTokenUsed
		}
		unknown, err := tx.InsertProxy(ctx, store.Proxy{ID: e.ProxyID, Name: e.Name, AgentID: e.AgentID, Status: store.ProxyOffline, RegisteredAt: now})
		if err != nil {
			return err
		}
		if !unknown {
			return ErrProxyKnown
		}
		if err := tx.DropBootstrapUses(ctx, now.Add(-usesKept)); err != nil {
			return err
		}
		_, err = tx.AppendAudit(ctx, entry)
		return err
	})
}
