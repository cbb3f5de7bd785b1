-- +goose Up
-- The directory of agents. Keep this file and its twin under postgres/ the same, column by column; a test compares them.

-- One name space for all of them: an id belongs to whoever has its row. source is config (the operator's flags), proxy (an
-- ACP agent behind acp-proxies) or api (registered by the user owner_id). tenant is whose users may talk to the agent; ''
-- is everybody. revision is a random number, another with each change but a heartbeat: their sum shows whether anything
-- changed. Times would not, because the clocks of replicas differ. auth is what the agent is sent with each call, encrypted with the key auth_kid.
CREATE TABLE agents (
    agent_id TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL DEFAULT '',
    owner_id TEXT NOT NULL DEFAULT '',
    source TEXT NOT NULL,
    protocol TEXT NOT NULL,
    name TEXT NOT NULL DEFAULT '',
    endpoint TEXT NOT NULL DEFAULT '',
    capabilities TEXT CHECK (capabilities IS NULL OR json_valid(capabilities)),
    auth_kid TEXT NOT NULL DEFAULT '',
    auth BLOB,
    last_heartbeat_at BIGINT NOT NULL DEFAULT 0,
    registered_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    revision BIGINT NOT NULL DEFAULT 0
);

-- The agents of proxies that registered before there was a directory.
INSERT INTO agents (agent_id, source, protocol, registered_at, updated_at)
    SELECT agent_id, 'proxy', 'acp', MIN(registered_at), MIN(registered_at) FROM proxies WHERE agent_id <> '' GROUP BY agent_id;

-- +goose Down
DROP TABLE agents;
