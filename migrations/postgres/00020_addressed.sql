-- +goose Up
-- of_session and agent_id are of an agent that was addressed in another agent's thread: its session_id is then an id of its
-- own. Keep this file and its twin under sqlite/ the same; a test compares them.
ALTER TABLE sandbox_instances ADD COLUMN of_session TEXT NOT NULL DEFAULT '';
ALTER TABLE sandbox_instances ADD COLUMN agent_id TEXT NOT NULL DEFAULT '';
CREATE INDEX sandbox_instances_addressed ON sandbox_instances (of_session) WHERE of_session <> '';

-- +goose Down
DROP INDEX sandbox_instances_addressed;
ALTER TABLE sandbox_instances DROP COLUMN agent_id;
ALTER TABLE sandbox_instances DROP COLUMN of_session;
