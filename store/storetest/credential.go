package storetest

import (
	"slices"
	"sync/atomic"
	"time"

	"aqueduct/store"
)

// insertCredential is KeepCredential in a transaction of its own.
func insertCredential(env *storeEnv, c store.Credential) (kept store.Credential) {
	env.Helper()
	env.tx(func(tx store.Tx) (err error) { kept, err = tx.KeepCredential(env.ctx, c); return err })
	return kept
}

// revokeCredential is RevokeCredential in a transaction of its own.
func revokeCredential(env *storeEnv, in store.Scope, id string, when time.Time) (revoked bool) {
	env.Helper()
	env.tx(func(tx store.Tx) (err error) {
		revoked, err = tx.RevokeCredential(env.ctx, in, id, "boss", when)
		return err
	})
	return revoked
}

func listCredentialIDs(env *storeEnv, in store.Scope, f store.CredentialFilter) []string {
	env.Helper()
	var ids []string
	for _, c := range got[[]store.Credential](env)(env.s.Credentials(env.ctx, in, f)) {
		ids = append(ids, c.ID)
	}
	return ids
}

func testCredentials(env *storeEnv) {
	alice := alice()
	token := store.Credential{ID: env.id(), Kind: store.CredentialUser, Tenant: alice.Tenant, User: alice.User, Roles: []string{"user", "dev"}, CreatedAt: at(1), ExpiresAt: at(1000)}
	session := store.Credential{ID: env.id(), Parent: token.ID, Kind: store.CredentialSession, Tenant: alice.Tenant, User: alice.User, CreatedAt: at(2), ExpiresAt: at(1000)}
	key := store.Credential{ID: env.id(), Kind: store.CredentialAPIKey, Tenant: alice.Tenant, User: "service:ci", Name: "ci", Hash: "00ff", CreatedBy: "boss", CreatedAt: at(3)}
	proxy := store.Credential{ID: env.id(), Kind: store.CredentialProxy, Name: "p1", CreatedAt: at(4), ExpiresAt: at(50)}
	for _, c := range []store.Credential{token, session, key, proxy} {
		same(env, insertCredential(env, c), c)
	}
	again := token
	again.Roles, again.CreatedAt = []string{"admin"}, at(9)
	same(env, insertCredential(env, again), token) // what was kept first stays

	within := store.Within(alice.Tenant)
	for name, c := range map[string]struct {
		in     store.Scope
		filter store.CredentialFilter
		want   []string
	}{
		"own":                   {store.As(alice), store.CredentialFilter{}, []string{session.ID, token.ID}},
		"the tenant's":          {within, store.CredentialFilter{}, []string{key.ID, session.ID, token.ID}},
		"of a kind":             {within, store.CredentialFilter{Kind: store.CredentialAPIKey}, []string{key.ID}},
		"of a user":             {within, store.CredentialFilter{User: alice.User}, []string{session.ID, token.ID}},
		"current":               {within, store.CredentialFilter{Current: at(1000)}, []string{key.ID}},
		"the installation's":    {store.Installation(), store.CredentialFilter{}, []string{proxy.ID}},
		"another tenant's":      {store.Within("other"), store.CredentialFilter{}, nil},
		"another user's":        {store.As(bob()), store.CredentialFilter{}, nil},
		"of nobody":             {store.Scope{}, store.CredentialFilter{}, nil},
		"of a nameless user":    {store.As(store.Principal{Tenant: alice.Tenant}), store.CredentialFilter{}, nil},
		"a page":                {within, store.CredentialFilter{Page: store.Page{Limit: 1, After: key.ID}}, []string{session.ID}},
		"of somebody, too wide": {store.As(alice), store.CredentialFilter{User: "service:ci"}, nil},
	} {
		if ids := listCredentialIDs(env, c.in, c.filter); !slices.Equal(ids, c.want) {
			env.Errorf("%s: %v, want %v", name, ids, c.want)
		}
	}
	_, err := env.s.Credential(env.ctx, store.As(carol()), token.ID)
	env.is(err, store.ErrNotFound)

	all := []string{token.ID, session.ID, key.ID, proxy.ID, env.id()}
	same(env, len(got[[]string](env)(env.s.RevokedCredentials(env.ctx, all))), 0)
	same(env, revokeCredential(env, store.As(bob()), token.ID, at(20)), false)
	same(env, revokeCredential(env, store.Installation(), token.ID, at(20)), false)
	same(env, revokeCredential(env, within, token.ID, at(20)), true)
	same(env, revokeCredential(env, within, token.ID, at(21)), false)
	revoked := got[[]string](env)(env.s.RevokedCredentials(env.ctx, all))
	same(env, len(revoked), 2) // the session too, by its parent
	kept := got[store.Credential](env)(env.s.Credential(env.ctx, store.As(alice), token.ID))
	same(env, kept.RevokedAt, at(20))
	same(env, kept.RevokedBy, "boss")

	env.tx(func(tx store.Tx) error { return tx.UseCredentials(env.ctx, []string{key.ID, proxy.ID}, at(30)) })
	same(env, got[store.Credential](env)(env.s.Credential(env.ctx, within, key.ID)).LastUsedAt, at(30))
	env.tx(func(tx store.Tx) error { return tx.DropCredentials(env.ctx, at(60)) })
	same(env, len(listCredentialIDs(env, store.Installation(), store.CredentialFilter{})), 0)
	same(env, len(listCredentialIDs(env, within, store.CredentialFilter{})), 3)
}

