-- +goose Up
-- Tools, their policy, and what people decide about them. Keep this file and its twin under postgres/ the same, column by
-- column; a test compares them.

-- tenant '' is every tenant.
CREATE TABLE tools (
    tool_name TEXT NOT NULL,
    tenant TEXT NOT NULL DEFAULT '',
    kind TEXT NOT NULL,
    endpoint TEXT NOT NULL DEFAULT '',
    schema TEXT CHECK (schema IS NULL OR json_valid(schema)),
    policy TEXT CHECK (policy IS NULL OR json_valid(policy)),
    timeout_ms BIGINT NOT NULL DEFAULT 0,
    on_failure TEXT NOT NULL DEFAULT '',
    metadata TEXT CHECK (metadata IS NULL OR json_valid(metadata)),
    source TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, tool_name)
);

ALTER TABLE tool_calls ADD COLUMN idempotency_key TEXT NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN args_sha256 TEXT NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN edited BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE tool_calls ADD COLUMN risk TEXT NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN grant_id TEXT NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN on_failure TEXT NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN timeout_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tool_calls ADD COLUMN replica TEXT NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN running_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tool_calls ADD COLUMN error TEXT CHECK (error IS NULL OR json_valid(error));

CREATE UNIQUE INDEX tool_calls_key ON tool_calls (turn_id, idempotency_key) WHERE idempotency_key <> '';
-- What a replica has to dispatch, or to take up after another.
CREATE INDEX tool_calls_work ON tool_calls (status, tool_call_id) WHERE kind <> 'question' AND status IN ('CREATED',
    'POLICY_CHECKED', 'WAITING_APPROVAL', 'DISPATCHED', 'RUNNING', 'WAITING_CLIENT', 'UNKNOWN');

ALTER TABLE approvals ADD COLUMN asked_user TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN approvers TEXT CHECK (approvers IS NULL OR json_valid(approvers));
ALTER TABLE approvals ADD COLUMN four_eyes BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE approvals ADD COLUMN may_edit BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE approvals ADD COLUMN delegated_to TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN delegated_by TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN delegated_until BIGINT NOT NULL DEFAULT 0;
ALTER TABLE approvals ADD COLUMN edited_args TEXT CHECK (edited_args IS NULL OR json_valid(edited_args));
ALTER TABLE approvals ADD COLUMN grant_id TEXT NOT NULL DEFAULT '';

CREATE INDEX approvals_delegated ON approvals (delegated_to, approval_id) WHERE delegated_to <> '';

-- user_id, agent_id, session_id, tool and kind '' do not narrow a Grant.
CREATE TABLE grants (
    grant_id TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL CHECK (tenant <> ''),
    user_id TEXT NOT NULL DEFAULT '',
    agent_id TEXT NOT NULL DEFAULT '',
    session_id TEXT NOT NULL DEFAULT '',
    tool TEXT NOT NULL DEFAULT '',
    kind TEXT NOT NULL DEFAULT '',
    match TEXT CHECK (match IS NULL OR json_valid(match)),
    template TEXT NOT NULL DEFAULT '',
    created_by TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL DEFAULT 0,
    max_uses BIGINT NOT NULL DEFAULT 0,
    uses BIGINT NOT NULL DEFAULT 0,
    revoked_at BIGINT NOT NULL DEFAULT 0,
    revoked_by TEXT NOT NULL DEFAULT '',
    note TEXT NOT NULL DEFAULT ''
);

CREATE INDEX grants_listing ON grants (tenant, grant_id);
CREATE INDEX grants_live ON grants (tenant, user_id, grant_id) WHERE revoked_at = 0;

CREATE TABLE outbox (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    target TEXT NOT NULL DEFAULT '',
    payload TEXT CHECK (payload IS NULL OR json_valid(payload)),
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
    tenant TEXT NOT NULL DEFAULT '',
    ts BIGINT NOT NULL,
    actor TEXT NOT NULL DEFAULT '',
    action TEXT NOT NULL,
    subject_type TEXT NOT NULL DEFAULT '',
    subject_id TEXT NOT NULL DEFAULT '',
    payload TEXT CHECK (payload IS NULL OR json_valid(payload)),
    prev_hash TEXT NOT NULL,
    hash TEXT NOT NULL
);

CREATE INDEX audit_tenant ON audit (tenant, seq);

-- Nothing is ever changed or taken away here, by whatever mistake. Whoever may drop the triggers can still do it: the
-- hashes are what shows that.
-- +goose StatementBegin
CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
-- +goose StatementEnd
-- INSERT OR REPLACE would delete a row without asking the trigger above.
-- +goose StatementBegin
CREATE TRIGGER audit_no_replace BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE audit;
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
