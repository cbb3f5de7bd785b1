-- +goose Up
-- What requests, Turns and polls look up is found through an index, and what they sum up is kept as a sum. Keep this file
-- and its twin the same; a test compares them.
CREATE INDEX turns_session ON turns (session_id, turn_id);

-- Lists of one user or tenant are found by expressions that only they ask for, as sessions_listing is: PostgreSQL, where it
-- knows of one user with all rows, would go through everybody's for another one's page (store/sqldb/where.go, ofList).
DROP INDEX audit_tenant;
CREATE INDEX audit_tenant ON audit ((tenant || ':' || ''), (seq + 0));
CREATE INDEX audit_actor ON audit ((tenant || ':' || actor), (seq + 0));

-- The owner of an approval's Session, so that the list of one user's does not walk those of all.
ALTER TABLE approvals ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN user_id TEXT NOT NULL DEFAULT '';
UPDATE approvals SET tenant = COALESCE((SELECT s.tenant FROM sessions s WHERE s.session_id = approvals.session_id), ''),
    user_id = COALESCE((SELECT s.user_id FROM sessions s WHERE s.session_id = approvals.session_id), '');
CREATE INDEX approvals_tenant ON approvals ((tenant || ':' || ''), (approval_id || ''));
CREATE INDEX approvals_tenant_status ON approvals ((tenant || ':' || status), (approval_id || ''));
CREATE INDEX approvals_tenant_kind ON approvals ((tenant || ':' || kind), (approval_id || ''));
CREATE INDEX approvals_tenant_tool ON approvals ((tenant || ':' || tool_name), (approval_id || ''));
CREATE INDEX approvals_user ON approvals ((tenant || ':' || user_id), (approval_id || ''));
CREATE INDEX approvals_user_status ON approvals ((tenant || ':' || user_id || ':' || status), (approval_id || ''));
CREATE INDEX approvals_user_kind ON approvals ((tenant || ':' || user_id || ':' || kind), (approval_id || ''));
CREATE INDEX approvals_user_tool ON approvals ((tenant || ':' || user_id || ':' || tool_name), (approval_id || ''));
-- +goose StatementBegin
CREATE TRIGGER approvals_owner AFTER INSERT ON approvals BEGIN
    UPDATE approvals SET tenant = s.tenant, user_id = s.user_id FROM sessions s WHERE s.session_id = NEW.session_id AND approval_id = NEW.approval_id;
END;
-- +goose StatementEnd

-- A Grant that is used up or revoked leaves this index, and one that is over is passed by its end.
DROP INDEX grants_live;
CREATE INDEX grants_live ON grants (tenant, user_id, agent_id, session_id, (CASE expires_at WHEN 0 THEN 9223372036854775807 ELSE expires_at END))
    WHERE revoked_at = 0 AND (max_uses = 0 OR uses < max_uses);
DROP INDEX grants_listing;
CREATE INDEX grants_listing ON grants ((tenant || ':' || ''), (grant_id || ''));
CREATE INDEX grants_user ON grants ((tenant || ':' || user_id), (grant_id || ''));

DROP INDEX delegations_live;
CREATE INDEX delegations_live ON delegations (tenant, delegate, expires_at) WHERE revoked_at = 0;
DROP INDEX delegations_listing;
DROP INDEX delegations_given;
CREATE INDEX delegations_listing ON delegations ((tenant || ':' || ''), (delegation_id || ''));
CREATE INDEX delegations_given ON delegations ((tenant || ':' || user_id), (delegation_id || ''));
CREATE INDEX delegations_received ON delegations ((tenant || ':' || delegate), (delegation_id || ''));

CREATE INDEX credentials_user ON credentials ((tenant || ':' || user_id), (credential_id || ''));
CREATE INDEX credentials_user_kind ON credentials ((tenant || ':' || user_id || ':' || kind), (credential_id || ''));
CREATE INDEX credentials_tenant ON credentials ((tenant || ':' || ''), (credential_id || ''));
CREATE INDEX credentials_tenant_kind ON credentials ((tenant || ':' || kind), (credential_id || ''));

DROP INDEX tasks_request;
CREATE UNIQUE INDEX tasks_request ON tasks (request_id, tenant, user_id);
CREATE INDEX tasks_waiting_tenant ON tasks ((tenant || ':' || ''), tenant, status) WHERE status = 'WAITING';
CREATE INDEX tasks_waiting_user ON tasks ((tenant || ':' || user_id), tenant, user_id, status) WHERE status = 'WAITING';
CREATE INDEX tasks_ended ON tasks (ended_at) WHERE ended_at > 0;
CREATE INDEX bootstrap_uses_expired ON bootstrap_uses (expires_at);
CREATE INDEX budgets_period ON budgets (period) WHERE period > '';

DROP INDEX context_blobs_user;
CREATE INDEX context_blobs_user ON context_blobs ((tenant || ':' || user_id), (context_key || ''));
CREATE INDEX context_blobs_owner ON context_blobs ((owner_type || ':' || owner_id), (context_key || ''));