// testCredentialsOfAUser are revoked together, those included that are seen for the first time afterwards.
func testCredentialsOfAUser(env *storeEnv) {
	alice := alice()
	all := func(id string, created time.Time) store.Credential {
		return store.Credential{ID: id, Kind: store.CredentialUser, Tenant: alice.Tenant, User: alice.User, CreatedAt: created, ExpiresAt: at(1000)}
	}
	one, late, next := all(env.id(), at(1)), all(env.id(), at(2)), all(env.id(), at(31))
	others := one
	others.ID, others.User = env.id(), bob().User
	insertCredential(env, one)
	insertCredential(env, others)
	var n int64
	env.tx(func(tx store.Tx) (err error) {
		n, err = tx.RevokeCredentials(env.ctx, alice.Tenant, alice.User, "boss", at(30))
		return err
	})
	same(env, n, int64(1))
	same(env, got[time.Time](env)(env.s.UserRevokedAt(env.ctx, alice.Tenant, alice.User)), at(30))
	same(env, got[time.Time](env)(env.s.UserRevokedAt(env.ctx, alice.Tenant, bob().User)), time.Time{})
	same(env, insertCredential(env, late).RevokedAt, at(30))
	same(env, insertCredential(env, next), next)
	same(env, got[store.Credential](env)(env.s.Credential(env.ctx, store.System(), others.ID)), others)
	env.tx(func(tx store.Tx) (err error) {
		n, err = tx.RevokeCredentials(env.ctx, alice.Tenant, "", "boss", at(40))
		return err
	})
	same(env, n, int64(0))

	// A first use beside the revocation is never missed.
	users := make([]store.Credential, 20)
	for i := range users {
		users[i] = all(env.id(), at(50))
		users[i].User = "both"
	}
	env.ok(atOnce(len(users)+1, func(i int) error {
		return env.s.InTx(env.ctx, func(tx store.Tx) error {
			if i == len(users) {
				_, err := tx.RevokeCredentials(env.ctx, alice.Tenant, "both", "boss", at(60))
				return err
			}
			_, err := tx.KeepCredential(env.ctx, users[i])
			return err
		})
	}))
	same(env, len(listCredentialIDs(env, store.Within(alice.Tenant), store.CredentialFilter{User: "both", Current: at(70)})), 0)
}

// testTickets: of many at once one uses a ticket, and it stays used until it is forgotten.
func testTickets(env *storeEnv) {
	id := env.id()
	use := func() (first bool, err error) {
		err = env.s.InTx(env.ctx, func(tx store.Tx) (err error) { first, err = tx.UseTicket(env.ctx, id, at(10)); return err })
		return first, err
	}
	var first atomic.Int64
	env.ok(atOnce(20, func(int) error {
		mine, err := use()
		if mine {
			first.Add(1)
		}
		return err
	}))
	same(env, first.Load(), 1)
	env.tx(func(tx store.Tx) error { return tx.DropTickets(env.ctx, at(10)) })
	same(env, got[bool](env)(use()), false)
	env.tx(func(tx store.Tx) error { return tx.DropTickets(env.ctx, at(11)) })
	same(env, got[bool](env)(use()), true)
}
