package storetest

import (
	"fmt"
	"sync/atomic"
	"time"

	"aqueduct/store"
)

// sequenceApprovals gives positions to all that has none, and returns how many.
func sequenceApprovals(env *storeEnv) int64 {
	env.Helper()
	var all int64
	for {
		var n int64
		env.tx(func(tx store.Tx) (err error) { n, err = tx.SequenceApprovals(env.ctx, 2); return err })
		if all += n; n == 0 {
			return all
		}
	}
}

// readApprovalChanges are those after a position, each as "o<id>" or "s<id>", with positions that rise.
func readApprovalChanges(env *storeEnv, in store.Scope, after int64) (what []string, last int64) {
	env.Helper()
	last = after
	for {
		some := got[[]store.ApprovalChange](env)(env.s.ApprovalChanges(env.ctx, in, last, 3))
		for _, c := range some {
			if c.Seq <= last {
				env.Fatalf("position %d after %d", c.Seq, last)
			}
			kind := "o"
			if c.Settled {
				kind = "s"
			}
			what, last = append(what, kind+c.Approval.ID), c.Seq
		}
		if len(some) == 0 {
			return what, last
		}
	}
}

func approveApproval(env *storeEnv, id string) {
	env.Helper()
	env.move(store.ApprovalMove{ID: id, To: store.ApprovalApproved, DecidedAt: at(9), DecidedBy: "x", DecidedVia: "rest"})
}

// testApprovalChanges: every opening and every end has one position, in an order in which
// nothing appears before what has been read.
func testApprovalChanges(env *storeEnv) {
	hers, system := store.Deciding(alice()), store.System()
	s := env.session(alice())
	begun := got[int64](env)(env.s.LastApprovalChange(env.ctx, system))
	a, b := env.approval(s.ID, "t", store.ApprovalPending), env.approval(s.ID, "t", store.ApprovalPending)
	what, _ := readApprovalChanges(env, hers, begun)
	same(env, what, nil) // written, and without a position
	same(env, got[bool](env)(env.s.ApprovalsUnsequenced(env.ctx, system)), true)
	same(env, sequenceApprovals(env), 2)
	same(env, got[bool](env)(env.s.ApprovalsUnsequenced(env.ctx, system)), false)
	same(env, sequenceApprovals(env), 0)
	what, last := readApprovalChanges(env, hers, begun)
	same(env, what, []string{"o" + a.ID, "o" + b.ID})
	same(env, last, got[int64](env)(env.s.LastApprovalChange(env.ctx, system)))

	// One that is opened and settled before anybody looks has both steps, in this order.
	c := env.approval(s.ID, "t", store.ApprovalPending)
	approveApproval(env, c.ID)
	approveApproval(env, a.ID)
	same(env, sequenceApprovals(env), 3)
	what, next := readApprovalChanges(env, hers, last)
	same(env, what, []string{"o" + c.ID, "s" + a.ID, "s" + c.ID})
	what, _ = readApprovalChanges(env, hers, begun)
	same(env, what, []string{"o" + a.ID, "o" + b.ID, "o" + c.ID, "s" + a.ID, "s" + c.ID})

	open := got[[]store.ApprovalChange](env)(env.s.OpenApprovals(env.ctx, hers, store.Page{}))
	same(env, len(open), 1)
	same(env, open[0], store.ApprovalChange{Seq: last, Approval: b, Thread: s.ExternalID, Tenant: "acme", User: "alice", AgentID: "demo"})

	// To delegate is to open it for another user.
	env.tx(func(tx store.Tx) error {
		_, err := tx.DelegateApproval(env.ctx, store.ApprovalDelegation{ID: b.ID, To: "bob", By: "alice"})
		return err
	})
	same(env, sequenceApprovals(env), 1)
	for _, in := range []store.Scope{hers, store.As(bob()), store.Deciding(bob()), store.Within("acme"), system} {
		what, _ = readApprovalChanges(env, in, next)
		same(env, what, []string{"o" + b.ID})
	}
	for _, in := range []store.Scope{store.Deciding(carol()), {}, store.Within(""), store.Within("other")} {
		what, _ = readApprovalChanges(env, in, 0)
		same(env, what, nil)
	}
}

