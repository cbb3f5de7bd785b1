package sqldb

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"aqueduct/store"
)

type (
	// Credentials are tokens, sessions of browsers and their like. Only the hash of a secret is in the table.
	credentialReader struct{ *conn }

	// A revocation is a time in the row and, for all of a user, a row of its own, since signed tokens have none.
	credentialTx struct{ *conn }
)

const selectCredential = `SELECT c.credential_id, c.parent_id, c.kind, c.tenant, c.user_id, c.name, c.roles, c.secret_hash,
	c.created_by, c.created_at, c.expires_at, c.last_used_at, c.revoked_at, c.revoked_by, c.agent_id, c.owner FROM credentials c`

func scanCredential(at row) (store.Credential, error) {
	var c store.Credential
	var roles string
	err := at.Scan(&c.ID, &c.Parent, &c.Kind, &c.Tenant, &c.User, &c.Name, &roles, &c.Hash,
		&c.CreatedBy, timeInto{&c.CreatedAt}, timeInto{&c.ExpiresAt}, timeInto{&c.LastUsedAt}, timeInto{&c.RevokedAt}, &c.RevokedBy, &c.AgentID, &c.Owner)
	if err == nil && roles != "" {
		err = json.Unmarshal([]byte(roles), &c.Roles)
	}
	return c, err
}

// Credential implements store.CredentialReader.
func (r *credentialReader) Credential(ctx context.Context, in store.Scope, id string) (store.Credential, error) {
	if blind(in) {
		return store.Credential{}, store.ErrNotFound
	}
	q := from(selectCredential).and("c.credential_id = ", id).ofScope(in, "c.tenant", "c.user_id")
	return one(ctx, r.conn, scanCredential, q.sql.String(), q.args...)
}

// Credentials implements store.CredentialReader.
func (r *credentialReader) Credentials(ctx context.Context, in store.Scope, f store.CredentialFilter) ([]store.Credential, error) {
	if blind(in) {
		return nil, nil
	}
	if f.User != "" && in.Wide() { // the list of that user
		in = store.As(store.Principal{Tenant: in.Tenant(), User: f.User})
	}
	q := from(selectCredential)
	if f.User != "" {
		q.and("COALESCE(c.user_id = ", f.User).raw(", FALSE)")
	}
	if f.Kind != "" && !in.All() {
		q.ofList(in, "c.tenant", "c.user_id", value{"c.kind", string(f.Kind)})
	} else {
		q.ofList(in, "c.tenant", "c.user_id")
	}
	if f.Kind != "" && in.All() {
		q.and("c.kind = ", string(f.Kind))
	}
	if !f.Current.IsZero() {
		q.raw(" AND c.revoked_at = 0 AND (c.expires_at = 0 OR c.expires_at > ").bind(millis(f.Current)).raw(")")
	}
	return newestFirst(ctx, r.conn, scanCredential, q, listedBy(in, "c.credential_id"), f.Page)
}

// credentialsAtOnce bounds the ids of one statement: databases bound its parameters.
const credentialsAtOnce = 500

// RevokedCredentials implements store.CredentialReader.
func (r *credentialReader) RevokedCredentials(ctx context.Context, ids []string) ([]string, error) {
	var revoked []string
	for some := range slices.Chunk(ids, credentialsAtOnce) {
		// UNION, not UNION ALL: a row that is there already ends the way up.
		q := (&query{}).raw(`WITH RECURSIVE line (id, up, revoked) AS (
			SELECT c.credential_id, c.parent_id, c.revoked_at FROM credentials c WHERE c.credential_id IN (`).bindAll(some).raw(`)
			UNION SELECT l.id, p.parent_id, p.revoked_at FROM line l JOIN credentials p ON p.credential_id = l.up
		) SELECT DISTINCT id FROM line WHERE revoked > 0`)
		got, err := list(ctx, r.conn, scanString, q.sql.String(), q.args...)
		if err != nil {
			return nil, err
		}
		revoked = append(revoked, got...)
	}
	return revoked, nil
}

// UserRevokedAt implements store.CredentialReader. A user without a row has never been revoked.
func (r *credentialReader) UserRevokedAt(ctx context.Context, tenant, user string) (time.Time, error) {
	at, err := one(ctx, r.conn, scanTime,
		"SELECT revoked_before FROM credential_holders WHERE tenant = $1 AND user_id = $2", tenant, user)
	if errors.Is(err, store.ErrNotFound) {
		return time.Time{}, nil
	}
	return at, err
}

