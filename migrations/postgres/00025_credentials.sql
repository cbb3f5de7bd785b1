-- +goose Up
-- Tokens, browser sessions and API keys, so that they can be listed and revoked; no secret is in here. credential_holders has the
-- time up to which all of a user's are revoked, also those that were signed elsewhere and are not kept yet. Keep this file and its
-- twin under sqlite/ the same, column by column; a test compares them.
CREATE TABLE credentials (
    credential_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    parent_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    roles TEXT COLLATE "C" NOT NULL,
    secret_hash TEXT COLLATE "C" NOT NULL,
    created_by TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL,
    revoked_by TEXT COLLATE "C" NOT NULL
);

CREATE INDEX credentials_holder ON credentials (tenant, user_id, created_at);
CREATE INDEX credentials_expired ON credentials (expires_at);

CREATE TABLE credential_holders (
    tenant TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    revoked_before BIGINT NOT NULL,
    PRIMARY KEY (tenant, user_id)
);

-- +goose Down
DROP TABLE credential_holders;
DROP TABLE credentials;
