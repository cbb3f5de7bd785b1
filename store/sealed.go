package store

import (
	"context"
	"time"
)

// Sealed is the original of something that is kept masked, encrypted. It is deleted with its Session.
type Sealed struct {
	Ref       string // names the row and the masked text it is the original of
	SessionID string
	KID       string // the key it is encrypted with
	Data      []byte
	CreatedAt time.Time
}

// SealedReader reads originals, still encrypted.
type SealedReader interface {
	Sealed(ctx context.Context, in Scope, ref string) (Sealed, error)
}

// SealedTx keeps originals.
type SealedTx interface {
	// KeepSealed keeps an original, or replaces the one with its Ref.
	KeepSealed(ctx context.Context, s Sealed) error
}

// KeepSealed is SealedTx's in a Batch.
type KeepSealed struct{ Sealed Sealed }

func (KeepSealed) move() {}

type originalsKey struct{}

// WithOriginals marks reads that are for what runs, not for what is shown: a Store that masks rows reads their
// originals. Only who calls an Agent or a tool uses it; what is read so must not reach a person.
func WithOriginals(ctx context.Context) context.Context {
	return context.WithValue(ctx, originalsKey{}, true)
}

// WantsOriginals reports whether the context is marked by WithOriginals.
func WantsOriginals(ctx context.Context) bool {
	wants, _ := ctx.Value(originalsKey{}).(bool)
	return wants
}
