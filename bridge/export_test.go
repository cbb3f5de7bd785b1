package bridge

import "context"

// LookForStranded looks as the poll does.
func LookForStranded(ctx context.Context, s *Sessions) error { return s.care.endStranded(ctx) }

// Expire settles a Question as its deadline would.
func (s *Sessions) Expire(ctx context.Context, questionID string) {
	s.approvals.Expire(ctx, questionID)
}
