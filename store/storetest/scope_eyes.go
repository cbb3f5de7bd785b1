package storetest

import (
	"maps"
	"slices"

	"aqueduct/store"
)

// checkEveryScope checks that the owner and the system see the row (or, when it is gone,
// no one), and no other Scope ever.
func checkEveryScope(env *storeEnv, r store.Reader, reads map[string]sees, there bool) {
	env.Helper()
	eyes := []struct {
		name string
		in   store.Scope
		want bool
	}{
		{"alice", store.As(alice()), there},
		{"system", store.System(), there},
		{"her tenant", store.Within("acme"), there},
		{"another tenant", store.Within("other"), false},
		{"no tenant", store.Within(""), false},
		{"the installation", store.Installation(), false},
		{"bob of the same tenant", store.As(bob()), false},
		{"alice of another tenant", store.As(carol()), false},
		{"nobody", store.Scope{}, false},
		{"a tenant without user", store.As(store.Principal{Tenant: "acme"}), false},
	}
	for _, name := range slices.Sorted(maps.Keys(reads)) {
		for _, e := range eyes {
			seen, err := reads[name](r, e.in)
			if err != nil {
				env.Errorf("%s as %s: %v", name, e.name, err)
			}
			if seen != e.want {
				env.Errorf("%s as %s: seen %t, want %t", name, e.name, seen, e.want)
			}
		}
	}
}

// checkTenantWide checks that a tenant's users and the system see the row, and no other Scope. A
// Tool's name alone is ambiguous in a Scope that has no tenant.
func checkTenantWide(env *storeEnv, reads map[string]sees) {
	env.Helper()
	for name, read := range reads {
		for eyes, in := range map[string]store.Scope{
			"alice": store.As(alice()), "bob": store.As(bob()), "carol": store.As(carol()), "nobody": {}, "system": store.System(),
			"acme": store.Within("acme"), "other": store.Within("other"), "no tenant": store.Within(""), "the installation": store.Installation(),
			"a tenant without user": store.As(store.Principal{Tenant: "acme"}),
		} {
			want := eyes == "alice" || eyes == "bob" || eyes == "acme" || eyes == "system" && name != "Tool"
			if seen, err := read(env.s, in); err != nil || seen != want {
				env.Errorf("%s as %s: seen %t, want %t, %v", name, eyes, seen, want, err)
			}
		}
	}
}

func heldBy(f full, who store.Principal) string {
	return "credential of " + f.session.ID + " " + who.Tenant + " " + who.User
}

// checkPrincipals checks that the one who is shared with, and whose credentials were revoked, is found, and no other.
func checkPrincipals(env *storeEnv, f full, reads map[string]func(r store.Reader, who store.Principal) (bool, error)) {
	env.Helper()
	nobody := store.Principal{Tenant: f.session.Tenant, User: "nobody"}
	all := []store.Principal{
		nobody, alice(), bob(), carol(), {}, {Tenant: nobody.Tenant}, {User: nobody.User}, {Tenant: "other", User: nobody.User},
		{Tenant: nobody.Tenant, User: "user:nobody"}, {Tenant: nobody.Tenant, User: "eve", Roles: []string{"nobody", store.RoleAdmin, store.RoleOperator}},
	}
	for _, who := range all {
		insertCredential(env, store.Credential{ID: heldBy(f, who), Kind: store.CredentialUser, Tenant: who.Tenant, User: who.User, CreatedAt: at(1)})
	}
	env.tx(func(tx store.Tx) error {
		_, err := tx.RevokeCredentials(env.ctx, nobody.Tenant, nobody.User, "boss", at(2))
		return err
	})
	for name, read := range reads {
		for _, who := range all {
			want := who.Tenant == nobody.Tenant && who.User == nobody.User
			if seen, err := read(env.s, who); err != nil || seen != want {
				env.Errorf("%s as %+v: seen %t, want %t, %v", name, who, seen, want, err)
			}
		}
	}
}
