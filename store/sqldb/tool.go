package sqldb

import (
	"context"
	"fmt"
	"strings"
	"time"

	"aqueduct/store"
)

type (
	// Registered tools. A tenant's own tool hides one of the same name that is registered for all.
	toolReader struct{ *conn }

	// Tools of the configuration are written at each start and those that it no longer has are deleted.
	toolTx struct{ *conn }
)

const selectTool = `SELECT t.tool_name, t.tenant, t.kind, t.endpoint, t.schema, t.policy, t.timeout_ms, t.on_failure,
	t.metadata, t.source, t.created_at, t.updated_at FROM tools t`

func scanTool(at row) (store.Tool, error) {
	var t store.Tool
	err := at.Scan(&t.Name, &t.Tenant, &t.Kind, &t.Endpoint, &t.Schema, &t.Policy, spanInto{&t.Timeout}, &t.OnFailure,
		&t.Metadata, &t.Source, timeInto{&t.CreatedAt}, timeInto{&t.UpdatedAt})
	return t, err
}

// Tool implements store.ToolReader.
func (r *toolReader) Tool(ctx context.Context, in store.Scope, name string) (store.Tool, error) {
	return r.ToolOf(ctx, in, in.Tenant(), name)
}

// ToolOf implements store.ToolReader. The tenant's own goes before everybody's.
func (r *toolReader) ToolOf(ctx context.Context, in store.Scope, tenant, name string) (store.Tool, error) {
	if blind(in) || !in.All() && in.Tenant() != tenant {
		return store.Tool{}, store.ErrNotFound
	}
	return one(ctx, r.conn, scanTool, selectTool+` WHERE t.tenant IN ($1, '') AND t.tool_name = $2
		ORDER BY t.tenant DESC LIMIT 1`, tenant, name)
}

// Tools implements store.ToolReader. For one tenant a name is listed once, as the tenant's own tool where there is
// one; for all tenants every row is. The tenant's own and everybody's are two queries, each in the order of the key.
func (r *toolReader) Tools(ctx context.Context, in store.Scope, page store.Page) ([]store.Tool, error) {
	if blind(in) {
		return nil, nil
	}
	if in.All() {
		q := from(selectTool).raw(" AND t.tenant >= ''")
		afterTool(q, " > ", page.After)
		afterTool(q, " < ", page.Before)
		return paged(ctx, r.conn, scanTool, q, "t.tenant, t.tool_name", "t.tenant DESC, t.tool_name DESC", page)
	}
	own, err := r.toolsOf(ctx, from(selectTool).and("t.tenant = ", in.Tenant()), page)
	if err != nil || in.Tenant() == "" {
		return own, err
	}
	q := from(selectTool).raw(" AND t.tenant = '' AND NOT EXISTS (SELECT 1 FROM tools o")
	q.raw(" WHERE o.tenant = ").bind(in.Tenant()).raw(" AND o.tool_name = t.tool_name)")
	everybodys, err := r.toolsOf(ctx, q, page)
	if err != nil {
		return nil, err
	}
	return merged(own, everybodys, page, func(a, b store.Tool) int { return strings.Compare(a.Name, b.Name) }), nil
}

// toolsOf reads a page of a query's tools, by name.
func (r *toolReader) toolsOf(ctx context.Context, q *query, page store.Page) ([]store.Tool, error) {
	return paged(ctx, r.conn, scanTool, q.within(page, "t.tool_name", " > ", " < "), "t.tool_name", "t.tool_name DESC", page)
}

// afterTool begins or ends a page of all tenants' tools, where names repeat, at a place of the listing: "tenant/name".
func afterTool(q *query, than, place string) {
	if place != "" {
		tenant, name, _ := strings.Cut(place, "/")
		q.raw(" AND (t.tenant, t.tool_name)" + than + "(").bind(tenant).raw(", ").bind(name).raw(")")
	}
}

// UpsertTool implements store.ToolTx.
func (t *toolTx) UpsertTool(ctx context.Context, v store.Tool) error {
	return t.insert(ctx, `INSERT INTO tools (tool_name, tenant, kind, endpoint, schema, policy, timeout_ms, on_failure,
		metadata, source, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (tenant, tool_name) DO UPDATE SET kind = excluded.kind, endpoint = excluded.endpoint,
		schema = excluded.schema, policy = excluded.policy, timeout_ms = excluded.timeout_ms,
		on_failure = excluded.on_failure, metadata = excluded.metadata, source = excluded.source,
		updated_at = excluded.updated_at`,
		v.Name, v.Tenant, string(v.Kind), v.Endpoint, jsonText(v.Schema), jsonText(v.Policy), v.Timeout.Milliseconds(),
		string(v.OnFailure), jsonText(v.Metadata), v.Source, millis(v.CreatedAt), millis(v.UpdatedAt))
}

// DeleteTool implements store.ToolTx.
func (t *toolTx) DeleteTool(ctx context.Context, tenant, name string) (bool, error) {
	return t.change(ctx, "DELETE FROM tools WHERE tenant = $1 AND tool_name = $2", tenant, name)
}

// ToolPinned implements store.ToolReader.
func (r *toolReader) ToolPinned(ctx context.Context, in store.Scope, p store.ToolPin) (bool, error) {
	if !in.All() {
		return false, nil
	}
	got, err := list(ctx, r.conn, scanString, `SELECT p.tool_name FROM tool_pins p WHERE p.tool_name = $1 AND p.sha256 = $2
		AND p.tenant IN ('', $3) AND p.user_id IN ('', $4) LIMIT 1`, p.Tool, p.SHA256, p.Tenant, p.User)
	return len(got) > 0, err
}

// PinTool implements store.ToolTx.
func (t *toolTx) PinTool(ctx context.Context, p store.ToolPin) (bool, error) {
	return t.change(ctx, `INSERT INTO tool_pins (tool_name, sha256, tenant, user_id, confirmed_by, created_at)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (tool_name, sha256, tenant, user_id) DO NOTHING`,
		p.Tool, p.SHA256, p.Tenant, p.User, p.By, millis(p.CreatedAt))
}

// spanInto scans a span of milliseconds.
type spanInto struct{ d *time.Duration }

// Scan implements sql.Scanner.
func (s spanInto) Scan(src any) error {
	ms, ok := src.(int64)
	if !ok {
		return fmt.Errorf("sqldb: a span is stored as %T", src)
	}
	*s.d = time.Duration(ms) * time.Millisecond
	return nil
}
