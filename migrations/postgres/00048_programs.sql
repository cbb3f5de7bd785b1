-- +goose Up
-- Service accounts whose key calls models and tools as an agent does. Keep this file and its twin under the other database's
-- folder the same, column by column; a test compares them.

-- The agent that the program is for policies and budgets, "" for any other credential, and who decides what it asks.
ALTER TABLE credentials ADD COLUMN agent_id TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE credentials ADD COLUMN owner TEXT COLLATE "C" NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE credentials DROP COLUMN owner;
ALTER TABLE credentials DROP COLUMN agent_id;
