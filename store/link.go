package store

import (
	"context"
	"time"
)

// UsedLink is a signed link to one decision that was used. An unused link has no
// row: all that it grants is in the link.
type UsedLink struct {
	ID         string // the link's nonce
	ApprovalID string
	Tenant     string
	User       string // the approver it was made for
	UsedAt     time.Time
	ExpiresAt  time.Time // from then on the link is refused anyway
}

// LinkReader reads which links were used.
type LinkReader interface {
	// UsedLink is ErrNotFound for a link that was not used, or is not for the Scope's user.
	UsedLink(ctx context.Context, in Scope, id string) (UsedLink, error)
}

// LinkTx changes which links were used.
type LinkTx interface {
	// UseLink is false when it was used before.
	UseLink(ctx context.Context, l UsedLink) (bool, error)
	// ReleaseLink makes a link as if it had not been used.
	ReleaseLink(ctx context.Context, id string) error
	// DropUsedLinks forgets links that expired before a time.
	DropUsedLinks(ctx context.Context, before time.Time) error
}
