-- +goose Up
-- Tools, their policy, and what people decide about them. Keep this file and its twin under sqlite/ the same, column by
-- column; a test compares them.

-- tenant '' is every tenant.
CREATE TABLE tools (
    tool_name TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL DEFAULT '',
    kind TEXT COLLATE "C" NOT NULL,
    endpoint TEXT NOT NULL DEFAULT '',
    schema JSON,
    policy JSON,
    timeout_ms BIGINT NOT NULL DEFAULT 0,
    on_failure TEXT COLLATE "C" NOT NULL DEFAULT '',
    metadata JSON,
    source TEXT COLLATE "C" NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, tool_name)
);

ALTER TABLE tool_calls ADD COLUMN idempotency_key TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN args_sha256 TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN edited BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE tool_calls ADD COLUMN risk TEXT NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN grant_id TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN on_failure TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN timeout_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tool_calls ADD COLUMN replica TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN running_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tool_calls ADD COLUMN error JSON;

CREATE UNIQUE INDEX tool_calls_key ON tool_calls (turn_id, idempotency_key) WHERE idempotency_key <> '';
-- What a replica has to dispatch, or to take up after another.
CREATE INDEX tool_calls_work ON tool_calls (status, tool_call_id) WHERE kind <> 'question' AND status IN ('CREATED',
    'POLICY_CHECKED', 'WAITING_APPROVAL', 'DISPATCHED', 'RUNNING', 'WAITING_CLIENT', 'UNKNOWN');

ALTER TABLE approvals ADD COLUMN asked_user TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN approvers JSON;
ALTER TABLE approvals ADD COLUMN four_eyes BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE approvals ADD COLUMN may_edit BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE approvals ADD COLUMN delegated_to TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN delegated_by TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN delegated_until BIGINT NOT NULL DEFAULT 0;
ALTER TABLE approvals ADD COLUMN edited_args JSON;
ALTER TABLE approvals ADD COLUMN grant_id TEXT COLLATE "C" NOT NULL DEFAULT '';

CREATE INDEX approvals_delegated ON approvals (delegated_to, approval_id) WHERE delegated_to <> '';

-- user_id, agent_id, session_id, tool and kind '' do not narrow a Grant.
CREATE TABLE grants (
    grant_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL CHECK (tenant <> ''),
    user_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    agent_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    session_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    tool TEXT NOT NULL DEFAULT '',
    kind TEXT NOT NULL DEFAULT '',
    match JSON,
    template TEXT NOT NULL DEFAULT '',
    created_by TEXT COLLATE "C" NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL DEFAULT 0,
    max_uses BIGINT NOT NULL DEFAULT 0,
    uses BIGINT NOT NULL DEFAULT 0,
    revoked_at BIGINT NOT NULL DEFAULT 0,
    revoked_by TEXT COLLATE "C" NOT NULL DEFAULT '',
    note TEXT NOT NULL DEFAULT ''
);

CREATE INDEX grants_listing ON grants (tenant, grant_id);
CREATE INDEX grants_live ON grants (tenant, user_id, grant_id) WHERE revoked_at = 0;

CREATE TABLE outbox (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL,
    target TEXT NOT NULL DEFAULT '',
    payload JSON,
    created_at BIGINT NOT NULL,
    next_at BIGINT NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    claimed_until BIGINT NOT NULL DEFAULT 0,
    done_at BIGINT NOT NULL DEFAULT 0,
    last_error TEXT NOT NULL DEFAULT ''
);

CREATE INDEX outbox_due ON outbox (next_at, id) WHERE done_at = 0;

CREATE TABLE audit (
    seq BIGINT NOT NULL PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL DEFAULT '',
    ts BIGINT NOT NULL,
    actor TEXT COLLATE "C" NOT NULL DEFAULT '',
    action TEXT COLLATE "C" NOT NULL,
    subject_type TEXT COLLATE "C" NOT NULL DEFAULT '',
    subject_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    payload JSON,
    prev_hash TEXT COLLATE "C" NOT NULL,
    hash TEXT COLLATE "C" NOT NULL
);

CREATE INDEX audit_tenant ON audit (tenant, seq);

-- Nothing is ever changed or taken away here, by whatever mistake. Whoever may drop the triggers can still do it: the
-- hashes are what shows that.
-- +goose StatementBegin
CREATE FUNCTION aqueduct_audit_stays() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit is append-only' USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd

CREATE TRIGGER audit_stays BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION aqueduct_audit_stays();
CREATE TRIGGER audit_stays_whole BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION aqueduct_audit_stays();

-- +goose Down
DROP TABLE audit;
DROP FUNCTION aqueduct_audit_stays();
DROP TABLE outbox;
DROP TABLE grants;
DROP INDEX approvals_delegated;
ALTER TABLE approvals DROP COLUMN asked_user;
ALTER TABLE approvals DROP COLUMN approvers;
ALTER TABLE approvals DROP COLUMN four_eyes;
ALTER TABLE approvals DROP COLUMN may_edit;
ALTER TABLE approvals DROP COLUMN delegated_to;
ALTER TABLE approvals DROP COLUMN delegated_by;
ALTER TABLE approvals DROP COLUMN delegated_until;
ALTER TABLE approvals DROP COLUMN edited_args;
ALTER TABLE approvals DROP COLUMN grant_id;
DROP INDEX tool_calls_work;
DROP INDEX tool_calls_key;
ALTER TABLE tool_calls DROP COLUMN idempotency_key;
ALTER TABLE tool_calls DROP COLUMN args_sha256;
ALTER TABLE tool_calls DROP COLUMN edited;
ALTER TABLE tool_calls DROP COLUMN risk;
ALTER TABLE tool_calls DROP COLUMN grant_id;
ALTER TABLE tool_calls DROP COLUMN on_failure;
ALTER TABLE tool_calls DROP COLUMN timeout_ms;
ALTER TABLE tool_calls DROP COLUMN replica;
ALTER TABLE tool_calls DROP COLUMN running_at;
ALTER TABLE tool_calls DROP COLUMN error;
DROP TABLE tools;