// testApprovalDeciders: an Approval is seen by those whom its approvers name, by name or by
// role, and by no one of another tenant. A list shows others' as long as they are open.
func testApprovalDeciders(env *storeEnv) {
	s := env.session(alice())
	insert := func(approvers string) string {
		a := store.Approval{ID: env.id(), SessionID: s.ID, TurnID: "t", Kind: store.ApprovalPermission, Status: store.ApprovalPending,
			Tool: "pay", ToolKind: "execute", CreatedAt: at(1)}
		if approvers != "" {
			a.Approvers = []byte(approvers)
		}
		env.tx(func(tx store.Tx) error { return tx.InsertApproval(env.ctx, a) })
		return a.ID
	}
	bobs, roles, nobodys := insert(`["user:bob","role:x\"y"]`), insert(`["role:treasurer"]`), insert("")
	sequenceApprovals(env)
	bobsOwn := env.approval(env.session(bob()).ID, "t", store.ApprovalPending).ID
	treasurer := store.Principal{Tenant: "acme", User: "tess", Roles: []string{"dev", "treasurer"}}
	for name, c := range map[string]struct {
		in   store.Scope
		want []string
	}{
		"named":               {store.Deciding(bob()), []string{bobsOwn, bobs}},
		"as, not deciding":    {store.As(bob()), []string{bobsOwn}},
		"role":                {store.Deciding(treasurer), []string{roles}},
		"odd role":            {store.Deciding(store.Principal{Tenant: "acme", User: "o", Roles: []string{`x"y`}}), []string{bobs}},
		"role in other case":  {store.Deciding(store.Principal{Tenant: "acme", User: "t", Roles: []string{"Treasurer"}}), nil},
		"approver":            {store.Deciding(store.Principal{Tenant: "acme", User: "t", Roles: []string{store.RoleApprover}}), []string{bobsOwn, nobodys, roles, bobs}},
		"approver elsewhere":  {store.Deciding(store.Principal{Tenant: "other", User: "t", Roles: []string{store.RoleApprover}}), nil},
		"namesake":            {store.Deciding(store.Principal{Tenant: "other", User: "bob", Roles: []string{"treasurer"}}), nil},
		"owner":               {store.Deciding(alice()), []string{nobodys, roles, bobs}},
		"user called role:x":  {store.Deciding(store.Principal{Tenant: "acme", User: "role:treasurer"}), nil},
		"no user, but a role": {store.Deciding(store.Principal{Tenant: "acme", Roles: []string{"treasurer"}}), nil},
	} {
		rows := got[[]store.Approval](env)(env.s.Approvals(env.ctx, c.in, store.ApprovalFilter{}, store.Page{}))
		if listed := idsOf(rows, approvalID); fmt.Sprint(listed) != fmt.Sprint(c.want) {
			env.Errorf("%s lists %v, want %v", name, listed, c.want)
		}
		if _, err := env.s.Approval(env.ctx, c.in, roles); (err == nil) != contains(c.want, roles) {
			env.Errorf("%s by id: %v", name, err)
		}
		open := got[[]store.ApprovalChange](env)(env.s.OpenApprovals(env.ctx, c.in, store.Page{}))
		if name != "as, not deciding" && len(open) != len(c.want) {
			env.Errorf("%s: %d are open", name, len(open))
		}
	}
	page := func(p store.Page) []string {
		env.Helper()
		return idsOf(got[[]store.Approval](env)(env.s.Approvals(env.ctx, store.Deciding(bob()), store.ApprovalFilter{}, p)), approvalID)
	}
	same(env, page(store.Page{Limit: 1}), []string{bobsOwn})
	same(env, page(store.Page{Limit: 1, After: bobsOwn}), []string{bobs})
	same(env, page(store.Page{Limit: 1, Before: bobs}), []string{bobsOwn})
	approveApproval(env, bobs)
	same(env, page(store.Page{}), []string{bobsOwn})
	_, err := env.s.Approval(env.ctx, store.Deciding(bob()), bobs)
	env.ok(err) // it is seen by its id still
}

