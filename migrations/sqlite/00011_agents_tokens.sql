-- +goose Up
-- registered_at is when a proxy registered first: agents are listed in that order. token_hash is what is kept of the token
-- that the instance's agent calls with. Keep this file and its twin under postgres/ the same; a test compares them.
ALTER TABLE proxies ADD COLUMN registered_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sandbox_instances ADD COLUMN token_hash BLOB;

-- +goose Down
ALTER TABLE sandbox_instances DROP COLUMN token_hash;
ALTER TABLE proxies DROP COLUMN registered_at;
