package link

import (
	"context"
	"errors"
	"time"

	"aqueduct/store"
)

// Book keeps which links were used.
type Book struct {
	*Signer
	store store.Store
}

// NewBook keeps them in a store.
func NewBook(s *Signer, st store.Store) *Book { return &Book{Signer: s, store: st} }

// Used reports whether a link was used.
func (b *Book) Used(ctx context.Context, c Claims) (bool, error) {
	_, err := b.store.UsedLink(ctx, store.As(c.Approver()), c.Nonce)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Claim uses a link up, before the decision: a decision that could be revoked must not be
// made a second time by whoever else has seen the link. False when somebody was faster.
func (b *Book) Claim(ctx context.Context, c Claims, now time.Time) (first bool, err error) {
	err = b.store.InTx(ctx, func(tx store.Tx) error {
		first, err = tx.UseLink(ctx, store.UsedLink{
			ID: c.Nonce, ApprovalID: c.ApprovalID, Tenant: c.Tenant, User: c.User, UsedAt: now, ExpiresAt: c.ExpiresAt(),
		})
		return err
	})
	return first, err
}

// Release makes a link as new: the decision certainly was not made.
func (b *Book) Release(ctx context.Context, c Claims) error {
	return b.store.InTx(ctx, func(tx store.Tx) error { return tx.ReleaseLink(ctx, c.Nonce) })
}
