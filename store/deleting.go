package store

import "context"

type deletingKey struct{}

// Deleting returns a context whose writes delete, or lead to a deletion. On a full disk they may take the room that is kept
// for them, where the database keeps some (SQLite): they free more than they need.
func Deleting(ctx context.Context) context.Context {
	return context.WithValue(ctx, deletingKey{}, true)
}

// IsDeleting reports whether a context comes from Deleting.
func IsDeleting(ctx context.Context) bool {
	deleting, _ := ctx.Value(deletingKey{}).(bool)
	return deleting
}
