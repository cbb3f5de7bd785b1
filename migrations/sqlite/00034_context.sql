-- +goose Up
-- The context store, and the blobs that hold what is large. Keep this file and its twin under postgres/ the same, column by
-- column; a test compares them.

-- owner_type is session, run, user or agent, and owner_id the owner's id. session_id is the thread that takes the entry with it
-- when it is deleted; '' for entries of users and agents. version counts the writes from 1. The content is in data, or in
-- the blob blob_id. With a kid it is encrypted, because there are secrets in it, and has no sha256. size and sha256 are of what was written. Times are Unix milliseconds; expires_at is 0
-- for an entry without an end.
CREATE TABLE context_blobs (
    context_key TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    user_id TEXT NOT NULL,
    owner_type TEXT NOT NULL,
    owner_id TEXT NOT NULL,
    session_id TEXT NOT NULL DEFAULT '',
    version BIGINT NOT NULL,
    content_type TEXT NOT NULL DEFAULT '',
    size BIGINT NOT NULL DEFAULT 0,
    sha256 TEXT NOT NULL DEFAULT '',
    metadata TEXT CHECK (metadata IS NULL OR json_valid(metadata)),
    data BLOB NOT NULL,
    blob_id TEXT NOT NULL DEFAULT '',
    kid TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX context_blobs_session ON context_blobs (session_id);
CREATE INDEX context_blobs_user ON context_blobs (tenant, user_id, size);
CREATE INDEX context_blobs_expires ON context_blobs (expires_at);

-- One row for each blob, from before its first byte is written until after its bytes are deleted: no blob is ever without
-- one. status is PENDING, KEPT or DOOMED. Only rows that another row refers to are KEPT.
CREATE TABLE blobs (
    blob_id TEXT NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL DEFAULT '',
    status TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX blobs_session ON blobs (session_id, status);
CREATE INDEX blobs_status ON blobs (status, created_at);

-- +goose Down
DROP TABLE blobs;
DROP TABLE context_blobs;
