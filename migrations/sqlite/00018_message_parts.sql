-- +goose Up
-- The bytes of large parts of messages, once a Session. The message itself holds the part's URL. Keep this file and its
-- twin under postgres/ the same, column by column; a test compares them.
CREATE TABLE message_parts (
    session_id TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    mime_type TEXT NOT NULL DEFAULT '',
    data BLOB NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (session_id, sha256)
);

-- +goose Down
DROP TABLE message_parts;
