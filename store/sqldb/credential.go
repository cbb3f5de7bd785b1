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

const selectCredential = `SELECT c.credential_id, c.parent_id, c.kind, c.tenant, c.user_id, c.name, c.roles, c.secret_hash,
	c.created_by, c.created_at, c.expires_at, c.last_used_at, c.revoked_at, c.revoked_by FROM credentials c`

func scanCredential(at row) (store.Credential, error) {
	var c store.Credential
	var roles string
	err := at.Scan(&c.ID, &c.Parent, &c.Kind, &c.Tenant, &c.User, &c.Name, &roles, &c.Hash,
		&c.CreatedBy, timeInto{&c.CreatedAt}, timeInto{&c.ExpiresAt}, timeInto{&c.LastUsedAt}, timeInto{&c.RevokedAt}, &c.RevokedBy)
	if err == nil && roles != "" {
		err = json.Unmarshal([]byte(roles), &c.Roles)
	}
	return c, err
}

// credentialsIn adds the condition of whose credentials the Scope sees.
func credentialsIn(q *query, in store.Scope) *query {
	if !in.All() {
		q.and("tenant = ", in.Tenant())
	}
	if !in.All() && !in.Wide() {
		q.and("user_id = ", in.User())
	}
	return q
}

// Credential implements store.CredentialReader.
func (r *Reader) Credential(ctx context.Context, in store.Scope, id string) (store.Credential, error) {
	if blind(in) {
		return store.Credential{}, store.ErrNotFound
	}
	q := credentialsIn(from(selectCredential).and("c.credential_id = ", id), in)
	return one(ctx, r, scanCredential, q.sql.String(), q.args...)
}

// Credentials implements store.CredentialReader.
func (r *Reader) Credentials(ctx context.Context, in store.Scope, f store.CredentialFilter) ([]store.Credential, error) {
	if blind(in) {
		return nil, nil
	}
	q := credentialsIn(from(selectCredential), in)
	if f.User != "" {
		q.and("c.user_id = ", f.User)
	}
	if f.Kind != "" {
		q.and("c.kind = ", string(f.Kind))
	}
	if !f.Current.IsZero() {
		q.raw(" AND c.revoked_at = 0 AND (c.expires_at = 0 OR c.expires_at > ").bind(millis(f.Current)).raw(")")
	}
	back := q.newestFirst("c.credential_id", f.Page)
	got, err := list(ctx, r, scanCredential, q.sql.String(), q.args...)
	if back {
		slices.Reverse(got)
	}
	return got, err
}

// credentialsAtOnce bounds the ids of one statement: databases bound its parameters.
const credentialsAtOnce = 500

// RevokedCredentials implements store.CredentialReader.
func (r *Reader) RevokedCredentials(ctx context.Context, ids []string) ([]string, error) {
	var revoked []string
	for some := range slices.Chunk(ids, credentialsAtOnce) {
		// UNION, not UNION ALL: a row that is there already ends the way up.
		q := (&query{}).raw(`WITH RECURSIVE line (id, up, revoked) AS (
			SELECT c.credential_id, c.parent_id, c.revoked_at FROM credentials c WHERE c.credential_id IN (`).list(some).raw(`)
			UNION SELECT l.id, p.parent_id, p.revoked_at FROM line l JOIN credentials p ON p.credential_id = l.up
		) SELECT DISTINCT id FROM line WHERE revoked > 0`)
		got, err := list(ctx, r, func(at row) (id string, err error) { return id, at.Scan(&id) }, q.sql.String(), q.args...)
		if err != nil {
			return nil, err
		}
		revoked = append(revoked, got...)
	}
	return revoked, nil
}

// UserRevokedAt implements store.CredentialReader.
func (r *Reader) UserRevokedAt(ctx context.Context, tenant, user string) (time.Time, error) {
	at, err := one(ctx, r, func(at row) (t time.Time, err error) { return t, at.Scan(timeInto{&t}) },
		"SELECT revoked_before FROM credential_holders WHERE tenant = $1 AND user_id = $2", tenant, user)
	if errors.Is(err, store.ErrNotFound) {
		return time.Time{}, nil
	}
	return at, err
}

