package acpgateway

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval/audit"
	"aqueduct/store"
)

// usesKept is how long after its end a used token is remembered: clocks of two replicas may be apart.
const usesKept = 10 * time.Minute

// Enrol registers a proxy by a bootstrap token. It marks the token as used or, if it is reusable, binds it to the proxy. The
// bound proxy may enrol again; any other proxy gets bridge.ErrTokenBound.
//
// The keys of two rows decide a race of tokens and ids. One proxy enrols; the others get bridge.ErrTokenUsed,
// bridge.ErrTokenBound or bridge.ErrProxyKnown. Enrol returns bridge.ErrAgentTaken if the agent's id is registered.
//
// The use of the token, the proxy's row and the audit's entry are one transaction: a token that is used up has a
// proxy, and a crash leaves either none or both.
func (reg *Registry) Enrol(ctx context.Context, e bridge.Enrolment, now time.Time) error {
	entry, err := audit.Entry(audit.Nobody(store.LocalPrincipal().Tenant), audit.ProxyRegistered, audit.OfProxy(e.ProxyID),
		map[string]string{"by": "bootstrap", "token_id": e.TokenID, "agent": e.AgentID, "remote_addr": e.Remote}, now)
	if err != nil {
		return err
	}
	entry.Remote = audit.Remote(ctx)
	return reg.store.InTx(ctx, func(tx store.Tx) error {
		first, err := tx.UseBootstrap(ctx, store.BootstrapUse{TokenID: e.TokenID, ProxyID: e.ProxyID, UsedAt: now, ExpiresAt: e.ExpiresAt})
		if err != nil {
			return err
		}
		if !first {
			if err := usedAgain(ctx, tx, e); err != nil {
				return err
			}
		}
		unknown, err := tx.InsertProxy(ctx, store.Proxy{ID: e.ProxyID, Name: e.Name, AgentID: e.AgentID, Status: store.ProxyOffline, RegisteredAt: now})
		if err != nil {
			return err
		}
		// A token cannot take the place of a known proxy. There are two exceptions: the token is bound to the proxy, or it is
		// reusable and an operator named the proxy in it. Such a token may also replace a token of the proxy that has
		// expired.
		if !unknown && first && (!e.Reusable || !e.Named) {
			return bridge.ErrProxyKnown
		}
		if free, err := claimAgent(ctx, tx, e.AgentID); err != nil || !free {
			return cmp.Or(err, bridge.ErrAgentTaken)
		}
		// Old uses are dropped here, where the table grows, so that no job of its own is needed for them.
		if err := tx.DropBootstrapUses(ctx, now.Add(-usesKept)); err != nil {
			return err
		}
		_, err = tx.AppendAudit(ctx, entry)
		return err
	})
}

// usedAgain allows a used token only to the proxy that it is bound to.
func usedAgain(ctx context.Context, tx store.Tx, e bridge.Enrolment) error {
	if !e.Reusable {
		return bridge.ErrTokenUsed
	}
	bound, err := tx.BootstrapProxy(ctx, e.TokenID)
	if err == nil && bound != e.ProxyID {
		err = fmt.Errorf("%w: %s's", bridge.ErrTokenBound, bound)
	}
	return err
}
