-- +goose Up
-- What a Run changed of the shared state, so that a client's copy of the state can be told from a change of the client's.
-- Keep this file and its twin under sqlite/ the same, column by column; a test compares them.

-- JSON: for each changed top-level key, hashes of its value before the Run and of those it had in it; NULL when nothing changed.
ALTER TABLE runs ADD COLUMN state_changes TEXT COLLATE "C";

-- +goose Down
ALTER TABLE runs DROP COLUMN state_changes;
