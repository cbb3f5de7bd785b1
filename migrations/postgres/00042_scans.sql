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
ALTER TABLE approvals ADD COLUMN tenant TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN user_id TEXT COLLATE "C" NOT NULL DEFAULT '';
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
CREATE FUNCTION aqueduct_approval_owner() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    SELECT s.tenant, s.user_id INTO NEW.tenant, NEW.user_id FROM sessions s WHERE s.session_id = NEW.session_id;
    NEW.tenant := COALESCE(NEW.tenant, '');
    NEW.user_id := COALESCE(NEW.user_id, '');
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER approvals_owner BEFORE INSERT ON approvals FOR EACH ROW EXECUTE FUNCTION aqueduct_approval_owner();

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
CREATE FUNCTION aqueduct_agents_changed() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    UPDATE agents_stamp SET changes = changes + 1;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER agents_added AFTER INSERT ON agents FOR EACH ROW EXECUTE FUNCTION aqueduct_agents_changed();
CREATE TRIGGER agents_changed AFTER UPDATE OF updated_at ON agents FOR EACH ROW EXECUTE FUNCTION aqueduct_agents_changed();
CREATE TRIGGER agents_removed AFTER DELETE ON agents FOR EACH ROW EXECUTE FUNCTION aqueduct_agents_changed();

-- The sum of a tenant's sessions.bytes, of Sessions that are not hidden. PostgreSQL spreads it over shards, so that
-- replicas which commit at once seldom wait for each other.
CREATE TABLE tenant_bytes (
    tenant TEXT COLLATE "C" NOT NULL,
    shard BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (tenant, shard)
);
INSERT INTO tenant_bytes (tenant, shard, bytes) SELECT tenant, 0, SUM(bytes) FROM sessions WHERE deleted_at = 0 GROUP BY tenant;
-- +goose StatementBegin
CREATE FUNCTION aqueduct_tenant_bytes() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    -- In the order of the key: two commits that touch the same sums must not wait for each other in a circle.
    INSERT INTO tenant_bytes (tenant, shard, bytes) SELECT tenant, shard, SUM(n) FROM (
        SELECT tenant, abs(hashtext(session_id)) % 16 AS shard, CASE deleted_at WHEN 0 THEN bytes ELSE 0 END AS n FROM after
        UNION ALL SELECT tenant, abs(hashtext(session_id)) % 16, -CASE deleted_at WHEN 0 THEN bytes ELSE 0 END FROM before
    ) moved GROUP BY tenant, shard HAVING SUM(n) <> 0 ORDER BY tenant, shard
        ON CONFLICT (tenant, shard) DO UPDATE SET bytes = tenant_bytes.bytes + excluded.bytes;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER sessions_bytes AFTER UPDATE ON sessions REFERENCING OLD TABLE AS before NEW TABLE AS after
    FOR EACH STATEMENT EXECUTE FUNCTION aqueduct_tenant_bytes();

