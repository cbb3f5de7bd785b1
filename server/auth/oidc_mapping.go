// This file defines what an issuer's claims mean here: which tenant, which user, which roles. It
// errs on the side of refusing: a mapping that lets in one person too many shows a tenant's threads
// to strangers.

package auth

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"aqueduct/store"
)

// maxUser bounds the name of a user, which stands in rows, logs and headers.
const maxUser = 128

// Mapping defines what an issuer's claims mean here. It is read from a YAML file at the start and does not change
// afterwards.
type Mapping struct {
	Tenant TenantMapping `yaml:"tenant"`
	User   UserMapping   `yaml:"user"`
	Roles  RoleMapping   `yaml:"roles"`
}

// TenantMapping finds the tenant. With Map only its keys are let in, beside those whom Default takes.
type TenantMapping struct {
	Claim   string            `yaml:"claim"`
	Map     map[string]string `yaml:"map"`
	Default string            `yaml:"default"` // for tokens without the claim; "" lets none of them in
}

// UserMapping finds the user's name within the tenant.
type UserMapping struct {
	Claim string `yaml:"claim"` // sub when empty: the one that an issuer never gives to a second user
}

// RoleMapping gives roles to values of a claim, groups for instance. A value that is not in Map gives none:
// no claim is a role by itself.
type RoleMapping struct {
	Claim   string              `yaml:"claim"`
	Map     map[string][]string `yaml:"map"`
	Default []string            `yaml:"default"` // for everybody
}

// ParseMapping reads a mapping file. A member that is not known is an error: one that is misspelt would
// silently let in more people, or fewer.
func ParseMapping(raw []byte) (Mapping, error) {
	var m Mapping
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&m); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the file is empty")
		}
		return Mapping{}, fmt.Errorf("auth: the mapping: %w", err)
	}
	return m, m.check()
}

// tenantName is what a tenant may be called: it stands in metrics and file names.
var tenantName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)

// check refuses mappings that would let in people of no tenant, or give the role of an operator.
func (m Mapping) check() error {
	t := m.Tenant
	if t.Claim == "" && t.Default == "" {
		return errors.New("auth: the mapping must say which tenant people belong to: tenant.claim or tenant.default")
	}
	if t.Claim == "" && len(t.Map) > 0 {
		return errors.New("auth: tenant.map needs tenant.claim")
	}
	for _, name := range t.Map {
		if !tenantName.MatchString(name) {
			return fmt.Errorf("auth: %q cannot be a tenant", name)
		}
	}
	if t.Default != "" && !tenantName.MatchString(t.Default) {
		return fmt.Errorf("auth: %q cannot be a tenant", t.Default)
	}
	if m.Roles.Claim == "" && len(m.Roles.Map) > 0 {
		return errors.New("auth: roles.map needs roles.claim")
	}
	given := slices.Clone(m.Roles.Default)
	for _, roles := range m.Roles.Map {
		given = append(given, roles...)
	}
	for _, role := range given {
		if !tenantName.MatchString(role) || role == RoleOperator {
			return fmt.Errorf("auth: the mapping cannot give the role %q; the installation's operator is not a person of a tenant", role)
		}
	}
	return nil
}

// principal is whom the claims are of. Both a tenant and a user are needed: a token without either has no owner here.
func (m Mapping) principal(claims map[string]any) (store.Principal, error) {
	tenant := m.tenant(claims)
	user, err := m.user(claims)
	if err != nil {
		return store.Principal{}, err
	}
	if tenant == "" || user == "" {
		return store.Principal{}, ErrNotMapped
	}
	return store.Principal{Tenant: tenant, User: user, Roles: PersonRoles(m.roles(claims))}, nil
}

// tenant is "" for claims that no tenant takes. An empty or malformed claim is not the same as an
// absent one: only the absent claim falls back to Default.
func (m Mapping) tenant(claims map[string]any) string {
	if m.Tenant.Claim == "" {
		return m.Tenant.Default
	}
	claim := claimAt(claims, m.Tenant.Claim)
	if claim == nil {
		return m.Tenant.Default
	}
	values := texts(claim) // none of a number or an empty list: such a claim names no tenant, and not the default one
	if len(m.Tenant.Map) == 0 {
		// The installation's own tenant is named by a mapping, not by who may call an organization "local" at the provider.
		if len(values) != 1 || !tenantName.MatchString(values[0]) || values[0] == store.LocalPrincipal().Tenant {
			return ""
		}
		return values[0]
	}
	found := ""
	for _, value := range values {
		to, is := m.Tenant.Map[value]
		if is && found != "" && found != to {
			return "" // of two tenants neither can be chosen for them
		}
		if is {
			found = to
		}
	}
	return found
}

// user is the name within the tenant. An email address counts only when the issuer has verified it.
func (m Mapping) user(claims map[string]any) (string, error) {
	claim := m.userClaim()
	user, _ := claimAt(claims, claim).(string)
	if claim == "email" && claims["email_verified"] != true {
		return "", ErrNotMapped // any person can write another's address into a profile
	}
	if !validUser(user) {
		return "", ErrNotMapped
	}
	return user, nil
}

// userClaim is the claim that names the user.
func (m Mapping) userClaim() string {
	return cmp.Or(m.User.Claim, "sub")
}

// validUser refuses names of our own, and those that would pass for another where they are shown. Invisible
// characters are refused, because two names that look alike would be two users.
func validUser(user string) bool {
	if user == "" || len(user) > maxUser || !utf8.ValidString(user) || strings.TrimSpace(user) != user {
		return false
	}
	for _, r := range user {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) {
			return false
		}
	}
	lower := strings.ToLower(user)
	return !reserved(lower) && lower != store.LocalPrincipal().User
}

// roles are those of all values together, sorted, each once.
func (m Mapping) roles(claims map[string]any) []string {
	roles := slices.Clone(m.Roles.Default)
	if m.Roles.Claim != "" {
		for _, value := range texts(claimAt(claims, m.Roles.Claim)) {
			roles = append(roles, m.Roles.Map[value]...)
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

// satisfied reports whether the claims have all that the mapping looks at. It saves the call of the userinfo endpoint
// for issuers that put all claims into the ID token.
func (m Mapping) satisfied(claims map[string]any) bool {
	for _, name := range []string{m.Tenant.Claim, m.Roles.Claim, m.userClaim()} {
		if name != "" && claimAt(claims, name) == nil {
			return false
		}
	}
	return m.userClaim() != "email" || claims["email_verified"] != nil
}

// claimAt is a claim by its name, which may be a URL, or by a path such as realm_access.roles.
func claimAt(claims map[string]any, name string) any {
	if value, is := claims[name]; is {
		return value
	}
	var at any = claims
	for _, step := range strings.Split(name, ".") {
		within, is := at.(map[string]any)
		if !is {
			return nil
		}
		at = within[step]
	}
	return at
}

// texts are a claim's values: a text, or the texts of a list.
func texts(claim any) []string {
	switch v := claim.(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, one := range v {
			if s, is := one.(string); is {
				all = append(all, s)
			}
		}
		return all
	}
	return nil
}
