-- +goose Up
-- All times are Unix milliseconds, UTC; 0 is "never". Ids are compared as bytes (COLLATE "C"), because their order
-- is time and must be the same in both databases. JSON is json, never jsonb: key order and \u0000 survive.
-- Keep this file and its twin under sqlite/ the same, column by column; a test compares them.

CREATE TABLE sessions (
    session_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL CHECK (tenant <> ''),
    user_id TEXT COLLATE "C" NOT NULL CHECK (user_id <> ''),
    external_id TEXT COLLATE "C" NOT NULL,
    agent_id TEXT COLLATE "C" NOT NULL,
    title TEXT NOT NULL DEFAULT '',
    state JSON,
    owner TEXT COLLATE "C" NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT NOT NULL DEFAULT 0
);

-- Partial: the name of a deleted Session may be used again.
CREATE UNIQUE INDEX sessions_external ON sessions (tenant, user_id, external_id) WHERE deleted_at = 0;
CREATE INDEX sessions_listing ON sessions (tenant, user_id, updated_at, session_id) WHERE deleted_at = 0;

-- turns is what the platform contract calls runs; its run_id is our turn_id.
-- Rows name their Session without a foreign key: each is written in one transaction with it
-- or long after it, a Session is hidden and never removed, and checking would lock its row
-- at every insert.
CREATE TABLE turns (
    turn_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL,
    root_agent_id TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    input JSON,
    token_hash BYTEA,
    usage JSON,
    error_code TEXT NOT NULL DEFAULT '',
    error_message TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    started_at BIGINT NOT NULL DEFAULT 0,
    dispatched_at BIGINT NOT NULL DEFAULT 0,
    ended_at BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX turns_active ON turns (session_id, turn_id)
    WHERE status IN ('QUEUED', 'RUNNING', 'PAUSED_WAITING_APPROVAL', 'PAUSED_WAITING_TOOL');

CREATE TABLE runs (
    run_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL,
    turn_id TEXT COLLATE "C" NOT NULL,
    external_id TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    profile JSON,
    body_hash BYTEA,
    first_seq BIGINT NOT NULL DEFAULT 0,
    last_seq BIGINT NOT NULL DEFAULT 0,
    error_code TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    started_at BIGINT NOT NULL DEFAULT 0,
    ended_at BIGINT NOT NULL DEFAULT 0
);

CREATE UNIQUE INDEX runs_external ON runs (external_id, session_id);
CREATE INDEX runs_session ON runs (session_id, run_id);
CREATE INDEX runs_turn ON runs (turn_id, run_id);
CREATE INDEX runs_work ON runs (session_id, run_id) WHERE status IN ('RESERVED', 'RUNNING');

-- No foreign key: the fence and the one writer guard this table, and a check per row would lock the Session's row
-- on the hottest path.
CREATE TABLE events (
    session_id TEXT COLLATE "C" NOT NULL,
    last_seq BIGINT NOT NULL,
    n INTEGER NOT NULL,
    ts BIGINT NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (session_id, last_seq),
    CHECK (n > 0 AND last_seq >= n)
);

-- Rows beyond 2 kB are compressed, and the default method costs more CPU than everything else an append does. Not
-- every server is built with the better one.
-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE 'ALTER TABLE events ALTER COLUMN data SET COMPRESSION lz4';
EXCEPTION WHEN feature_not_supported OR syntax_error OR invalid_parameter_value THEN
    NULL;
END
$$;
-- +goose StatementEnd

CREATE TABLE records (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL,
    turn_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    source TEXT COLLATE "C" NOT NULL,
    type TEXT NOT NULL,
    at_seq BIGINT NOT NULL DEFAULT 0,
    ts BIGINT NOT NULL,
    payload JSON
);

CREATE INDEX records_turn ON records (turn_id, id) WHERE turn_id <> '';

CREATE TABLE messages (
    message_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL,
    run_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    external_id TEXT COLLATE "C" NOT NULL,
    role TEXT COLLATE "C" NOT NULL,
    output BOOLEAN NOT NULL DEFAULT FALSE,
    data JSON,
    created_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX messages_external ON messages (session_id, external_id);
CREATE INDEX messages_listing ON messages (session_id, message_id);

CREATE TABLE tool_calls (
    tool_call_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL,
    turn_id TEXT COLLATE "C" NOT NULL,
    run_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    tool_name TEXT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    args JSON,
    result JSON,
    error_code TEXT NOT NULL DEFAULT '',
    upstream_id TEXT NOT NULL DEFAULT '',
    told BOOLEAN NOT NULL DEFAULT FALSE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL DEFAULT 0,
    ended_at BIGINT NOT NULL DEFAULT 0,
    delivered_at BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX tool_calls_turn ON tool_calls (turn_id, tool_call_id);
CREATE INDEX tool_calls_open ON tool_calls (session_id, tool_call_id)
    WHERE status IN ('WAITING_APPROVAL', 'WAITING_CLIENT');
CREATE INDEX tool_calls_expiring ON tool_calls (expires_at, tool_call_id)
    WHERE status IN ('WAITING_APPROVAL', 'WAITING_CLIENT') AND expires_at > 0;

CREATE TABLE approvals (
    approval_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL,
    turn_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    tool_name TEXT NOT NULL DEFAULT '',
    title TEXT NOT NULL DEFAULT '',
    args JSON,
    args_sha256 TEXT COLLATE "C" NOT NULL DEFAULT '',
    options JSON,
    response_schema JSON,
    risk TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL DEFAULT 0,
    decided_at BIGINT NOT NULL DEFAULT 0,
    decided_by TEXT NOT NULL DEFAULT '',
    decided_via TEXT NOT NULL DEFAULT '',
    decision JSON,
    reason TEXT NOT NULL DEFAULT ''
);

CREATE INDEX approvals_session ON approvals (session_id, approval_id);
CREATE INDEX approvals_turn ON approvals (turn_id, approval_id);
CREATE INDEX approvals_status ON approvals (status, approval_id);

CREATE TABLE commands (
    command_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL,
    turn_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    kind TEXT COLLATE "C" NOT NULL,
    payload JSON,
    created_at BIGINT NOT NULL,
    done_at BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX commands_pending ON commands (session_id, command_id) WHERE done_at = 0;

CREATE TABLE replicas (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL,
    beat BIGINT NOT NULL DEFAULT 0,
    batch BIGINT NOT NULL DEFAULT 0,
    fenced BOOLEAN NOT NULL DEFAULT FALSE,
    seen_at BIGINT NOT NULL DEFAULT 0
);

-- One living replica a name: of two that start at once, one must find the other.
CREATE UNIQUE INDEX replicas_living ON replicas (name) WHERE NOT fenced;

-- The first statement of every Batch with moves. It holds the replica's row until the commit, so that fencing waits
-- for a Batch in flight, and raises a state of its own when the writer has been replaced. A numbered Batch leaves its
-- number there, so that repeating it shows that it had landed.
-- +goose StatementBegin
CREATE FUNCTION aqueduct_fence(replica TEXT, seq BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF seq > 0 THEN
        UPDATE replicas SET batch = seq WHERE id = replica AND NOT fenced AND batch < seq;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    PERFORM 1 FROM replicas WHERE id = replica AND NOT fenced FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'replica % is fenced', replica USING ERRCODE = 'AQ001';
    ELSIF seq > 0 THEN
        RAISE EXCEPTION 'batch % of replica % has landed', seq, replica USING ERRCODE = 'unique_violation';
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION aqueduct_fence(TEXT, BIGINT);
DROP TABLE replicas;
DROP TABLE commands;
DROP TABLE approvals;
DROP TABLE tool_calls;
DROP TABLE messages;
DROP TABLE records;
DROP TABLE events;
DROP TABLE runs;
DROP TABLE turns;
DROP TABLE sessions;
