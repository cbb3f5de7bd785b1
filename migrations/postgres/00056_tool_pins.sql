-- +goose Up
-- Definitions of MCP servers' tools that calls are not asked about for being new. Keep this file and its twin under the other
-- database's folder the same, column by column; a test compares them.

CREATE TABLE tool_pins (
    tool_name    TEXT COLLATE "C" NOT NULL,            -- NAME.TOOL; NAME. is the server itself, from its first list on
    sha256       TEXT COLLATE "C" NOT NULL,            -- of name, description, title, schema and annotations
    tenant       TEXT COLLATE "C" NOT NULL DEFAULT '', -- '' is every tenant
    user_id      TEXT COLLATE "C" NOT NULL DEFAULT '', -- '' is every user of the tenant
    confirmed_by TEXT NOT NULL DEFAULT '', -- '' is the server's first list
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (tool_name, sha256, tenant, user_id)
);

-- The definition that a question about an MCP server's tool was asked under; NULL for any other question.
ALTER TABLE approvals ADD COLUMN definition JSON;

-- +goose Down
ALTER TABLE approvals DROP COLUMN definition;
DROP TABLE tool_pins;
