-- +goose Up
-- The log of a Session is one row after the other: each begins where the one before it ends. Two writers of one Session could
-- both add rows before this; from here on the database refuses the second. Keep this file and its twin under postgres/ the
-- same, column by column; a test compares them.

-- Logs with overlapping rows are readable up to the first break. What follows it moves into events_cut, as it is, and the
-- log continues at the break. The server names these threads when it starts.
CREATE TABLE events_cut (
    session_id TEXT NOT NULL,
    last_seq BIGINT NOT NULL,
    n INTEGER NOT NULL,
    ts BIGINT NOT NULL,
    data BLOB NOT NULL,
    mark TEXT NOT NULL DEFAULT '',
    kept BIGINT NOT NULL, -- the position that the log is kept to
    PRIMARY KEY (session_id, last_seq)
);

CREATE TABLE log_breaks (session_id TEXT NOT NULL PRIMARY KEY, ended BIGINT NOT NULL);
INSERT INTO log_breaks SELECT session_id, MIN(ended) FROM (
    SELECT session_id, last_seq - n AS begins, LAG(last_seq, 1, 0) OVER (PARTITION BY session_id ORDER BY last_seq) AS ended FROM events
) AS rows_in_order WHERE begins <> ended GROUP BY session_id;

INSERT INTO events_cut (session_id, last_seq, n, ts, data, mark, kept)
    SELECT e.session_id, e.last_seq, e.n, e.ts, e.data, e.mark, b.ended FROM events e JOIN log_breaks b ON b.session_id = e.session_id WHERE e.last_seq > b.ended;
DELETE FROM events WHERE EXISTS (SELECT 1 FROM log_breaks b WHERE b.session_id = events.session_id AND events.last_seq > b.ended);

-- A Run behind the break has an empty slice, and is over. The one that the break is in is open again: its owner ends it
-- with an error, as a Run that the server was restarted in.
UPDATE runs SET status = 'FAILED', error_code = 'log_cut',
        first_seq = (SELECT b.ended + 1 FROM log_breaks b WHERE b.session_id = runs.session_id),
        last_seq = (SELECT b.ended FROM log_breaks b WHERE b.session_id = runs.session_id)
    WHERE EXISTS (SELECT 1 FROM log_breaks b WHERE b.session_id = runs.session_id AND runs.first_seq > b.ended);
UPDATE runs SET status = 'RUNNING', last_seq = 0, ended_at = 0
    WHERE EXISTS (SELECT 1 FROM log_breaks b WHERE b.session_id = runs.session_id AND runs.first_seq BETWEEN 1 AND b.ended AND runs.last_seq > b.ended)
    AND NOT EXISTS (SELECT 1 FROM runs o WHERE o.session_id = runs.session_id AND o.status = 'RUNNING');
UPDATE turns SET status = 'FAILED', error_code = 'log_cut', ended_at = created_at
    WHERE status IN ('RUNNING', 'PAUSED_WAITING_APPROVAL', 'PAUSED_WAITING_TOOL') AND EXISTS (SELECT 1 FROM log_breaks b WHERE b.session_id = turns.session_id)
    AND NOT EXISTS (SELECT 1 FROM runs o WHERE o.turn_id = turns.turn_id AND o.status IN ('RUNNING', 'RESERVED'));
DROP TABLE log_breaks;

-- One transaction writes at a time, so each sees the rows of all before it.
-- +goose StatementBegin
CREATE TRIGGER events_append BEFORE INSERT ON events
WHEN NEW.last_seq - NEW.n <> COALESCE((SELECT e.last_seq FROM events e WHERE e.session_id = NEW.session_id ORDER BY e.last_seq DESC LIMIT 1), 0)
BEGIN
    SELECT RAISE(ABORT, 'the row does not begin where the log of its session ends');
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER events_append;
DROP TABLE events_cut;
