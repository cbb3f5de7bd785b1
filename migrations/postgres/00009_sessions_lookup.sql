-- +goose Up
-- How Sessions are found. The unique key leads with what selects: all threads of a server may belong to one user, and a
-- plan that PostgreSQL makes while it does not know that reads them all. For the same reason the listing is on
-- expressions that only the listing asks for: nothing else can be planned to walk it. Keep this file and its twin the
-- same; a test compares them.
DROP INDEX sessions_external;
DROP INDEX sessions_listing;
-- Partial: the name of a deleted Session may be used again.
CREATE UNIQUE INDEX sessions_external ON sessions (external_id, tenant, user_id) WHERE deleted_at = 0;
CREATE INDEX sessions_listing ON sessions ((tenant || ':' || user_id), updated_at, (session_id || '')) WHERE deleted_at = 0;
-- Of ever more approvals a few wait, and those are what everybody asks for.
CREATE INDEX approvals_pending ON approvals (approval_id) WHERE status = 'PENDING';

-- +goose Down
DROP INDEX approvals_pending;
DROP INDEX sessions_external;
DROP INDEX sessions_listing;
CREATE UNIQUE INDEX sessions_external ON sessions (tenant, user_id, external_id) WHERE deleted_at = 0;
CREATE INDEX sessions_listing ON sessions (tenant, user_id, updated_at, session_id) WHERE deleted_at = 0;
