-- +goose Up
-- Bootstrap tokens that were used: each enrols one proxy, once. Keep this file and its twin under
-- postgres/ the same; a test compares them.
CREATE TABLE bootstrap_uses (
    token_id   TEXT NOT NULL PRIMARY KEY,
    proxy_id   TEXT NOT NULL,
    used_at    BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

-- +goose Down
DROP TABLE bootstrap_uses;
