-- +goose Up
-- A proxy belongs to no tenant. Its two inventories are kept as it sent them.
-- Keep this file and its twin under sqlite/ the same, column by column; a test compares them.
CREATE TABLE proxies (
    proxy_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name TEXT NOT NULL DEFAULT '',
    agent_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    capabilities JSON,
    max_concurrent INTEGER NOT NULL DEFAULT 0,
    status TEXT COLLATE "C" NOT NULL,
    connected_at BIGINT NOT NULL DEFAULT 0,
    last_seen BIGINT NOT NULL DEFAULT 0,
    last_error TEXT NOT NULL DEFAULT '',
    sandboxes JSON,
    workspaces JSON
);

-- One a Session. No environment is here: it holds secrets.
CREATE TABLE sandbox_instances (
    session_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    proxy_id TEXT COLLATE "C" NOT NULL,
    instance_name TEXT COLLATE "C" NOT NULL DEFAULT '',
    acp_session_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    status TEXT COLLATE "C" NOT NULL DEFAULT '',
    provider TEXT NOT NULL DEFAULT '',
    runtime TEXT NOT NULL DEFAULT '',
    last_seen BIGINT NOT NULL DEFAULT 0,
    last_error TEXT NOT NULL DEFAULT '',
    transport JSON,
    init JSON,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE INDEX sandbox_instances_proxy ON sandbox_instances (proxy_id, session_id);

-- +goose Down
DROP TABLE sandbox_instances;
DROP TABLE proxies;
