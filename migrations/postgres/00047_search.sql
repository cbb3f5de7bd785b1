-- +goose Up
-- Threads that were put away, and the words that are found in threads. Keep this file and its twin under the other database's folder the same, column by column; a
-- test compares them, but for what only one of the databases has: search_texts.tokens and its index.

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
CREATE SEQUENCE search_places;
CREATE TABLE search_texts (
    place BIGINT NOT NULL PRIMARY KEY,
    text_id TEXT COLLATE "C" NOT NULL,
    session_id TEXT COLLATE "C" NOT NULL,
    body TEXT NOT NULL,
    tokens INTEGER[] NOT NULL
);
CREATE UNIQUE INDEX search_texts_id ON search_texts (text_id);
CREATE INDEX search_texts_session ON search_texts (session_id, place);

-- The tokens of each text (bridge/search). An index of arrays needs no extension, and finds words of one character. Every
-- search reads what the index has not put in its place yet, so that is kept short (kB).
CREATE INDEX search_texts_tokens ON search_texts USING gin (tokens) WITH (gin_pending_list_limit = 256);

-- +goose StatementBegin
CREATE FUNCTION aqueduct_message_moved() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    UPDATE search_texts SET text_id = NEW.message_id WHERE text_id = OLD.message_id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER messages_moved AFTER UPDATE OF message_id ON messages FOR EACH ROW EXECUTE FUNCTION aqueduct_message_moved();

-- +goose Down
DROP TRIGGER messages_moved ON messages;
DROP FUNCTION aqueduct_message_moved();
DROP TABLE search_texts;
DROP SEQUENCE search_places;
DROP INDEX messages_unsearched;
DROP INDEX sessions_unsearched;
ALTER TABLE messages DROP COLUMN searched;
ALTER TABLE sessions DROP COLUMN searched;
DROP INDEX sessions_listing;
CREATE INDEX sessions_listing ON sessions ((tenant || ':' || user_id), updated_at, (session_id || '')) WHERE deleted_at = 0;
ALTER TABLE sessions DROP COLUMN archived;
