-- +goose Up
-- Which replica holds a proxy's link. Keep this file and its twin under the other database's folder the same, column by column; a
-- test compares them.

-- The replica that wrote the row; it holds the link while the status is online and the replica lives.
ALTER TABLE proxies ADD COLUMN replica TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE proxies DROP COLUMN replica;
