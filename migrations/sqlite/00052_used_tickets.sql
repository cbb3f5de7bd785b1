-- +goose Up
-- Tickets that a page opened a socket, a stream or a picture with. Keep this file and its twin under the other database's folder
-- the same, column by column; a test compares them.

-- An unused ticket has no row: its bytes are signed. A row is dropped a minute after its ticket has expired.
CREATE TABLE used_tickets (
    ticket_id TEXT NOT NULL PRIMARY KEY,
    expires_at BIGINT NOT NULL
);

CREATE INDEX used_tickets_expired ON used_tickets (expires_at);

-- +goose Down
DROP TABLE used_tickets;
