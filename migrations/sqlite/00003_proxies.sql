-- +goose Up
-- A proxy belongs to no tenant. Its two inventories are kept as it sent them.
-- Keep this file and its twin under postgres/ the same, column by column; a test compares them.
CREATE TABLE proxies (
    proxy_id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL DEFAULT '',
    agent_id TEXT NOT NULL DEFAULT '',
    capabilities TEXT CHECK (capabilities IS NULL OR json_valid(capabilities)),
    max_concurrent INTEGER NOT NULL DEFAULT 0,
    status TEXT NOT NULL,
    connected_at BIGINT NOT NULL DEFAULT 0,
    last_seen BIGINT NOT NULL DEFAULT 0,
    last_error TEXT NOT NULL DEFAULT '',
    sandboxes TEXT CHECK (sandboxes IS NULL OR json_valid(sandboxes)),
    workspaces TEXT CHECK (workspaces IS NULL OR json_valid(workspaces))
);

-- One a Session. No environment is here: it holds secrets.
CREATE TABLE sandbox_instances (
    session_id TEXT NOT NULL PRIMARY KEY,
    proxy_id TEXT NOT NULL,
    instance_name TEXT NOT NULL DEFAULT '',
    acp_session_id TEXT NOT NULL DEFAULT '',
    status TEXT NOT NULL DEFAULT '',
    provider TEXT NOT NULL DEFAULT '',
    runtime TEXT NOT NULL DEFAULT '',
    last_seen BIGINT NOT NULL DEFAULT 0,
    last_error TEXT NOT NULL DEFAULT '',
    transport TEXT CHECK (transport IS NULL OR json_valid(transport)),
    init TEXT CHECK (init IS NULL OR json_valid(init)),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE INDEX sandbox_instances_proxy ON sandbox_instances (proxy_id, session_id);

-- +goose Down
DROP TABLE sandbox_instances;
DROP TABLE proxies;
