-- +goose Up
-- The Records of a Session as a series that a reader can go on from. Keep this file and its twin under sqlite/ the same; a
-- test compares them.

-- The place among its Session's Records, 0 until somebody who reads gives it: see SequenceRecords.
ALTER TABLE records ADD COLUMN pos BIGINT NOT NULL DEFAULT 0;
CREATE INDEX records_session ON records (session_id, pos, id);

-- +goose Down
DROP INDEX records_session;
ALTER TABLE records DROP COLUMN pos;
