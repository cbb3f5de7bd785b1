// This file is what admins, operators and users do with credentials: list, create, revoke. Each
// change and its audit record are one transaction. After it, forget makes this replica check at
// once; other replicas find the revocation within watchTime.

package auth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"aqueduct/bridge/approval/audit"
	"aqueduct/store"
)

// ErrWiderThanOwn: the caller wanted to give a credential more rights than their own allows.
var ErrWiderThanOwn = errors.New("auth: a credential may not have a role that its creator does not have")

// ErrTokenAgain: a browser session of the static token wanted to make a credential, which would outlive it.
var ErrTokenAgain = errors.New("auth: a session of the static token makes no credentials")

// What is done with credentials, in the audit.
const (
	auditTokenIssued  = "token.issued"
	auditTokenRevoked = "token.revoked"
	auditUserRevoked  = "token.revoked_all"
	auditKeyCreated   = "service_account.created"
)

// apiKeyPrefix begins every API key, so that scanners of leaked secrets can know one.
const apiKeyPrefix = "aqk_"

// managed is whose credentials a Caller may list and revoke: its own; with the role admin or auditor
// those of the tenant. Whether it may also change them is decided by the route.
func managed(c Caller) store.Scope {
	if c.Has(RoleAdmin) || c.Has(RoleAuditor) {
		return store.Within(c.Principal.Tenant)
	}
	return c.Scope()
}

// Elsewhere names credentials beyond a Caller's tenant; operators alone may.
type Elsewhere struct {
	Tenant       string // "" for the Caller's own
	Installation bool   // those of no tenant: proxies and operators
}

// List are the credentials a Caller may see. A caller that asks beyond its tenant without being an operator gets not
// found, so the existence of tenants stays hidden.
func (r *Registry) List(ctx context.Context, c Caller, f store.CredentialFilter, e Elsewhere) ([]store.Credential, error) {
	in := managed(c)
	switch {
	case e == Elsewhere{}:
	case !c.Has(RoleOperator):
		return nil, store.ErrNotFound
	case e.Installation:
		in = store.Installation()
	default:
		in = store.Within(e.Tenant)
	}
	return r.store.Credentials(ctx, in, f)
}

// Keep keeps a credential that was issued by a Caller. A session of the static token issues none: the person shows the token
// again, so that who has taken over a page for a minute gains nothing that lasts. The store returns the row that is there when
// the id is taken. A retry of the same issue has the same id and time and succeeds; another key
// under that id is a conflict.
func (r *Registry) Keep(ctx context.Context, by Caller, c store.Credential) error {
	if by.Kind == KindStatic && by.Credential.Kind == store.CredentialSession {
		return ErrTokenAgain
	}
	c.CreatedBy = by.Principal.User
	action := auditTokenIssued
	if c.Kind == store.CredentialAPIKey {
		action = auditKeyCreated
	}
	return r.store.InTx(ctx, func(tx store.Tx) error {
		kept, err := tx.KeepCredential(ctx, c)
		if err != nil {
			return err
		}
		if kept.ID != c.ID || !kept.CreatedAt.Equal(c.CreatedAt.Truncate(time.Millisecond)) && c.Kind == store.CredentialAPIKey {
			return store.ErrConflict
		}
		if c.Owner != "" {
			if err := tx.InsertDelegation(ctx, toOwner(c)); err != nil {
				return err
			}
		}
		return record(ctx, tx, by.Principal, action, c.ID, struct {
			Kind  string   `json:"kind"`
			User  string   `json:"user,omitempty"`
			Name  string   `json:"name,omitempty"`
			Roles []string `json:"roles,omitempty"`
			Agent string   `json:"agent,omitempty"`
			Owner string   `json:"owner,omitempty"`
		}{string(c.Kind), c.User, c.Name, c.Roles, c.AgentID, c.Owner})
	})
}