func contains(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}

// testDelegations: a standing delegation shows its delegate what its giver may decide, as long
// as it lives, as far as it goes, and nothing else.
func testDelegations(env *storeEnv) {
	s, others := env.session(alice()), env.session(store.Principal{Tenant: "acme", User: "dora"})
	a := store.Approval{ID: env.id(), SessionID: s.ID, TurnID: "t", Kind: store.ApprovalPermission, Status: store.ApprovalPending,
		Tool: "pay", ToolKind: "execute", CreatedAt: at(1)}
	named := store.Approval{ID: env.id(), SessionID: others.ID, TurnID: "t", Kind: store.ApprovalPermission, Status: store.ApprovalPending,
		Tool: "pay", Approvers: []byte(`["role:treasurer"]`), CreatedAt: at(1)}
	env.tx(func(tx store.Tx) error { return tx.InsertApproval(env.ctx, a) })
	env.tx(func(tx store.Tx) error { return tx.InsertApproval(env.ctx, named) })
	soon := time.Now().Add(time.Hour).Truncate(time.Millisecond).UTC()
	give := func(d store.Delegation) string {
		d.ID, d.Tenant, d.To, d.CreatedAt = env.id(), "acme", "bob", at(1)
		if d.User == "" {
			d.User = "alice"
		}
		if d.ExpiresAt.IsZero() {
			d.ExpiresAt = soon
		}
		env.tx(func(tx store.Tx) error { return tx.InsertDelegation(env.ctx, d) })
		return d.ID
	}
	revoke := func(in store.Scope, id string, want bool) {
		env.Helper()
		env.tx(func(tx store.Tx) error {
			same(env, got[bool](env)(tx.RevokeDelegation(env.ctx, in, id, "who", at(5))), want)
			return nil
		})
	}
	sees := func() []string {
		env.Helper()
		open := got[[]store.ApprovalChange](env)(env.s.OpenApprovals(env.ctx, store.Deciding(bob()), store.Page{}))
		return idsOf(open, func(c store.ApprovalChange) string { return c.Approval.ID })
	}
	for name, c := range map[string]struct {
		d    store.Delegation
		want []string
	}{
		"all of hers":     {store.Delegation{}, []string{a.ID}},
		"tool and kind":   {store.Delegation{Tool: "pay", ToolKind: "execute", AgentID: "demo"}, []string{a.ID}},
		"another tool":    {store.Delegation{Tool: "sell"}, nil},
		"another kind":    {store.Delegation{ToolKind: "read"}, nil},
		"another agent":   {store.Delegation{AgentID: "x"}, nil},
		"expired":         {store.Delegation{ExpiresAt: at(2)}, nil},
		"of a treasurer":  {store.Delegation{User: "tess", Holds: []byte(`["user:tess","role:treasurer"]`)}, []string{named.ID}},
		"of an approver":  {store.Delegation{User: "app", Wide: true}, []string{a.ID, named.ID}},
		"of nobody's":     {store.Delegation{User: "tess", Holds: []byte(`["user:tess"]`)}, nil},
		"revoked at once": {store.Delegation{RevokedAt: at(1)}, nil},
	} {
		id := give(c.d)
		if seen := sees(); fmt.Sprint(seen) != fmt.Sprint(c.want) {
			env.Errorf("%s: sees %v, want %v", name, seen, c.want)
		}
		of := got[[]store.Delegation](env)(env.s.DelegationsOf(env.ctx, store.System(), a.ID, "bob"))
		if (len(of) == 1) != contains(c.want, a.ID) {
			env.Errorf("%s: %v are of it", name, of)
		}
		_, err := env.s.Approval(env.ctx, store.Deciding(bob()), a.ID)
		if (err == nil) != contains(c.want, a.ID) {
			env.Errorf("%s by id: %v", name, err)
		}
		if c.d.RevokedAt.IsZero() {
			revoke(store.System(), id, true)
		}
		same(env, sees(), nil)
	}
	whole := store.Delegation{ID: env.id(), Tenant: "acme", User: "alice", To: "bob", Wide: true, Holds: []byte(`["user:alice"]`), AgentID: "demo",
		Tool: "pay", ToolKind: "execute", Note: "n", CreatedAt: at(1), ExpiresAt: soon, RevokedAt: at(3), RevokedBy: "x"}
	env.tx(func(tx store.Tx) error { return tx.InsertDelegation(env.ctx, whole) })
	same(env, got[store.Delegation](env)(env.s.Delegation(env.ctx, store.As(bob()), whole.ID)), whole)
	all := got[[]store.Delegation](env)(env.s.Delegations(env.ctx, store.As(alice()), store.Page{Limit: 2}))
	same(env, len(all), 2)
	same(env, all[0], whole)
	id := give(store.Delegation{})
	for _, in := range []store.Scope{store.As(bob()), store.As(carol()), {}, store.Within(""), store.Within("other")} {
		revoke(in, id, false)
	}
	revoke(store.As(alice()), id, true)
	revoke(store.As(alice()), id, false)
}

