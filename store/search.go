package store

import "context"

// SearchText is a title or the text of a message in searchable form.
type SearchText struct {
	ID        string // of the message; of the Session for its title
	SessionID string
	Body      string // as grams.Fold returns it
}

// SearchQuery asks for Sessions in which one message of the current branch, or the title, has all the words.
type SearchQuery struct {
	Words    []string // folded, at least one
	Archived *bool    // nil: both
	Page              // Before is ignored
}

// SearchReader finds Sessions.
type SearchReader interface {
	// Search lists in the order of Sessions, newest first. With a Scope of Reaching it includes shared Sessions, as Sessions
	// does. It does not find an earlier text of a message or a title. It does not find a new text before PutSearchText. next
	// goes into After for more, and is "" at the end. A page may have fewer Sessions than its limit, or none, and still not
	// be the last.
	Search(ctx context.Context, in Scope, query SearchQuery) (found []Session, next string, err error)
	// SearchBehind reports whether TakeMessages or TakeTitles have anything to return. For the System alone.
	SearchBehind(ctx context.Context, in Scope) (bool, error)
}

// SearchTx keeps the searchable texts up to date.
type SearchTx interface {
	// TakeMessages returns messages, newest first, whose current text the search does not have, and marks them as searched.
	// It skips messages that another transaction has locked.
	TakeMessages(ctx context.Context, limit int) ([]Message, error)
	// TakeTitles does the same for the titles of Sessions, also of deleted ones.
	TakeTitles(ctx context.Context, limit int) ([]Session, error)
	// PutSearchText replaces the text of an ID; an empty Body removes it. It stores nothing for a Session that is deleted, or
	// that an agent began, because no list shows it.
	PutSearchText(ctx context.Context, t SearchText) error
}
