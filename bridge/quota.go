package bridge

import (
	"context"
	"fmt"

	"aqueduct/internal/fault"
	"aqueduct/store"
)

// quota holds what users and tenants may have at a time: open Questions and Turns of a user, bytes of a tenant. It counts
// on this replica and corrects itself by the store.
type quota struct {
	store     store.Store
	limits    Limits
	limited   func(limit string) // counts a refusal; may be nil
	questions *userCount         // open ones, by user
	turns     *userCount         // under way, by user
	tenants   tenants            // bytes of their threads
}

// newQuota makes the counts. Turns and Questions are counted at the store when this replica has no fresh number; a
// limit may so be passed by a few where several replicas admit at once.
func newQuota(st store.Store, limits Limits, limited func(string)) *quota {
	return &quota{
		store: st, limits: limits, limited: limited,
		questions: newUserCount(limits.QuestionsPerUser, func(ctx context.Context, in store.Scope, most int) (int, error) {
			return st.CountWaiting(ctx, in, "", most)
		}),
		turns:   newUserCount(limits.TurnsPerUser, st.CountActiveTurns),
		tenants: tenants{by: make(map[string]tenantBytes)},
	}
}

// mayPrompt checks the limit of Turns that one user has under way.
func (q *quota) mayPrompt(ctx context.Context, who store.Principal) error {
	ok, err := q.turns.add(ctx, who.Tenant, who.User)
	if err == nil && ok {
		return q.mayKeep(ctx, who.Tenant)
	}
	if err == nil {
		err = q.refused("turns", fault.New(RefusedTooManyTurns, fmt.Sprintf("%d turns of this user are under way.", q.limits.TurnsPerUser)))
	}
	return err
}

// refused counts a refusal and returns it.
// The name of the limit is the label of the metric, so that an operator sees which one is hit.
func (q *quota) refused(limit string, err error) error {
	q.count(limit)
	return err
}

func (q *quota) count(limit string) {
	if q.limited != nil {
		q.limited(limit)
	}
}

// mayKeep checks the limit of what a tenant's threads hold together.
func (q *quota) mayKeep(ctx context.Context, tenant string) error {
	most := q.limits.TenantBytes
	if most <= 0 {
		return nil
	}
	bytes, again := q.tenants.remembered(tenant, most)
	if again {
		var err error
		if bytes, err = q.store.TenantBytes(ctx, store.System(), tenant); err != nil {
			return err
		}
		q.tenants.counted(tenant, bytes)
	}
	if bytes < most {
		return nil
	}
	return q.refused("tenant_bytes", fault.New(RefusedTenantFull, fmt.Sprintf("The threads of this tenant hold more than %d bytes.", most)))
}
