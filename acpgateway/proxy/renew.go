package proxy

import (
	"context"
	"time"
)

const (
	// renewMost and renewLeast bound how often a link's token is looked at while the link holds.
	renewMost, renewLeast = time.Hour, time.Second
	// renewParts is how often a token is looked at in its life: it is renewed when half of that is over, and has three
	// more tries.
	renewParts = 8
)

// renew asks for the token from time to time, which renews it (Enrolment). A link may hold for longer than its token lives:
// when it breaks then, the old token would be refused, and could not be renewed any more.
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

// untilRenewal is how long the token need not be looked at.
func (l *link) untilRenewal() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	made, ends, ok := times(l.latest)
	if !ok {
		return renewMost
	}
	return min(max(ends.Sub(made)/renewParts, renewLeast), renewMost)
}

// noteToken logs how long a token is good, once, and again when a quarter of its life is left: then nothing has renewed it.
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
		l.log.Warn("the proxy's token ends soon and was not renewed; make another with: aqueduct token issue --type acp_proxy", "until", ends)
	case l.latest != token:
		l.log.Info("the proxy's token", "until", ends)
	}
	l.latest, l.late = token, late
}
