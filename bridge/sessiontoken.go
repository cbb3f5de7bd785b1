package bridge

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/google/uuid"

	"aqueduct/store"
)

// sessionTokenPrefix begins a token of a Session's agent. It begins like a run token, so that every route that refuses run
// tokens refuses it as well: its holder acts as the agent and may decide nothing.
const sessionTokenPrefix = store.RunTokenPrefix + "session_"

// NewSessionToken makes the token that the agent of a Session sends while its instance lives, and the hash that is kept of
// it. An agent whose process serves many Turns gets its environment once, so a run token would be of the first Turn only.
func NewSessionToken(sessionID string) (token string, hash []byte) {
	var secret [32]byte
	rand.Read(secret[:]) // never fails; crypto/rand ends the process instead
	token = sessionTokenPrefix + sessionID + "_" + base64.RawURLEncoding.EncodeToString(secret[:])
	return token, runTokenHash(token)
}

// SessionOfToken returns the Session that a session token names. It reports false for a token of another kind.
func SessionOfToken(token string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(token, sessionTokenPrefix)
	id, _, found := strings.Cut(rest, "_")
	return id, ok && found && uuid.Validate(id) == nil
}

// maxTokenHashes is how many tokens of one instance are good at a time. There are several when the server was restarted and
// the agent's process was not: that has an older token.
const maxTokenHashes = 4

// AddTokenHash adds a hash to those that are kept of an instance's tokens, and drops the oldest at the bound.
func AddTokenHash(kept, hash []byte) []byte {
	if drop := len(kept) - (maxTokenHashes-1)*sha256.Size; drop > 0 {
		kept = kept[drop:]
	}
	return append(append([]byte(nil), kept...), hash...)
}

// sessionTurn is the Turn that a call with a session token belongs to: the one under way, else the last.
// An agent's process may act between Turns, by a background task say; what it does then is put down to the last Turn.
// An instance acts for Turns of its own Agent only: a thread's prompt may be for another than the thread's own.
func (a *AgentRequests) sessionTurn(ctx context.Context, id, token string) (store.Turn, error) {
	var instance store.SandboxInstance // none where the token is lent
	if !a.lent(id, token) {
		var err error
		if instance, err = a.store.SandboxInstance(ctx, store.System(), id); err != nil {
			return store.Turn{}, orRunToken(err)
		}
		if err := fitsAny(token, instance.TokenHash); err != nil {
			return store.Turn{}, err
		}
	}
	session, err := a.store.Session(ctx, store.System(), cmp.Or(instance.OfSession, id))
	if err != nil {
		return store.Turn{}, orRunToken(err)
	}
	turn, err := a.store.ActiveTurn(ctx, store.System(), session.ID)
	if errors.Is(err, store.ErrNotFound) {
		var last store.Run
		if last, err = a.store.LastRun(ctx, store.System(), session.ID); err == nil {
			turn, err = a.store.Turn(ctx, store.System(), last.TurnID)
		}
	}
	if err == nil && turn.AgentID != cmp.Or(instance.AgentID, session.AgentID) {
		err = ErrRunToken // a Turn of another Agent
	}
	return turn, orRunToken(err)
}

// lender makes tokens for requests that were authorized by another credential than a token of the engine's own.
type lender struct{ key [sha256.Size]byte }

func newLender() *lender {
	l := new(lender)
	rand.Read(l.key[:]) // never fails; crypto/rand ends the process instead
	return l
}

// lend returns a token of a Session; lent reports whether a token was lent.
func (a *AgentRequests) lend(sessionID string) string {
	mac := hmac.New(sha256.New, a.lender.key[:])
	mac.Write([]byte(sessionID))
	return sessionTokenPrefix + sessionID + "_" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (a *AgentRequests) lent(sessionID, token string) bool {
	return hmac.Equal([]byte(token), []byte(a.lend(sessionID)))
}

// orRunToken makes a row that is not there a token that is not good: what it was made for is gone.
func orRunToken(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return ErrRunToken
	}
	return err
}

// fitsAny compares a token with each of the kept hashes.
func fitsAny(token string, kept []byte) error {
	for ; len(kept) >= sha256.Size; kept = kept[sha256.Size:] {
		if fits(token, kept[:sha256.Size], nil) == nil {
			return nil
		}
	}
	return ErrRunToken
}
