-- +goose Up
-- Where a deed of the audit came from, and a MAC of its entry with a key that is not in the database. Keep this file and
-- its twin under sqlite/ the same; a test compares them.

-- The address of the peer; '' for what the server did by itself, and for entries of before.
ALTER TABLE audit ADD COLUMN remote TEXT NOT NULL DEFAULT '';
-- <key id>:<hex HMAC-SHA256 of hash>; '' for entries that were written without a key.
ALTER TABLE audit ADD COLUMN mac TEXT NOT NULL DEFAULT '';
-- A server looks here at its start for the entry that began the use of its key.
CREATE INDEX audit_keys ON audit (subject_id) WHERE subject_type = 'audit_key';

-- +goose Down
DROP INDEX audit_keys;
ALTER TABLE audit DROP COLUMN mac;
ALTER TABLE audit DROP COLUMN remote;
