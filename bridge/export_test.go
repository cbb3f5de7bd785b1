package bridge

import "context"

// Expire settles a Question as its deadline would.
func (s *Sessions) Expire(ctx context.Context, questionID string) { s.expire(ctx, questionID) }