// always is the end of credentials that do not expire.
var always = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// toOwner lets the owner of a program decide its questions. The program's user cannot decide, so its questions would
// otherwise be in no inbox. The delegation ends with the key, if the key expires. A question that is open at a revocation can
// still be decided.
func toOwner(c store.Credential) store.Delegation {
	holds, _ := json.Marshal(store.DeciderNames(store.Principal{User: c.User})) // a list of texts
	until := always
	if !c.ExpiresAt.IsZero() {
		until = c.ExpiresAt
	}
	return store.Delegation{
		ID: newID(), Tenant: c.Tenant, User: c.User, To: c.Owner, Holds: holds, AgentID: c.AgentID, Note: "The owner of a service account decides what it asks.",
		CreatedAt: c.CreatedAt, ExpiresAt: until,
	}
}

// record appends to the audit within the transaction of the change.
func record(ctx context.Context, tx store.Tx, who store.Principal, action, id string, details any) error {
	return audit.Append(ctx, tx, who, action, audit.OfToken(id), details)
}

// Revoke revokes one credential; store.ErrNotFound when the Caller sees none of that id. To revoke
// one that is revoked changes nothing.
func (r *Registry) Revoke(ctx context.Context, by Caller, id string) error {
	in := managed(by)
	if by.Has(RoleOperator) {
		in = store.System() // of every tenant, and of none
	}
	known, err := r.store.Credential(ctx, in, id)
	if err != nil {
		return err
	}
	if !by.Has(RoleAdmin) && !by.Has(RoleOperator) && known.User != by.Principal.User {
		return store.ErrNotFound // an auditor sees it and changes nothing
	}
	err = r.store.InTx(ctx, func(tx store.Tx) error {
		revoked, err := tx.RevokeCredential(ctx, in, id, by.Principal.User, time.Now())
		if err != nil || !revoked {
			return err
		}
		return record(ctx, tx, store.Principal{Tenant: known.Tenant, User: by.Principal.User}, auditTokenRevoked, id, struct {
			Kind string `json:"kind"`
			User string `json:"user,omitempty"`
			Name string `json:"name,omitempty"`
		}{string(known.Kind), known.User, known.Name})
	})
	if err == nil {
		r.forget(ctx)
	}
	return err
}

// RevokeAll revokes every credential of one user of a tenant, "" for the Caller's, and returns how many were live. A
// Caller without the role admin may name itself alone; an operator names any tenant. The time of the revocation is
// kept for the user, and ends also tokens that were never used and links that were sent before it.
func (r *Registry) RevokeAll(ctx context.Context, by Caller, tenant, user string) (n int64, err error) {
	switch {
	case user == "", tenant != "" && !by.Has(RoleOperator), tenant == "" && !by.Has(RoleAdmin) && user != by.Principal.User:
		return 0, store.ErrNotFound
	case tenant == "":
		tenant = by.Principal.Tenant
	}
	err = r.store.InTx(ctx, func(tx store.Tx) (err error) {
		if n, err = tx.RevokeCredentials(ctx, tenant, user, by.Principal.User, time.Now()); err != nil {
			return err
		}
		return record(ctx, tx, store.Principal{Tenant: tenant, User: by.Principal.User}, auditUserRevoked, user, struct {
			User string `json:"user"`
			Live int64  `json:"live"`
		}{user, n})
	})
	if err == nil {
		r.forget(ctx)
	}
	return n, err
}

// ServiceAccount is what an API key is created for. Its user is made of its name, so that its threads are its own.
type ServiceAccount struct {
	Name  string
	Roles []string
	Until time.Time // zero: until it is revoked
	// Agent, if set, makes an account that calls models and tools as this agent and does nothing else. It has no roles. Its
	// user differs from that of an account of the same name with roles. Owner decides its questions; "" means the creator.
	Agent, Owner string
	// MCP makes an account for an MCP client, which calls tools at /mcp and does nothing else. It has no other roles. Owner
	// decides its questions, as with Agent.
	MCP bool
}

