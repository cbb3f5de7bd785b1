-- +goose Up
-- Branches of a transcript. Keep this file and its twin under postgres/ the same; a test compares them.

-- AG-UI's parentRunId, as the client named it or as the branch point gives it.
ALTER TABLE runs ADD COLUMN parent_run_id TEXT NOT NULL DEFAULT '';

-- Of a Turn that began a branch: the Turn it continues, '-' for the thread's beginning. Any other continues the Turn that was
-- created before it.
ALTER TABLE turns ADD COLUMN branched_from TEXT NOT NULL DEFAULT '';
CREATE INDEX turns_branches ON turns (session_id, turn_id) WHERE branched_from <> '';

-- The current branch is materialised: what stands on an older one only is replaced. A message whose content was edited keeps
-- its id, so that ids are unique on the current branch alone.
ALTER TABLE messages ADD COLUMN replaced BOOLEAN NOT NULL DEFAULT FALSE;
DROP INDEX messages_external;
DROP INDEX messages_listing;
CREATE UNIQUE INDEX messages_external ON messages (session_id, external_id) WHERE NOT replaced;
CREATE INDEX messages_listing ON messages (session_id, message_id) WHERE NOT replaced;
CREATE INDEX messages_replaced ON messages (session_id, external_id) WHERE replaced;

-- +goose Down
DELETE FROM messages WHERE replaced;
DROP INDEX messages_replaced;
DROP INDEX messages_listing;
DROP INDEX messages_external;
ALTER TABLE messages DROP COLUMN replaced;
CREATE UNIQUE INDEX messages_external ON messages (session_id, external_id);
CREATE INDEX messages_listing ON messages (session_id, message_id);
DROP INDEX turns_branches;
ALTER TABLE turns DROP COLUMN branched_from;
ALTER TABLE runs DROP COLUMN parent_run_id;
