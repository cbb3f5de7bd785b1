package storetest

import (
	"slices"
	"time"

	"aqueduct/store"
)

// keep is KeepCredential in a transaction of its own.
func (w *world) keep(c store.Credential) (kept store.Credential) {
	w.Helper()
	w.tx(func(tx store.Tx) (err error) { kept, err = tx.KeepCredential(w.ctx, c); return err })
	return kept
}

// revokeOne is RevokeCredential in a transaction of its own.
func (w *world) revokeOne(in store.Scope, id string, when time.Time) (revoked bool) {
	w.Helper()
	w.tx(func(tx store.Tx) (err error) {
		revoked, err = tx.RevokeCredential(w.ctx, in, id, "boss", when)
		return err
	})
	return revoked
}

func (w *world) credentialIDs(in store.Scope, f store.CredentialFilter) []string {
	w.Helper()
	var ids []string
	for _, c := range got[[]store.Credential](w)(w.s.Credentials(w.ctx, in, f)) {
		ids = append(ids, c.ID)
	}
	return ids
}

func testCredentials(w *world) {
	alice := alice()
	token := store.Credential{ID: w.id(), Kind: store.CredentialUser, Tenant: alice.Tenant, User: alice.User, Roles: []string{"user", "dev"}, CreatedAt: at(1), ExpiresAt: at(1000)}
	session := store.Credential{ID: w.id(), Parent: token.ID, Kind: store.CredentialSession, Tenant: alice.Tenant, User: alice.User, CreatedAt: at(2), ExpiresAt: at(1000)}
	key := store.Credential{ID: w.id(), Kind: store.CredentialAPIKey, Tenant: alice.Tenant, User: "service:ci", Name: "ci", Hash: "00ff", CreatedBy: "boss", CreatedAt: at(3)}
	proxy := store.Credential{ID: w.id(), Kind: store.CredentialProxy, Name: "p1", CreatedAt: at(4), ExpiresAt: at(50)}
	for _, c := range []store.Credential{token, session, key, proxy} {
		same(w, w.keep(c), c)
	}
	again := token
	again.Roles, again.CreatedAt = []string{"admin"}, at(9)
	same(w, w.keep(again), token) // what was kept first stays

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
		if ids := w.credentialIDs(c.in, c.filter); !slices.Equal(ids, c.want) {
			w.Errorf("%s: %v, want %v", name, ids, c.want)
		}
	}
	_, err := w.s.Credential(w.ctx, store.As(carol()), token.ID)
	w.is(err, store.ErrNotFound)

	all := []string{token.ID, session.ID, key.ID, proxy.ID, w.id()}
	same(w, len(got[[]string](w)(w.s.RevokedCredentials(w.ctx, all))), 0)
	same(w, w.revokeOne(store.As(bob()), token.ID, at(20)), false)
	same(w, w.revokeOne(store.Installation(), token.ID, at(20)), false)
	same(w, w.revokeOne(within, token.ID, at(20)), true)
	same(w, w.revokeOne(within, token.ID, at(21)), false)
	revoked := got[[]string](w)(w.s.RevokedCredentials(w.ctx, all))
	same(w, len(revoked), 2) // the session too, by its parent
	kept := got[store.Credential](w)(w.s.Credential(w.ctx, store.As(alice), token.ID))
	same(w, kept.RevokedAt, at(20))
	same(w, kept.RevokedBy, "boss")

	w.tx(func(tx store.Tx) error { return tx.UseCredentials(w.ctx, []string{key.ID, proxy.ID}, at(30)) })
	same(w, got[store.Credential](w)(w.s.Credential(w.ctx, within, key.ID)).LastUsedAt, at(30))
	w.tx(func(tx store.Tx) error { return tx.DropCredentials(w.ctx, at(60)) })
	same(w, len(w.credentialIDs(store.Installation(), store.CredentialFilter{})), 0)
	same(w, len(w.credentialIDs(within, store.CredentialFilter{})), 3)
}

// testCredentialsOfAUser are revoked together, those included that are seen for the first time afterwards.
func testCredentialsOfAUser(w *world) {
	alice := alice()
	all := func(id string, created time.Time) store.Credential {
		return store.Credential{ID: id, Kind: store.CredentialUser, Tenant: alice.Tenant, User: alice.User, CreatedAt: created, ExpiresAt: at(1000)}
	}
	one, late, next := all(w.id(), at(1)), all(w.id(), at(2)), all(w.id(), at(31))
	others := one
	others.ID, others.User = w.id(), bob().User
	w.keep(one)
	w.keep(others)
	var n int64
	w.tx(func(tx store.Tx) (err error) {
		n, err = tx.RevokeCredentials(w.ctx, alice.Tenant, alice.User, "boss", at(30))
		return err
	})
	same(w, n, int64(1))
	same(w, w.keep(late).RevokedAt, at(30))
	same(w, w.keep(next), next)
	same(w, got[store.Credential](w)(w.s.Credential(w.ctx, store.System(), others.ID)), others)
	w.tx(func(tx store.Tx) (err error) {
		n, err = tx.RevokeCredentials(w.ctx, alice.Tenant, "", "boss", at(40))
		return err
	})
	same(w, n, int64(0))

	// A first use beside the revocation is never missed.
	users := make([]store.Credential, 20)
	for i := range users {
		users[i] = all(w.id(), at(50))
		users[i].User = "both"
	}
	w.ok(atOnce(len(users)+1, func(i int) error {
		return w.s.InTx(w.ctx, func(tx store.Tx) error {
			if i == len(users) {
				_, err := tx.RevokeCredentials(w.ctx, alice.Tenant, "both", "boss", at(60))
				return err
			}
			_, err := tx.KeepCredential(w.ctx, users[i])
			return err
		})
	}))
	same(w, len(w.credentialIDs(store.Within(alice.Tenant), store.CredentialFilter{User: "both", Current: at(70)})), 0)
}
