package store

import "context"

// SearchText is a title or the text of a message, as it is looked through.
type SearchText struct {
	ID        string // of the message; of the Session for its title
	SessionID string
	Body      string // as grams.Fold gives it
}

// SearchQuery asks for Sessions in which one message of the current branch, or the title, has all the words.
type SearchQuery struct {
	Words    []string // folded, at least one
	Archived *bool    // nil: both
	Page              // Before has no meaning
}

// SearchReader finds Sessions.
type SearchReader interface {
	// Search lists in the order of Sessions, newest first, and as Sessions does what is shared with a Scope of Reaching. What
	// a message or a title was before it was changed is not found, and what it is now not before PutSearchText. next
	// goes into After for more, and is "" when there is no more; a page may have fewer Sessions than its limit, or none, and
	// be followed by another.
	Search(ctx context.Context, in Scope, query SearchQuery) (found []Session, next string, err error)
	// SearchBehind reports whether TakeMessages or TakeTitles have anything to return. For the System alone.
	SearchBehind(ctx context.Context, in Scope) (bool, error)
}

// SearchTx keeps what is searched up to date.
type SearchTx interface {
	// TakeMessages returns messages, newest first, whose text as it is now the search does not have, and marks that it has.
	// Those that another transaction holds are left out.
	TakeMessages(ctx context.Context, limit int) ([]Message, error)
	// TakeTitles is TakeMessages for the titles of Sessions, of deleted ones too.
	TakeTitles(ctx context.Context, limit int) ([]Session, error)
	// PutSearchText puts a text in the place of the one of its ID; an empty Body takes that away. Nothing is kept for a
	// Session that is deleted, or that an agent began: no list shows it.
	PutSearchText(ctx context.Context, t SearchText) error
}
