-- +goose Up
-- The inbox as a feed, and standing delegations. Keep this file and its twin under postgres/ the same, column by column; a test
-- compares them.

-- The positions at which an Approval was opened and settled, 0 until somebody who reads gives them: see SequenceApprovals.
ALTER TABLE approvals ADD COLUMN opened_seq BIGINT NOT NULL DEFAULT 0;
ALTER TABLE approvals ADD COLUMN settled_seq BIGINT NOT NULL DEFAULT 0;
ALTER TABLE approvals ADD COLUMN tool_kind TEXT NOT NULL DEFAULT '';
UPDATE approvals SET opened_seq = 1, settled_seq = CASE WHEN status = 'PENDING' THEN 0 ELSE 1 END;

CREATE INDEX approvals_opened ON approvals (opened_seq, approval_id);
CREATE INDEX approvals_settled ON approvals (settled_seq, status, approval_id);

-- One row: the newest position. Who gives positions holds it until the commit.
CREATE TABLE approval_positions (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    last_seq BIGINT NOT NULL
);
INSERT INTO approval_positions (id, last_seq) VALUES (1, 1);

-- agent_id, tool and tool_kind '' do not narrow a delegation.
CREATE TABLE delegations (
    delegation_id TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL CHECK (tenant <> ''),
    user_id TEXT NOT NULL CHECK (user_id <> ''),
    delegate TEXT NOT NULL CHECK (delegate <> ''),
    wide BOOLEAN NOT NULL DEFAULT FALSE,
    holds TEXT CHECK (holds IS NULL OR json_valid(holds)),
    agent_id TEXT NOT NULL DEFAULT '',
    tool TEXT NOT NULL DEFAULT '',
    tool_kind TEXT NOT NULL DEFAULT '',
    note TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL DEFAULT 0,
    revoked_by TEXT NOT NULL DEFAULT ''
);

CREATE INDEX delegations_listing ON delegations (tenant, delegation_id);
CREATE INDEX delegations_given ON delegations (tenant, user_id, delegation_id);
CREATE INDEX delegations_live ON delegations (tenant, delegate, delegation_id) WHERE revoked_at = 0;

-- +goose Down
DROP TABLE delegations;
DROP TABLE approval_positions;
DROP INDEX approvals_settled;
DROP INDEX approvals_opened;
ALTER TABLE approvals DROP COLUMN tool_kind;
ALTER TABLE approvals DROP COLUMN settled_seq;
ALTER TABLE approvals DROP COLUMN opened_seq;
