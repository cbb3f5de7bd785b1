-- +goose Up
-- Which process a call of a model is under way in. Keep this file and its twin under the other database's folder the same, column
-- by column; a test compares them.

-- replica is '' in rows of before, whose calls nobody ends: what they used is not known. A row that is OPEN has in input_tokens
-- and cost what it counts with if its process is killed.
ALTER TABLE model_calls ADD COLUMN replica TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX model_calls_open ON model_calls (call_id) WHERE status = 'OPEN';

-- +goose Down
DROP INDEX model_calls_open;
ALTER TABLE model_calls DROP COLUMN replica;