-- Replicas poll this number, which every change of the directory but a heartbeat raises. agents.revision is not read any
-- more; replicas of before still write it.
CREATE INDEX agents_listing ON agents (tenant, (agent_id || ''));
CREATE INDEX agents_owner ON agents (tenant, owner_id) WHERE source = 'api';
CREATE TABLE agents_stamp (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    changes BIGINT NOT NULL
);
INSERT INTO agents_stamp (id, changes) VALUES (1, 1);
-- +goose StatementBegin
CREATE TRIGGER agents_added AFTER INSERT ON agents BEGIN UPDATE agents_stamp SET changes = changes + 1; END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER agents_changed AFTER UPDATE OF updated_at ON agents BEGIN UPDATE agents_stamp SET changes = changes + 1; END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER agents_removed AFTER DELETE ON agents BEGIN UPDATE agents_stamp SET changes = changes + 1; END;
-- +goose StatementEnd

-- The sum of a tenant's sessions.bytes, of Sessions that are not hidden. PostgreSQL spreads it over shards, so that
-- replicas which commit at once seldom wait for each other.
CREATE TABLE tenant_bytes (
    tenant TEXT NOT NULL,
    shard BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (tenant, shard)
);
INSERT INTO tenant_bytes (tenant, shard, bytes) SELECT tenant, 0, SUM(bytes) FROM sessions WHERE deleted_at = 0 GROUP BY tenant;
-- +goose StatementBegin
CREATE TRIGGER sessions_bytes AFTER UPDATE OF bytes, deleted_at ON sessions
WHEN CASE NEW.deleted_at WHEN 0 THEN NEW.bytes ELSE 0 END <> CASE OLD.deleted_at WHEN 0 THEN OLD.bytes ELSE 0 END
BEGIN
    INSERT INTO tenant_bytes (tenant, shard, bytes) VALUES (NEW.tenant, 0,
        CASE NEW.deleted_at WHEN 0 THEN NEW.bytes ELSE 0 END - CASE OLD.deleted_at WHEN 0 THEN OLD.bytes ELSE 0 END)
        ON CONFLICT (tenant, shard) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
-- +goose StatementEnd

-- What a user's context entries, and the parts of messages that lie in blobs, hold together. What belongs to a hidden
-- Session is not counted: it leaves the sum when the Session is hidden, and not once more when its rows go.
CREATE TABLE context_usage (
    tenant TEXT NOT NULL,
    user_id TEXT NOT NULL,
    entries BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (tenant, user_id)
);
INSERT INTO context_usage (tenant, user_id, entries, bytes) SELECT tenant, user_id, SUM(entries), SUM(bytes) FROM (
    SELECT c.tenant, c.user_id, 1 AS entries, c.size AS bytes FROM context_blobs c
        WHERE c.session_id = '' OR EXISTS (SELECT 1 FROM sessions s WHERE s.session_id = c.session_id AND s.deleted_at = 0)
    UNION ALL SELECT s.tenant, s.user_id, 0, p.blob_size FROM message_parts p JOIN sessions s ON s.session_id = p.session_id
        WHERE p.blob_size > 0 AND s.deleted_at = 0
) held GROUP BY tenant, user_id;
-- +goose StatementBegin
CREATE TRIGGER context_blobs_added AFTER INSERT ON context_blobs
WHEN NEW.session_id = '' OR EXISTS (SELECT 1 FROM sessions s WHERE s.session_id = NEW.session_id AND s.deleted_at = 0) BEGIN
    INSERT INTO context_usage (tenant, user_id, entries, bytes) VALUES (NEW.tenant, NEW.user_id, 1, NEW.size)
        ON CONFLICT (tenant, user_id) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER context_blobs_changed AFTER UPDATE OF size ON context_blobs
WHEN NEW.session_id = '' OR EXISTS (SELECT 1 FROM sessions s WHERE s.session_id = NEW.session_id AND s.deleted_at = 0) BEGIN
    UPDATE context_usage SET bytes = bytes + NEW.size - OLD.size WHERE tenant = NEW.tenant AND user_id = NEW.user_id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER context_blobs_removed AFTER DELETE ON context_blobs
