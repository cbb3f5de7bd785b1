-- +goose Up
-- Originals of rows that are kept masked and run as they were, encrypted. Keep this file and its twin under sqlite/ the
-- same, column by column; a test compares them.
CREATE TABLE sealed_originals (
    ref TEXT NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL,
    kid TEXT NOT NULL,
    data BYTEA NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX sealed_originals_session ON sealed_originals (session_id);

-- +goose Down
DROP TABLE sealed_originals;
