package notify

import (
	"context"
	"errors"

	"aqueduct/store"
)

// UsedLinks records which links to a decision were used. The Notifier's sweep deletes old records.
type UsedLinks struct{ store store.Store }

// NewUsedLinks keeps the records in a store.
func NewUsedLinks(st store.Store) *UsedLinks { return &UsedLinks{st} }

// Used reports whether the approver has used the link of that nonce.
func (u *UsedLinks) Used(ctx context.Context, approver store.Principal, nonce string) (bool, error) {
	_, err := u.store.UsedLink(ctx, store.As(approver), nonce)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Claim records the use of a link before the decision is made. It returns false when another request was first: a
// decision that can be revoked must not be made again by a second reader of the link.
func (u *UsedLinks) Claim(ctx context.Context, l store.UsedLink) (first bool, err error) {
	err = u.store.InTx(ctx, func(tx store.Tx) error {
		first, err = tx.UseLink(ctx, l)
		return err
	})
	return first, err
}

// Release deletes the record of a use: the decision certainly was not made.
func (u *UsedLinks) Release(ctx context.Context, nonce string) error {
	return u.store.InTx(ctx, func(tx store.Tx) error { return tx.ReleaseLink(ctx, nonce) })
}