WHEN OLD.session_id = '' OR EXISTS (SELECT 1 FROM sessions s WHERE s.session_id = OLD.session_id AND s.deleted_at = 0) BEGIN
    UPDATE context_usage SET entries = entries - 1, bytes = bytes - OLD.size WHERE tenant = OLD.tenant AND user_id = OLD.user_id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER message_parts_added AFTER INSERT ON message_parts WHEN NEW.blob_size > 0 BEGIN
    INSERT INTO context_usage (tenant, user_id, entries, bytes) SELECT s.tenant, s.user_id, 0, NEW.blob_size FROM sessions s
        WHERE s.session_id = NEW.session_id AND s.deleted_at = 0 ON CONFLICT (tenant, user_id) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER message_parts_removed AFTER DELETE ON message_parts WHEN OLD.blob_size > 0 BEGIN
    UPDATE context_usage SET bytes = bytes - OLD.blob_size
        WHERE (tenant, user_id) = (SELECT s.tenant, s.user_id FROM sessions s WHERE s.session_id = OLD.session_id AND s.deleted_at = 0);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER sessions_hidden AFTER UPDATE OF deleted_at ON sessions WHEN OLD.deleted_at = 0 AND NEW.deleted_at > 0 BEGIN
    UPDATE context_usage SET entries = context_usage.entries - gone.entries, bytes = context_usage.bytes - gone.bytes FROM (
        SELECT c.tenant, c.user_id, COUNT(*) AS entries, SUM(c.size) AS bytes FROM context_blobs c
            WHERE c.session_id = NEW.session_id AND c.session_id <> '' GROUP BY c.tenant, c.user_id
    ) gone WHERE context_usage.tenant = gone.tenant AND context_usage.user_id = gone.user_id;
    UPDATE context_usage SET bytes = bytes - COALESCE((SELECT SUM(p.blob_size) FROM message_parts p
        WHERE p.session_id = NEW.session_id AND p.blob_size > 0), 0) WHERE tenant = NEW.tenant AND user_id = NEW.user_id;
END;
-- +goose StatementEnd

-- When the shared Session was last used, in the order of which a user's list has it.
ALTER TABLE shares ADD COLUMN updated_at BIGINT NOT NULL DEFAULT 0;
UPDATE shares SET updated_at = COALESCE((SELECT s.updated_at FROM sessions s WHERE s.session_id = shares.session_id), 0);
CREATE INDEX shares_listing ON shares (tenant, principal, updated_at, session_id);
-- +goose StatementBegin
CREATE TRIGGER shares_added AFTER INSERT ON shares BEGIN
    UPDATE shares SET updated_at = s.updated_at FROM sessions s WHERE s.session_id = NEW.session_id AND share_id = NEW.share_id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER sessions_shared AFTER UPDATE OF updated_at ON sessions WHEN NEW.updated_at <> OLD.updated_at BEGIN
    UPDATE shares SET updated_at = NEW.updated_at WHERE session_id = NEW.session_id;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER sessions_shared;
DROP TRIGGER shares_added;
DROP INDEX shares_listing;
ALTER TABLE shares DROP COLUMN updated_at;
DROP TRIGGER sessions_hidden;
DROP TRIGGER message_parts_removed;
DROP TRIGGER message_parts_added;
DROP TRIGGER context_blobs_removed;
DROP TRIGGER context_blobs_changed;
DROP TRIGGER context_blobs_added;
DROP TABLE context_usage;
DROP TRIGGER sessions_bytes;
DROP TABLE tenant_bytes;
DROP TRIGGER agents_removed;
DROP TRIGGER agents_changed;
DROP TRIGGER agents_added;
DROP TABLE agents_stamp;
DROP INDEX agents_owner;
DROP INDEX agents_listing;
DROP INDEX context_blobs_owner;
DROP INDEX context_blobs_user;
CREATE INDEX context_blobs_user ON context_blobs (tenant, user_id, size);
DROP INDEX budgets_period;
DROP INDEX bootstrap_uses_expired;
DROP INDEX tasks_ended;
DROP INDEX tasks_waiting_user;
DROP INDEX tasks_waiting_tenant;
DROP INDEX tasks_request;
CREATE UNIQUE INDEX tasks_request ON tasks (tenant, user_id, request_id);
DROP INDEX credentials_tenant_kind;
DROP INDEX credentials_tenant;
DROP INDEX credentials_user_kind;
DROP INDEX credentials_user;
DROP INDEX delegations_received;
DROP INDEX delegations_given;
DROP INDEX delegations_listing;
CREATE INDEX delegations_given ON delegations (tenant, user_id, delegation_id);
CREATE INDEX delegations_listing ON delegations (tenant, delegation_id);
DROP INDEX delegations_live;
CREATE INDEX delegations_live ON delegations (tenant, delegate, delegation_id) WHERE revoked_at = 0;
DROP INDEX grants_user;
DROP INDEX grants_listing;
CREATE INDEX grants_listing ON grants (tenant, grant_id);
DROP INDEX grants_live;
CREATE INDEX grants_live ON grants (tenant, user_id, grant_id) WHERE revoked_at = 0;
DROP TRIGGER approvals_owner;
DROP INDEX approvals_user_tool;
DROP INDEX approvals_user_kind;
DROP INDEX approvals_user_status;
DROP INDEX approvals_user;
DROP INDEX approvals_tenant_tool;
DROP INDEX approvals_tenant_kind;
DROP INDEX approvals_tenant_status;
DROP INDEX approvals_tenant;
ALTER TABLE approvals DROP COLUMN user_id;
ALTER TABLE approvals DROP COLUMN tenant;
DROP INDEX audit_actor;
DROP INDEX audit_tenant;
CREATE INDEX audit_tenant ON audit (tenant, seq);
DROP INDEX turns_session;