// testApprovalChangesAtOnce: while many open and settle, and others give positions, a reader
// that goes on from the last position it saw sees every change once.
func testApprovalChangesAtOnce(env *storeEnv) {
	const writers, each = 8, 20
	sessions := make([]store.Session, writers)
	for i := range sessions {
		sessions[i] = env.session(alice())
	}
	begun := got[int64](env)(env.s.LastApprovalChange(env.ctx, store.System()))
	var left atomic.Int64
	left.Store(writers)
	seen, last := map[string]int{}, begun
	read := func() error {
		for {
			some, err := env.s.ApprovalChanges(env.ctx, store.Within("acme"), last, 5)
			if err != nil || len(some) == 0 {
				return err
			}
			for _, c := range some {
				if c.Seq <= last {
					return fmt.Errorf("position %d after %d", c.Seq, last)
				}
				last = c.Seq
				seen[fmt.Sprint(c.Settled, c.Approval.ID)]++
			}
		}
	}
	sequence := func() error {
		return env.s.InTx(env.ctx, func(tx store.Tx) error { _, err := tx.SequenceApprovals(env.ctx, 7); return err })
	}
	env.ok(atOnce(writers+3, func(i int) error {
		switch {
		case i == writers:
			for left.Load() > 0 {
				if err := read(); err != nil {
					return err
				}
			}
			return nil
		case i > writers:
			for left.Load() > 0 {
				if err := sequence(); err != nil {
					return err
				}
			}
			return nil
		}
		defer left.Add(-1)
		for range each {
			id := env.id()
			err := env.s.InTx(env.ctx, func(tx store.Tx) error {
				return tx.InsertApproval(env.ctx, store.Approval{ID: id, SessionID: sessions[i].ID, TurnID: "t", Kind: store.ApprovalPermission,
					Status: store.ApprovalPending, CreatedAt: at(1)})
			})
			if err == nil {
				err = env.s.InTx(env.ctx, func(tx store.Tx) error {
					_, err := tx.MoveApproval(env.ctx, store.ApprovalMove{ID: id, To: store.ApprovalApproved, DecidedAt: at(2)})
					return err
				})
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
	sequenceApprovals(env)
	env.ok(read())
	for what, n := range seen {
		if n != 1 {
			env.Errorf("%s came %d times", what, n)
		}
	}
	same(env, len(seen), 2*writers*each)
}
