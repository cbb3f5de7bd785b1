-- +goose Up
-- Signed links to one decision that were used. Keep this file and its twin under sqlite/ the same, column by column; a test
-- compares them.
CREATE TABLE decision_links (
    link_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    approval_id TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
    used_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

CREATE INDEX decision_links_expired ON decision_links (expires_at);

-- +goose Down
DROP TABLE decision_links;
