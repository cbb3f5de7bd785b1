-- +goose Up
-- Calls of models that agents made through this server. Keep this file and its twin under sqlite/ the same, column by column;
-- a test compares them.

-- status is OPEN, DONE, FAILED or CUT. Times are Unix milliseconds; first_token_at and ended_at are 0 where that did not
-- come. Tokens are the upstream's own counts, or estimates. cost is in millionths of the price table's currency.
CREATE TABLE model_calls (
    call_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL,
    turn_id TEXT COLLATE "C" NOT NULL,
    agent_id TEXT COLLATE "C" NOT NULL,
    route TEXT COLLATE "C" NOT NULL,
    model TEXT NOT NULL,
    upstream TEXT NOT NULL DEFAULT '',
    status TEXT COLLATE "C" NOT NULL,
    code TEXT NOT NULL DEFAULT '',
    input_tokens BIGINT NOT NULL DEFAULT 0,
    cached_tokens BIGINT NOT NULL DEFAULT 0,
    output_tokens BIGINT NOT NULL DEFAULT 0,
    reasoning_tokens BIGINT NOT NULL DEFAULT 0,
    estimated BOOLEAN NOT NULL DEFAULT FALSE,
    cost BIGINT NOT NULL DEFAULT 0,
    started_at BIGINT NOT NULL,
    first_token_at BIGINT NOT NULL DEFAULT 0,
    ended_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX model_calls_turn ON model_calls (turn_id);
CREATE INDEX model_calls_session ON model_calls (session_id);

-- +goose Down
DROP TABLE model_calls;
