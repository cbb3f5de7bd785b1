-- +goose Up
-- Whether the agent of a turn can be called again after its call was lost. Keep this file and its twin under the other
-- database's folder the same, column by column; a test compares them.

-- The agent said so: in its registration, in --agent, or in a header of its answer.
ALTER TABLE turns ADD COLUMN resumable BOOLEAN NOT NULL DEFAULT FALSE;

-- +goose Down
ALTER TABLE turns DROP COLUMN resumable;
