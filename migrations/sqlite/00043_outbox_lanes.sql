-- +goose Up
-- What is to be sent to each target by itself, and what of a Session is under way. Keep this file and its twin the same; a
-- test compares them.
CREATE INDEX outbox_lane ON outbox (kind, target, next_at, id) WHERE done_at = 0;
CREATE INDEX outbox_open ON outbox (session_id, id) WHERE done_at = 0;

-- +goose Down
DROP INDEX outbox_open;
DROP INDEX outbox_lane;