// KeepCredential implements store.CredentialTx. The row of the holder is written first, here and in
// RevokeCredentials: whichever comes second waits for the other's commit and sees what it did, so no
// token slips in between the time up to which all are revoked and the update of those that are kept.
func (t *credentialTx) KeepCredential(ctx context.Context, c store.Credential) (store.Credential, error) {
	if err := t.holder(ctx, c.Tenant, c.User, time.Time{}); err != nil {
		return store.Credential{}, err
	}
	var roles string
	if len(c.Roles) > 0 {
		raw, err := json.Marshal(c.Roles)
		if err != nil {
			return store.Credential{}, err
		}
		roles = string(raw)
	}
	// A token names the second it was created in, so one of the second of the revocation is revoked
	// too. What the server creates itself is kept with its millisecond.
	if c.User != "" {
		before, err := (&credentialReader{t.conn}).UserRevokedAt(ctx, c.Tenant, c.User)
		if err != nil {
			return store.Credential{}, err
		}
		if millis(before) > 0 && millis(before) >= millis(c.CreatedAt) {
			c.RevokedAt = before
		}
	}
	err := t.run(ctx, `INSERT INTO credentials (credential_id, parent_id, kind, tenant, user_id, name, roles, secret_hash,
		created_by, created_at, expires_at, last_used_at, revoked_at, revoked_by, agent_id, owner)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) ON CONFLICT (credential_id) DO NOTHING`,
		c.ID, c.Parent, string(c.Kind), c.Tenant, c.User, c.Name, roles, c.Hash, c.CreatedBy,
		millis(c.CreatedAt), millis(c.ExpiresAt), millis(c.LastUsedAt), millis(c.RevokedAt), c.RevokedBy, c.AgentID, c.Owner)
	if err != nil {
		return store.Credential{}, err
	}
	return (&credentialReader{t.conn}).Credential(ctx, store.System(), c.ID)
}

// holder writes the row of a user's credentials; it locks the row until the transaction ends.
func (t *credentialTx) holder(ctx context.Context, tenant, user string, revokedBefore time.Time) error {
	return t.run(ctx, `INSERT INTO credential_holders (tenant, user_id, revoked_before) VALUES ($1, $2, $3)
		ON CONFLICT (tenant, user_id) DO UPDATE SET revoked_before =
		CASE WHEN excluded.revoked_before > credential_holders.revoked_before THEN excluded.revoked_before ELSE credential_holders.revoked_before END`,
		tenant, user, millis(revokedBefore))
}

// RevokeCredential implements store.CredentialTx.
func (t *credentialTx) RevokeCredential(ctx context.Context, in store.Scope, id, by string, at time.Time) (bool, error) {
	return t.revoke(ctx, in, "credentials", "credential_id", id, by, at)
}

// RevokeCredentials implements store.CredentialTx. The time in the holder's row also revokes the signed tokens of the
// user that have no row here; see KeepCredential for why it is written first.
func (t *credentialTx) RevokeCredentials(ctx context.Context, tenant, user, by string, at time.Time) (int64, error) {
	if strings.TrimSpace(user) == "" {
		return 0, nil // those of no user are not one user's
	}
	if err := t.holder(ctx, tenant, user, at); err != nil {
		return 0, err
	}
	return t.exec(ctx, `UPDATE credentials SET revoked_at = $1, revoked_by = $2
		WHERE tenant = $3 AND user_id = $4 AND revoked_at = 0 AND (expires_at = 0 OR expires_at > $1)`, millis(at), by, tenant, user)
}

// UseCredentials implements store.CredentialTx. The time never goes back, whichever replica reports late.
func (t *credentialTx) UseCredentials(ctx context.Context, ids []string, at time.Time) error {
	for some := range slices.Chunk(ids, credentialsAtOnce) {
		q := (&query{}).raw("UPDATE credentials SET last_used_at = ").bind(millis(at)).raw(" WHERE last_used_at < ").bind(millis(at))
		q.raw(" AND credential_id IN (").bindAll(some).raw(")")
		if err := t.run(ctx, q.sql.String(), q.args...); err != nil {
			return err
		}
	}
	return nil
}

// DropCredentials implements store.CredentialTx. One without an end stays for good, and a revoked one until its end:
// a row is what a revoked token is refused by.
func (t *credentialTx) DropCredentials(ctx context.Context, before time.Time) error {
	return t.run(ctx, "DELETE FROM credentials WHERE expires_at > 0 AND expires_at < $1", millis(before))
}

// UseTicket implements store.CredentialTx. The key decides who comes first.
func (t *credentialTx) UseTicket(ctx context.Context, id string, expires time.Time) (bool, error) {
	return t.change(ctx, "INSERT INTO used_tickets (ticket_id, expires_at) VALUES ($1, $2) ON CONFLICT (ticket_id) DO NOTHING", id, millis(expires))
}

// DropTickets implements store.CredentialTx.
func (t *credentialTx) DropTickets(ctx context.Context, before time.Time) error {
	return t.run(ctx, "DELETE FROM used_tickets WHERE expires_at < $1", millis(before))
}
