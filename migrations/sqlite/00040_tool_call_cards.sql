-- +goose Up
-- Whether the card of a permission stands in the chat under an id of its own. Keep this file and its twin under the other database's
-- folder the same, column by column; a test compares them.

-- The agent had shown the call itself, under the call's own id.
ALTER TABLE tool_calls ADD COLUMN carded BOOLEAN NOT NULL DEFAULT FALSE;

-- +goose Down
ALTER TABLE tool_calls DROP COLUMN carded;
