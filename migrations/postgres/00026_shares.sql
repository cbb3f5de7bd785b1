-- +goose Up
-- Threads that are shared with others of their tenant. Keep this file and its twin under sqlite/ the same, column by column; a
-- test compares them.

-- principal is user:NAME or role:NAME. Whoever has a share may read.
CREATE TABLE shares (
    share_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL CHECK (tenant <> ''),
    principal TEXT COLLATE "C" NOT NULL CHECK (principal <> ''),
    may_write BOOLEAN NOT NULL DEFAULT FALSE,
    may_decide BOOLEAN NOT NULL DEFAULT FALSE,
    created_by TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX shares_session ON shares (session_id, principal);
CREATE INDEX shares_principal ON shares (tenant, principal, session_id);

-- Who prompted, where that is not the owner of the thread.
ALTER TABLE turns ADD COLUMN prompted_by TEXT COLLATE "C" NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE turns DROP COLUMN prompted_by;
DROP TABLE shares;
