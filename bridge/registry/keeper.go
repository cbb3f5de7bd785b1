// This file writes the row of a registration, and refuses one that would pass for an agent of the operator's.

package registry

import (
	"context"

	"aqueduct/bridge"
	"aqueduct/bridge/approval/audit"
	"aqueduct/internal/fault"
	"aqueduct/internal/safetext"
	"aqueduct/store"
)

// keeper writes one registration in a transaction.
type keeper struct {
	tx     store.Tx
	who    store.Principal
	own    []string // the ids of everybody's agents that are here; their rows may not be written yet
	sealer *sealer
	auth   *Auth
}

// errTaken refuses an id or a name. Its words are the same for each reason; another tenant's agent is never one.
func errTaken() error {
	return fault.New(Taken, "The id or the name is that of another agent here, or looks like that of an agent of this server's operator. Choose another.")
}

// keep writes the row of a registration, and returns its id. To register the same again only shows that the agent lives:
// agents do so at each of their starts, and the audit would otherwise fill with them.
//
// Two that register a new id at once: the key of the row lets one of them insert it. The other then finds the row, if it is of the
// same tenant, and is treated like one that came later. Otherwise it claims the tenant's own key.
func (k keeper) keep(ctx context.Context, a store.Agent) (row string, err error) {
	id := a.ID
	for _, key := range []string{id, store.AgentKey(a.Tenant, id)} {
		before, err := find(ctx, k.tx, k.who, id)
		if err == nil {
			return before.ID, k.change(ctx, before, a)
		}
		if !isMissing(err) {
			return "", err
		}
		if key == id {
			if err := k.mayBeCalled(ctx, id, a.Name); err != nil {
				return "", err
			}
		}
		a.ID = key
		if err := k.sealer.seal(&a, k.auth); err != nil {
			return "", err
		}
		first, err := k.tx.ClaimAgent(ctx, a)
		if err != nil {
			return "", err
		}
		if first {
			return key, k.registered(ctx, a, "")
		}
	}
	before, err := find(ctx, k.tx, k.who, id)
	if err != nil {
		return "", err
	}
	return before.ID, k.change(ctx, before, a)
}

// change writes a registration over the row that is there.
func (k keeper) change(ctx context.Context, before, a store.Agent) error {
	if !mayManage(k.who, before) {
		return errTaken()
	}
	if a.Name != before.Name { // what was registered before an agent of the operator's came stays
		if err := k.mayBeCalled(ctx, a.Name); err != nil {
			return err
		}
	}
	a.ID, a.Owner = before.ID, before.Owner // an administrator who mends an entry does not take it away
	if err := k.sealer.seal(&a, k.auth); err != nil {
		return err
	}
	if _, err := k.tx.BeatAgent(ctx, a.ID, a.LastHeartbeatAt); err != nil {
		return err
	}
	if _, err := k.tx.UpdateAgent(ctx, a); err != nil || before.Endpoint == a.Endpoint {
		return err
	}
	return k.registered(ctx, a, before.Endpoint)
}

// registered audits a new agent, or one with another endpoint than before. A new one may be one too many.
func (k keeper) registered(ctx context.Context, a store.Agent, before string) error {
	details := map[string]string{"endpoint": a.Endpoint}
	if before != "" {
		details["before"] = before
	}
	err := audit.AppendAt(ctx, k.tx, k.who, audit.AgentRegistered, audit.OfAgent(store.AgentID(a.ID)), details, a.UpdatedAt)
	if err != nil || before != "" {
		return err
	}
	return mayHave(ctx, k.tx, k.who)
}

// mayBeCalled refuses an id or a name that a person could take for that of an agent of everybody's, or of a reserved one. Those
// are in every list, so the refusal shows nothing.
func (k keeper) mayBeCalled(ctx context.Context, names ...string) error {
	taken := append([]string{bridge.ClientAgent}, k.own...)
	page := store.Page{Limit: store.MaxPageLimit}
	for {
		rows, err := k.tx.Agents(ctx, store.As(k.who), page)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.Tenant == "" {
				taken = append(taken, row.ID, row.Name)
			}
		}
		if len(rows) < page.Size() {
			break
		}
		page.After = rows[len(rows)-1].ID
	}
	for _, name := range names {
		for _, of := range taken {
			if safetext.LooksLike(name, of) {
				return errTaken()
			}
		}
	}
	return nil
}
