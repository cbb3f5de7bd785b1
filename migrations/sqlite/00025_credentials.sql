-- +goose Up
-- Tokens, browser sessions and API keys, so that they can be listed and revoked; no secret is in here. credential_holders has the
-- time up to which all of a user's are revoked, also those that were signed elsewhere and are not kept yet. Keep this file and its
-- twin under postgres/ the same, column by column; a test compares them.
CREATE TABLE credentials (
    credential_id TEXT NOT NULL PRIMARY KEY,
    parent_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    user_id TEXT NOT NULL,
    name TEXT NOT NULL,
    roles TEXT NOT NULL,
    secret_hash TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL,
    revoked_by TEXT NOT NULL
);

CREATE INDEX credentials_holder ON credentials (tenant, user_id, created_at);
CREATE INDEX credentials_expired ON credentials (expires_at);

CREATE TABLE credential_holders (
    tenant TEXT NOT NULL,
    user_id TEXT NOT NULL,
    revoked_before BIGINT NOT NULL,
    PRIMARY KEY (tenant, user_id)
);

-- +goose Down
DROP TABLE credential_holders;
DROP TABLE credentials;
