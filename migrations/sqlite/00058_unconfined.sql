-- +goose Up
-- Whether the agent that asks ran unconfined (serve --unconfined): it could approve for itself, and each place that shows the
-- question says so. Keep this file and its twin under the other database's folder the same, column by column; a test
-- compares them.
ALTER TABLE approvals ADD COLUMN unconfined BOOLEAN NOT NULL DEFAULT FALSE;

-- +goose Down
ALTER TABLE approvals DROP COLUMN unconfined;
