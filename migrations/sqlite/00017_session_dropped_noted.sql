-- +goose Up
-- Whether the client was warned that messages of its history are not taken: once per Session. Keep this file and its twin
-- under postgres/ the same, column by column; a test compares them.
ALTER TABLE sessions ADD COLUMN dropped_noted BOOLEAN NOT NULL DEFAULT FALSE;

-- +goose Down
ALTER TABLE sessions DROP COLUMN dropped_noted;
