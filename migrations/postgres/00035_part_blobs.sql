-- +goose Up
-- Parts of messages whose bytes lie in a blob: attachments that were uploaded. data is empty then. With a kid the blob is
-- encrypted. blob_size counts the bytes of the content; it is 0 for a part in its row. Keep this file and its twin under sqlite/ the same; a test compares them.
ALTER TABLE message_parts ADD COLUMN blob_id TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE message_parts ADD COLUMN blob_size BIGINT NOT NULL DEFAULT 0;
ALTER TABLE message_parts ADD COLUMN kid TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX message_parts_blobs ON message_parts (session_id, blob_size);

-- +goose Down
DROP INDEX message_parts_blobs;
ALTER TABLE message_parts DROP COLUMN kid;
ALTER TABLE message_parts DROP COLUMN blob_size;
ALTER TABLE message_parts DROP COLUMN blob_id;
