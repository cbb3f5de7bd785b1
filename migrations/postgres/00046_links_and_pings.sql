-- +goose Up
-- Which replica holds a proxy's link, and what is written to see whether anything can be. Keep this file and its twin under the other database's folder the same, column by column; a
-- test compares them.

-- The replica that wrote the row; it holds the link while the status is online and the replica lives.
ALTER TABLE proxies ADD COLUMN replica TEXT COLLATE "C" NOT NULL DEFAULT '';

-- The links that there are, which each replica reads every second.
CREATE INDEX proxies_online ON proxies (registered_at, proxy_id) WHERE status = 'online';

-- One row, which is written only to see whether a write succeeds.
CREATE TABLE pings (
    id INTEGER NOT NULL PRIMARY KEY,
    tries BIGINT NOT NULL DEFAULT 0
);
INSERT INTO pings (id) VALUES (1);

-- +goose Down
DROP TABLE pings;
DROP INDEX proxies_online;
ALTER TABLE proxies DROP COLUMN replica;
