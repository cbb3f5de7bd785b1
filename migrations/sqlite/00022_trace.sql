-- +goose Up
-- A Turn's trace as a series of Records that a reader can go on from, and the W3C trace context of a Turn. Keep this file
-- and its twin under postgres/ the same; a test compares them.

-- Whether all that happens in the Turn is kept as Records when it happens. It was not so before.
ALTER TABLE turns ADD COLUMN traced BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE turns ADD COLUMN traceparent TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN tracestate TEXT NOT NULL DEFAULT '';

-- With the position: a page of a Turn's trace reads what it shows.
DROP INDEX records_turn;
CREATE INDEX records_turn ON records (turn_id, pos, id) WHERE turn_id <> '';

-- +goose Down
DROP INDEX records_turn;
CREATE INDEX records_turn ON records (turn_id, id) WHERE turn_id <> '';
ALTER TABLE turns DROP COLUMN tracestate;
ALTER TABLE turns DROP COLUMN traceparent;
ALTER TABLE turns DROP COLUMN traced;
