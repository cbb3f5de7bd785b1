-- +goose Up
-- How many bytes of events a Session's log holds, as of its last Run that ended: what a tenant has is added up from it, which
-- its events are too many for. Keep this file and its twin under sqlite/ the same, column by column; a test compares them.
ALTER TABLE sessions ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0;
UPDATE sessions SET bytes = COALESCE((SELECT SUM(LENGTH(e.data)) FROM events e WHERE e.session_id = sessions.session_id), 0)
    WHERE deleted_at = 0;

-- +goose Down
ALTER TABLE sessions DROP COLUMN bytes;
