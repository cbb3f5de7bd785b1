-- +goose Up
-- What was used of budgets for models, and what people added to it. Keep this file and its twin under the other database's
-- folder the same, column by column; a test compares them.

-- period is the day, YYYY-MM-DD in UTC, or '' for what is counted for one Turn; that has the Turn's session_id and is deleted
-- with it. used and added are tokens, or millionths of the price table's currency.
CREATE TABLE budgets (
    tenant TEXT NOT NULL,
    budget TEXT NOT NULL,
    subject TEXT NOT NULL,
    period TEXT NOT NULL,
    session_id TEXT NOT NULL DEFAULT '',
    used BIGINT NOT NULL DEFAULT 0,
    added BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, budget, subject, period)
);
CREATE INDEX budgets_session ON budgets (session_id);

-- +goose Down
DROP TABLE budgets;
