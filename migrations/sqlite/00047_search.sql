-- +goose Up
-- Threads that were put away, and the words that are found in threads. Keep this file and its twin under the other database's folder the same, column by column; a
-- test compares them, but for what only one of the databases has: search_index.

ALTER TABLE sessions ADD COLUMN archived BOOLEAN NOT NULL DEFAULT FALSE;
DROP INDEX sessions_listing;
CREATE INDEX sessions_listing ON sessions ((tenant || ':' || user_id), archived, updated_at, (session_id || '')) WHERE deleted_at = 0;

-- Whether the search has the row's title, or text, as it is now. Only the few that it does not have yet are in the indexes,
-- from which bridge/search takes them in steps; after this migration that is all of them.
ALTER TABLE sessions ADD COLUMN searched BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE messages ADD COLUMN searched BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX sessions_unsearched ON sessions (session_id) WHERE NOT searched;
CREATE INDEX messages_unsearched ON messages (message_id) WHERE NOT searched;

-- A title or the text of a message, in lower case, as it is looked through. text_id is the message's id, or the Session's for
-- its title; place is a number that no other has.
CREATE TABLE search_texts (
    place BIGINT NOT NULL PRIMARY KEY,
    text_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX search_texts_id ON search_texts (text_id);
CREATE INDEX search_texts_session ON search_texts (session_id, place);

-- The tokens of each text by its place (bridge/search). No text is kept in it.
CREATE VIRTUAL TABLE search_index USING fts5(tokens, content='', contentless_delete=1, detail=none, tokenize='ascii');

-- +goose StatementBegin
CREATE TRIGGER search_texts_gone AFTER DELETE ON search_texts BEGIN
    DELETE FROM search_index WHERE rowid = OLD.place;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER messages_moved AFTER UPDATE OF message_id ON messages BEGIN
    UPDATE search_texts SET text_id = NEW.message_id WHERE text_id = OLD.message_id;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER messages_moved;
DROP TABLE search_index;
DROP TABLE search_texts;
DROP INDEX messages_unsearched;
DROP INDEX sessions_unsearched;
ALTER TABLE messages DROP COLUMN searched;
ALTER TABLE sessions DROP COLUMN searched;
DROP INDEX sessions_listing;
CREATE INDEX sessions_listing ON sessions ((tenant || ':' || user_id), updated_at, (session_id || '')) WHERE deleted_at = 0;
ALTER TABLE sessions DROP COLUMN archived;