// CreateKey creates the API key of a service account in the Caller's tenant. The key is returned once and kept
// nowhere. The time is cut to what the database keeps, because Keep compares it.
func (r *Registry) CreateKey(ctx context.Context, by Caller, s ServiceAccount) (store.Credential, Secret, error) {
	if err := Narrower(by, s.Roles); err != nil {
		return store.Credential{}, "", err
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	c := store.Credential{
		ID: newID(), Kind: store.CredentialAPIKey, Tenant: by.Principal.Tenant, User: servicePrefix + s.Name, Name: s.Name,
		Roles: slices.Compact(slices.Sorted(slices.Values(s.Roles))), CreatedAt: time.Now().Truncate(time.Millisecond), ExpiresAt: s.Until,
	}
	if s.Agent != "" {
		c.User, c.AgentID = store.ProgramUser+s.Name, s.Agent
	}
	if s.MCP {
		c.Roles = []string{RoleMCP}
	}
	if s.Agent != "" || s.MCP {
		c.Owner = cmp.Or(s.Owner, by.Principal.User)
	}
	text := hex.EncodeToString(secret)
	c.Hash = hashOf(text)
	if err := r.Keep(ctx, by, c); err != nil {
		return store.Credential{}, "", err
	}
	c.CreatedBy = by.Principal.User
	return c, Secret(apiKeyPrefix + c.ID + "_" + text), nil
}

// Narrower refuses roles that a Caller may not give: those it does not have, and those of an operator and of an MCP client,
// which no credential of a person carries. An administrator may give the role agent, which opens nothing that is closed to it.
func Narrower(by Caller, roles []string) error {
	for _, role := range roles {
		if role == RoleOperator || role == RoleMCP || !by.Has(role) && (role != RoleAgent || !by.Has(RoleAdmin)) {
			return fmt.Errorf("%w: %s", ErrWiderThanOwn, role)
		}
	}
	return nil
}

// hashOf is what is kept of a key's secret. It has 256 bits of chance, so that one fast hash is enough.
func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// IsAPIKey reports whether a token has the form of an API key.
func IsAPIKey(token string) bool { return strings.HasPrefix(token, apiKeyPrefix) }

// apiKey is the Caller of an API key. Wrong secrets and unknown ids give the same error, and the
// secret is compared in constant time: the id alone, which lists show, is of no use.
func (r *Registry) apiKey(ctx context.Context, token string, fresh bool) (Caller, error) {
	id, secret, ok := strings.Cut(strings.TrimPrefix(token, apiKeyPrefix), "_")
	if !ok || len(id) != 36 || len(secret) != 64 {
		return Caller{}, ErrTokenInvalid
	}
	c, err := r.key(ctx, id, fresh)
	if err != nil {
		return Caller{}, err
	}
	now := time.Now()
	switch {
	case c.Kind != store.CredentialAPIKey || !equal(c.Hash, hashOf(secret)):
		return Caller{}, ErrTokenInvalid
	case !c.RevokedAt.IsZero():
		return Caller{}, ErrTokenRevoked
	case !c.Live(now):
		return Caller{}, ErrTokenExpired
	}
	kind := KindService
	if slices.Equal(c.Roles, []string{RoleMCP}) {
		kind = KindMCP
	}
	return Caller{
		Kind: kind, Until: c.ExpiresAt, Credential: c, Principal: store.Principal{Tenant: c.Tenant, User: c.User, Roles: c.Roles},
	}, nil
}

// isMCPKey reports whether a token is the API key of an account for an MCP client. A nil Registry keeps no key.
func (r *Registry) isMCPKey(ctx context.Context, token string) bool {
	if r == nil || !IsAPIKey(token) {
		return false
	}
	caller, err := r.apiKey(ctx, token, true)
	return err == nil && caller.Kind == KindMCP
}

// Program returns the Caller of a request with the API key of a service account that is bound to an agent. It reports false
// for any other request. A nil Registry, which keeps no key, always reports false.
func (r *Registry) Program(req *http.Request) (Caller, bool, error) {
	token, ok := bearerToken(req.Header.Values("Authorization"))
	if !ok || !IsAPIKey(token) || r == nil {
		return Caller{}, false, nil
	}
	caller, err := r.apiKey(req.Context(), token, true)
	if err != nil || caller.Credential.AgentID == "" {
		return Caller{}, false, err
	}
	return caller, true, r.admit(req.Context(), caller.Credential, false) // it has just been looked up
}