-- What a user's context entries, and the parts of messages that lie in blobs, hold together. What belongs to a hidden
-- Session is not counted: it leaves the sum when the Session is hidden, and not once more when its rows go.
CREATE TABLE context_usage (
    tenant TEXT COLLATE "C" NOT NULL,
    user_id TEXT COLLATE "C" NOT NULL,
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
-- Each holds the Session's row shared, so that it is not hidden in the same moment: a row would be counted for good.
-- +goose StatementBegin
CREATE FUNCTION aqueduct_context_usage() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    at RECORD;
    more BIGINT := 0;
    size BIGINT := 0;
BEGIN
    IF TG_OP = 'DELETE' THEN at := OLD; ELSE at := NEW; END IF;
    IF at.session_id <> '' THEN
        PERFORM 1 FROM sessions s WHERE s.session_id = at.session_id AND s.deleted_at = 0 FOR SHARE;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    END IF;
    IF TG_OP <> 'INSERT' THEN more := more - 1; size := size - OLD.size; END IF;
    IF TG_OP <> 'DELETE' THEN more := more + 1; size := size + NEW.size; END IF;
    INSERT INTO context_usage (tenant, user_id, entries, bytes) VALUES (at.tenant, at.user_id, more, size)
        ON CONFLICT (tenant, user_id) DO UPDATE SET entries = context_usage.entries + excluded.entries, bytes = context_usage.bytes + excluded.bytes;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER context_blobs_added AFTER INSERT ON context_blobs FOR EACH ROW EXECUTE FUNCTION aqueduct_context_usage();
CREATE TRIGGER context_blobs_changed AFTER UPDATE OF size ON context_blobs FOR EACH ROW EXECUTE FUNCTION aqueduct_context_usage();
CREATE TRIGGER context_blobs_removed AFTER DELETE ON context_blobs FOR EACH ROW EXECUTE FUNCTION aqueduct_context_usage();
-- +goose StatementBegin
CREATE FUNCTION aqueduct_parts_usage() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    at RECORD;
    size BIGINT;
BEGIN
    IF TG_OP = 'DELETE' THEN at := OLD; size := -OLD.blob_size; ELSE at := NEW; size := NEW.blob_size; END IF;
    INSERT INTO context_usage (tenant, user_id, entries, bytes) SELECT l.tenant, l.user_id, 0, size FROM (
        SELECT s.tenant, s.user_id FROM sessions s WHERE s.session_id = at.session_id AND s.deleted_at = 0 FOR SHARE
    ) l ON CONFLICT (tenant, user_id) DO UPDATE SET bytes = context_usage.bytes + excluded.bytes;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER message_parts_added AFTER INSERT ON message_parts FOR EACH ROW WHEN (NEW.blob_size > 0) EXECUTE FUNCTION aqueduct_parts_usage();
CREATE TRIGGER message_parts_removed AFTER DELETE ON message_parts FOR EACH ROW WHEN (OLD.blob_size > 0) EXECUTE FUNCTION aqueduct_parts_usage();
-- +goose StatementBegin
CREATE FUNCTION aqueduct_session_hidden() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    UPDATE context_usage SET entries = context_usage.entries - gone.entries, bytes = context_usage.bytes - gone.bytes FROM (
        SELECT c.tenant, c.user_id, COUNT(*) AS entries, SUM(c.size) AS bytes FROM context_blobs c
            WHERE c.session_id = NEW.session_id AND c.session_id <> '' GROUP BY c.tenant, c.user_id
    ) gone WHERE context_usage.tenant = gone.tenant AND context_usage.user_id = gone.user_id;
    UPDATE context_usage SET bytes = bytes - COALESCE((SELECT SUM(p.blob_size) FROM message_parts p
        WHERE p.session_id = NEW.session_id AND p.blob_size > 0), 0) WHERE tenant = NEW.tenant AND user_id = NEW.user_id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER sessions_hidden AFTER UPDATE OF deleted_at ON sessions FOR EACH ROW WHEN (OLD.deleted_at = 0 AND NEW.deleted_at > 0)
    EXECUTE FUNCTION aqueduct_session_hidden();

-- When the shared Session was last used, in the order of which a user's list has it.
ALTER TABLE shares ADD COLUMN updated_at BIGINT NOT NULL DEFAULT 0;
UPDATE shares SET updated_at = COALESCE((SELECT s.updated_at FROM sessions s WHERE s.session_id = shares.session_id), 0);
CREATE INDEX shares_listing ON shares (tenant, principal, updated_at, session_id);
-- +goose StatementBegin
CREATE FUNCTION aqueduct_share_place() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    NEW.updated_at := COALESCE((SELECT s.updated_at FROM sessions s WHERE s.session_id = NEW.session_id), 0);
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER shares_added BEFORE INSERT ON shares FOR EACH ROW EXECUTE FUNCTION aqueduct_share_place();
-- +goose StatementBegin
CREATE FUNCTION aqueduct_session_shared() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    UPDATE shares SET updated_at = NEW.updated_at WHERE session_id = NEW.session_id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER sessions_shared AFTER UPDATE OF updated_at ON sessions FOR EACH ROW WHEN (NEW.updated_at <> OLD.updated_at)
    EXECUTE FUNCTION aqueduct_session_shared();

-- +goose Down
DROP TRIGGER sessions_shared ON sessions;
DROP FUNCTION aqueduct_session_shared();
DROP TRIGGER shares_added ON shares;
DROP FUNCTION aqueduct_share_place();
DROP INDEX shares_listing;
ALTER TABLE shares DROP COLUMN updated_at;
DROP TRIGGER sessions_hidden ON sessions;
DROP FUNCTION aqueduct_session_hidden();
DROP TRIGGER message_parts_removed ON message_parts;
DROP TRIGGER message_parts_added ON message_parts;
DROP FUNCTION aqueduct_parts_usage();
DROP TRIGGER context_blobs_removed ON context_blobs;
DROP TRIGGER context_blobs_changed ON context_blobs;
DROP TRIGGER context_blobs_added ON context_blobs;
DROP FUNCTION aqueduct_context_usage();
DROP TABLE context_usage;
DROP TRIGGER sessions_bytes ON sessions;
DROP FUNCTION aqueduct_tenant_bytes();
DROP TABLE tenant_bytes;
DROP TRIGGER agents_removed ON agents;
DROP TRIGGER agents_changed ON agents;
DROP TRIGGER agents_added ON agents;
DROP FUNCTION aqueduct_agents_changed();
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
DROP TRIGGER approvals_owner ON approvals;
DROP FUNCTION aqueduct_approval_owner();
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
