-- +goose Up
-- Keep this file and its twin the same, column by column.

-- What of its upstream's words a row holds: an upstream that was cut off goes on behind the newest mark. Rows of agents
-- that need none have '', and are not in the index.
ALTER TABLE events ADD COLUMN mark TEXT NOT NULL DEFAULT '';
CREATE INDEX events_marks ON events (session_id, last_seq) WHERE mark <> '';

-- What a parked Turn's upstream said, among the many other Records of a long Turn.
CREATE INDEX records_parked ON records (turn_id, id) WHERE source = 'upstream';

-- +goose Down
DROP INDEX records_parked;
DROP INDEX events_marks;
ALTER TABLE events DROP COLUMN mark;