// list binds values with commas between them.
func (q *query) list(values []string) *query {
	for i, v := range values {
		if i > 0 {
			q.raw(", ")
		}
		q.bind(v)
	}
	return q
}

// KeepCredential implements store.CredentialTx. The row of the holder is written first, here and in
// RevokeCredentials: whichever comes second waits for the other's commit and sees what it did, so no
// token slips in between the time up to which all are revoked and the update of those that are kept.
func (t *Tx) KeepCredential(ctx context.Context, c store.Credential) (store.Credential, error) {
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
		before, err := t.UserRevokedAt(ctx, c.Tenant, c.User)
		if err != nil {
			return store.Credential{}, err
		}
		if millis(before) > 0 && millis(before) >= millis(c.CreatedAt) {
			c.RevokedAt = before
		}
	}
	_, err := t.exec(ctx, `INSERT INTO credentials (credential_id, parent_id, kind, tenant, user_id, name, roles, secret_hash,
		created_by, created_at, expires_at, last_used_at, revoked_at, revoked_by)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT (credential_id) DO NOTHING`,
		c.ID, c.Parent, string(c.Kind), c.Tenant, c.User, c.Name, roles, c.Hash, c.CreatedBy,
		millis(c.CreatedAt), millis(c.ExpiresAt), millis(c.LastUsedAt), millis(c.RevokedAt), c.RevokedBy)
	if err != nil {
		return store.Credential{}, err
	}
	return t.Credential(ctx, store.System(), c.ID)
}

// holder writes the row of a user's credentials; it locks the row until the transaction ends.
func (t *Tx) holder(ctx context.Context, tenant, user string, revokedBefore time.Time) error {
	_, err := t.exec(ctx, `INSERT INTO credential_holders (tenant, user_id, revoked_before) VALUES ($1, $2, $3)
		ON CONFLICT (tenant, user_id) DO UPDATE SET revoked_before =
		CASE WHEN excluded.revoked_before > credential_holders.revoked_before THEN excluded.revoked_before ELSE credential_holders.revoked_before END`,
		tenant, user, millis(revokedBefore))
	return err
}

// RevokeCredential implements store.CredentialTx.
func (t *Tx) RevokeCredential(ctx context.Context, in store.Scope, id, by string, at time.Time) (bool, error) {
	if blind(in) {
		return false, nil
	}
	q := (&query{}).raw("UPDATE credentials SET revoked_at = ").bind(millis(at)).raw(", revoked_by = ").bind(by)
	q.raw(" WHERE revoked_at = 0").and("credential_id = ", id)
	credentialsIn(q, in)
	n, err := t.exec(ctx, q.sql.String(), q.args...)
	return n > 0, err
}

// RevokeCredentials implements store.CredentialTx.
func (t *Tx) RevokeCredentials(ctx context.Context, tenant, user, by string, at time.Time) (int64, error) {
	if strings.TrimSpace(user) == "" {
		return 0, nil // those of no user are not one user's
	}
	if err := t.holder(ctx, tenant, user, at); err != nil {
		return 0, err
	}
	return t.exec(ctx, `UPDATE credentials SET revoked_at = $1, revoked_by = $2
		WHERE tenant = $3 AND user_id = $4 AND revoked_at = 0 AND (expires_at = 0 OR expires_at > $1)`, millis(at), by, tenant, user)
}

// UseCredentials implements store.CredentialTx.
func (t *Tx) UseCredentials(ctx context.Context, ids []string, at time.Time) error {
	for some := range slices.Chunk(ids, credentialsAtOnce) {
		q := (&query{}).raw("UPDATE credentials SET last_used_at = ").bind(millis(at)).raw(" WHERE last_used_at < ").bind(millis(at))
		q.raw(" AND credential_id IN (").list(some).raw(")")
		if _, err := t.exec(ctx, q.sql.String(), q.args...); err != nil {
			return err
		}
	}
	return nil
}

// DropCredentials implements store.CredentialTx.
func (t *Tx) DropCredentials(ctx context.Context, before time.Time) error {
	_, err := t.exec(ctx, "DELETE FROM credentials WHERE expires_at > 0 AND expires_at < $1", millis(before))
	return err
}
