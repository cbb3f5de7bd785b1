-- +goose Up
-- All times are Unix milliseconds, UTC; 0 is "never". JSON is TEXT checked on writing, so that both databases refuse
-- the same rows.
-- Keep this file and its twin under postgres/ the same, column by column; a test compares them.

CREATE TABLE sessions (
    session_id TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL CHECK (tenant <> ''),
    user_id TEXT NOT NULL CHECK (user_id <> ''),
    external_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    title TEXT NOT NULL DEFAULT '',
    state TEXT CHECK (state IS NULL OR json_valid(state)),
    owner TEXT NOT NULL DEFAULT '',
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
    turn_id TEXT NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL,
    root_agent_id TEXT NOT NULL,
    status TEXT NOT NULL,
    input TEXT CHECK (input IS NULL OR json_valid(input)),
    token_hash BLOB,
    usage TEXT CHECK (usage IS NULL OR json_valid(usage)),
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
    run_id TEXT NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    external_id TEXT NOT NULL,
    status TEXT NOT NULL,
    profile TEXT CHECK (profile IS NULL OR json_valid(profile)),
    body_hash BLOB,
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

-- No foreign key: the fence and the one writer guard this table, and a check per row is on the hottest path.
CREATE TABLE events (
    session_id TEXT NOT NULL,
    last_seq BIGINT NOT NULL,
    n INTEGER NOT NULL,
    ts BIGINT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (session_id, last_seq),
    CHECK (n > 0 AND last_seq >= n)
);

CREATE TABLE records (
    id TEXT NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL,
    turn_id TEXT NOT NULL DEFAULT '',
    source TEXT NOT NULL,
    type TEXT NOT NULL,
    at_seq BIGINT NOT NULL DEFAULT 0,
    ts BIGINT NOT NULL,
    payload TEXT CHECK (payload IS NULL OR json_valid(payload))
);

CREATE INDEX records_turn ON records (turn_id, id) WHERE turn_id <> '';

CREATE TABLE messages (
    message_id TEXT NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL,
    run_id TEXT NOT NULL DEFAULT '',
    external_id TEXT NOT NULL,
    role TEXT NOT NULL,
    output BOOLEAN NOT NULL DEFAULT FALSE,
    data TEXT CHECK (data IS NULL OR json_valid(data)),
    created_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX messages_external ON messages (session_id, external_id);
CREATE INDEX messages_listing ON messages (session_id, message_id);

CREATE TABLE tool_calls (
    tool_call_id TEXT NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    run_id TEXT NOT NULL DEFAULT '',
    tool_name TEXT NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    args TEXT CHECK (args IS NULL OR json_valid(args)),
    result TEXT CHECK (result IS NULL OR json_valid(result)),
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
    approval_id TEXT NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    tool_name TEXT NOT NULL DEFAULT '',
    title TEXT NOT NULL DEFAULT '',
    args TEXT CHECK (args IS NULL OR json_valid(args)),
    args_sha256 TEXT NOT NULL DEFAULT '',
    options TEXT CHECK (options IS NULL OR json_valid(options)),
    response_schema TEXT CHECK (response_schema IS NULL OR json_valid(response_schema)),
    risk TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL DEFAULT 0,
    decided_at BIGINT NOT NULL DEFAULT 0,
    decided_by TEXT NOT NULL DEFAULT '',
    decided_via TEXT NOT NULL DEFAULT '',
    decision TEXT CHECK (decision IS NULL OR json_valid(decision)),
    reason TEXT NOT NULL DEFAULT ''
);

CREATE INDEX approvals_session ON approvals (session_id, approval_id);
CREATE INDEX approvals_turn ON approvals (turn_id, approval_id);
CREATE INDEX approvals_status ON approvals (status, approval_id);

CREATE TABLE commands (
    command_id TEXT NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL,
    turn_id TEXT NOT NULL DEFAULT '',
    kind TEXT NOT NULL,
    payload TEXT CHECK (payload IS NULL OR json_valid(payload)),
    created_at BIGINT NOT NULL,
    done_at BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX commands_pending ON commands (session_id, command_id) WHERE done_at = 0;

CREATE TABLE replicas (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    beat BIGINT NOT NULL DEFAULT 0,
    batch BIGINT NOT NULL DEFAULT 0,
    fenced BOOLEAN NOT NULL DEFAULT FALSE,
    seen_at BIGINT NOT NULL DEFAULT 0
);

-- One living replica a name: of two that start at once, one must find the other.
CREATE UNIQUE INDEX replicas_living ON replicas (name) WHERE NOT fenced;

-- +goose Down
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
