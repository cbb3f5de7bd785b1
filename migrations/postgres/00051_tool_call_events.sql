-- +goose Up
-- What an agent asked a question by. Keep this file and its twin under the other database's folder the same, column by column; a
-- test compares them.

-- The value of the CUSTOM on_interrupt by which an AG-UI agent asked, as it came; NULL for any other call.
ALTER TABLE tool_calls ADD COLUMN event JSON;

-- +goose Down
ALTER TABLE tool_calls DROP COLUMN event;
