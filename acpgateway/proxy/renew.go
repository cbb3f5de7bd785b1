package proxy

import (
	"context"
	"time"
)

const (
	// renewMost and renewLeast bound the interval between checks of a link's token.
	renewMost, renewLeast = time.Hour, time.Second
	// renewParts is the number of checks in a token's life. The token is renewed after half of its life, which leaves three
	// more tries.
	renewParts = 8
)

// renew checks the token periodically, which renews it (Enrolment). A link may hold for longer than its token lives. If such
// a link breaks, the server refuses the old token, and the proxy cannot renew it.
func (l *link) renew(ctx context.Context) {
	for {
		timer := time.NewTimer(l.untilRenewal())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		token, err := l.cfg.Token(ctx)
		if err != nil {
			if ctx.Err() == nil {
				l.log.Warn("the proxy's token could not be read or renewed", "err", err)
			}
			continue
		}
		l.noteToken(token)
	}
}

// untilRenewal returns the time until the next check of the token.
func (l *link) untilRenewal() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	made, ends, ok := times(l.latest)
	if !ok {
		return renewMost
	}
	return min(max(ends.Sub(made)/renewParts, renewLeast), renewMost)
}

// noteToken logs how long a token is valid. It logs again when a quarter of the token's life is left, because renewal has
// failed by then.
func (l *link) noteToken(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	made, ends, ok := times(token)
	if !ok {
		l.latest = token
		return
	}
	late := time.Now().After(ends.Add(made.Sub(ends) / 4))
	switch {
	case late && (l.latest != token || !l.late):
		l.log.Warn("the proxy's token ends soon and was not renewed; issue another with: aqueduct token issue --type acp_proxy", "until", ends)
	case l.latest != token:
		l.log.Info("the proxy's token", "until", ends)
	}
	l.latest, l.late = token, late
}
