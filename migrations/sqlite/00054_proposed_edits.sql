-- +goose Up
-- Changed arguments of a call that needs four eyes, which a second person has to approve: as they are shown, the hash of what
-- would run, and who proposed them. Keep this file and its twin under the other database's folder the same, column by column;
-- a test compares them.
ALTER TABLE approvals ADD COLUMN proposed_args TEXT CHECK (proposed_args IS NULL OR json_valid(proposed_args));
ALTER TABLE approvals ADD COLUMN proposed_sha256 TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN proposed_by TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE approvals DROP COLUMN proposed_by;
ALTER TABLE approvals DROP COLUMN proposed_sha256;
ALTER TABLE approvals DROP COLUMN proposed_args;
