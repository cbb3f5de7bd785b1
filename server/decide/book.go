// Links that were used. The record is in the store, so a link works once on all replicas together and after a
// restart.

package decide

import (
	"context"
	"time"

	"aqueduct/bridge/notify"
	"aqueduct/store"
)

// Book signs links and records which were used. Any goroutine may use it.
type Book struct {
	*Signer
	used *notify.UsedLinks
}

// NewBook keeps the records in a store.
func NewBook(s *Signer, st store.Store) *Book { return &Book{s, notify.NewUsedLinks(st)} }

// Used reports whether a link was used.
func (b *Book) Used(ctx context.Context, c Claims) (bool, error) {
	return b.used.Used(ctx, c.Approver(), c.Nonce)
}

// Claim records the use of a link before the decision is made. It returns false when another request was first. Two
// clicks at the same moment race for one row; the store lets one of them insert it.
func (b *Book) Claim(ctx context.Context, c Claims, now time.Time) (first bool, err error) {
	return b.used.Claim(ctx, store.UsedLink{
		ID: c.Nonce, ApprovalID: c.ApprovalID, Tenant: c.Tenant, User: c.User, UsedAt: now, ExpiresAt: c.ExpiresAt(),
	})
}

// Release makes a link usable again: the decision certainly was not made.
func (b *Book) Release(ctx context.Context, c Claims) error { return b.used.Release(ctx, c.Nonce) }
