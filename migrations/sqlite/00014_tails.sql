-- +goose Up
-- Who tails an open Run. Keep this file and its twin under postgres/ the same; a test compares them.

-- The replicas at which a response tails the Run, each id followed by a space. Written with the row, and changed only when the
-- last tail at a replica leaves before the Run's end, or a first one comes.
ALTER TABLE runs ADD COLUMN tails TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE runs DROP COLUMN tails;
