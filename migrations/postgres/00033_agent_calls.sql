-- +goose Up
-- Agents that call agents: a Session that a Turn of another Session's agent began. Keep this file and its twin under sqlite/
-- the same, column by column; a test compares them.

-- parent_turn_id is the Turn whose agent called, root_turn_id the Turn that a person's prompt began; both are '' in a thread of
-- a person's. callers is a JSON array of {agent_id, session_id, turn_id}, from the root to the caller.
ALTER TABLE sessions ADD COLUMN parent_turn_id TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN root_turn_id TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN callers JSON;
CREATE INDEX sessions_root_turn ON sessions (root_turn_id) WHERE root_turn_id <> '';

-- path is a JSON array of agent ids, from the thread's own to the one that asks, of a Question that a called agent asks.
ALTER TABLE approvals ADD COLUMN path JSON;

-- +goose Down
ALTER TABLE approvals DROP COLUMN path;
DROP INDEX sessions_root_turn;
ALTER TABLE sessions DROP COLUMN callers;
ALTER TABLE sessions DROP COLUMN root_turn_id;
ALTER TABLE sessions DROP COLUMN parent_turn_id;
