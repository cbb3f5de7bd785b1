-- +goose Up
-- What it takes to delete all rows of a Session without reading whole tables. Keep this file and its twin under postgres/
-- the same, column by column; a test compares them.

-- The Session that an entry is about, '' when it is about none.
ALTER TABLE outbox ADD COLUMN session_id TEXT NOT NULL DEFAULT '';
UPDATE outbox SET session_id = COALESCE(json_extract(payload, '$.session_id'), (SELECT a.session_id FROM approvals a
    WHERE a.approval_id = json_extract(outbox.payload, '$.message.id')), '') WHERE payload IS NOT NULL;

CREATE INDEX outbox_session ON outbox (session_id, id) WHERE session_id <> '';
CREATE INDEX commands_session ON commands (session_id, command_id);
CREATE INDEX grants_session ON grants (session_id, grant_id) WHERE session_id <> '';
CREATE INDEX decision_links_approval ON decision_links (approval_id);
CREATE INDEX sessions_deleted ON sessions (deleted_at, session_id) WHERE deleted_at > 0;

-- +goose Down
DROP INDEX sessions_deleted;
DROP INDEX decision_links_approval;
DROP INDEX grants_session;
DROP INDEX commands_session;
DROP INDEX outbox_session;
ALTER TABLE outbox DROP COLUMN session_id;
