-- +goose Up
-- Where the agent of a Turn is, and what a Session may never have: two open Runs. Keep this file and its twin under
-- postgres/ the same, column by column; a test compares them.

-- '' before the first call and after the end; 'waits' when the agent ended to wait for answers and is to be called again;
-- else the id of the replica that holds the agent's call.
ALTER TABLE turns ADD COLUMN upstream TEXT NOT NULL DEFAULT '';

-- A Run that a cancel left open behind the end of its Turn has no terminal event and never gets one.
UPDATE runs SET status = 'FAILED', error_code = 'internal_error', ended_at = started_at
    WHERE status = 'RUNNING' AND EXISTS (SELECT 1 FROM runs later WHERE later.session_id = runs.session_id
        AND later.first_seq > runs.first_seq);

CREATE UNIQUE INDEX runs_open ON runs (session_id) WHERE status = 'RUNNING';
CREATE INDEX runs_slices ON runs (session_id, first_seq);
CREATE INDEX turns_paused ON turns (session_id, turn_id)
    WHERE status IN ('RUNNING', 'PAUSED_WAITING_APPROVAL', 'PAUSED_WAITING_TOOL');

-- What an agent says while its Turn is paused goes into the log; nothing is kept aside for a later Run any more.
DROP INDEX records_parked;

-- +goose Down
CREATE INDEX records_parked ON records (turn_id, id) WHERE source = 'upstream';
DROP INDEX turns_paused;
DROP INDEX runs_slices;
DROP INDEX runs_open;
ALTER TABLE turns DROP COLUMN upstream;
