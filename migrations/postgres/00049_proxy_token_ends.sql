-- +goose Up
-- When the token of a proxy's last link ends. A proxy of another make renews no token, so an operator has to see its end
-- before it comes. Keep this file and its twin under the other database's folder the same, column by column; a test
-- compares them.

-- In milliseconds; 0 when it is not known.
ALTER TABLE proxies ADD COLUMN token_ends BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE proxies DROP COLUMN token_ends;
