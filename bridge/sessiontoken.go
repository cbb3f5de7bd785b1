package bridge

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/google/uuid"

	"aqueduct/store"
)

// sessionTokenPrefix begins a token of a Session's agent. It begins as a run token does, so that every door that is
// closed to run tokens is closed to it: whoever holds it acts as the agent and decides nothing.
const sessionTokenPrefix = store.RunTokenPrefix + "session_"

// NewSessionToken makes the secret that the agent of a Session calls us with while its instance lives, and what is kept of
// it. A run token would not do for an agent whose process serves many Turns: it gets its environment once.
func NewSessionToken(sessionID string) (token string, hash []byte) {
	var secret [32]byte
	rand.Read(secret[:]) // never fails; crypto/rand ends the process instead
	token = sessionTokenPrefix + sessionID + "_" + base64.RawURLEncoding.EncodeToString(secret[:])
	return token, runTokenHash(token)
}

// sessionOfToken is the Session that a token names.
func sessionOfToken(token string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(token, sessionTokenPrefix)
	id, _, found := strings.Cut(rest, "_")
	return id, ok && found && uuid.Validate(id) == nil
}

// maxTokenHashes is how many tokens of one instance are good at a time. More than one is where the server was restarted
// and the agent's process was not: it has the token of before.
const maxTokenHashes = 4

// AddTokenHash adds a hash to those that are kept of an instance's tokens. The oldest is dropped at the bound.
func AddTokenHash(kept, hash []byte) []byte {
	if drop := len(kept) - (maxTokenHashes-1)*sha256.Size; drop > 0 {
		kept = kept[drop:]
	}
	return append(append([]byte(nil), kept...), hash...)
}

// sessionTurn is the Turn that a call with a session token belongs to: the one under way, else the last.
func (s *Sessions) sessionTurn(ctx context.Context, id, token string) (store.Turn, error) {
	instance, err := s.cfg.Store.SandboxInstance(ctx, store.System(), id)
	if errors.Is(err, store.ErrNotFound) {
		return store.Turn{}, ErrRunToken
	}
	if err != nil {
		return store.Turn{}, err
	}
	if err := fitsAny(token, instance.TokenHash); err != nil {
		return store.Turn{}, err
	}
	session := cmp.Or(instance.OfSession, id)
	turn, err := s.cfg.Store.ActiveTurn(ctx, store.System(), session)
	if errors.Is(err, store.ErrNotFound) {
		var last store.Run
		if last, err = s.cfg.Store.LastRun(ctx, store.System(), session); err == nil {
			turn, err = s.cfg.Store.Turn(ctx, store.System(), last.TurnID)
		}
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && instance.AgentID != "" && turn.AgentID != instance.AgentID {
		return store.Turn{}, ErrRunToken // in another Agent's Turn it has nothing to call for
	}
	return turn, err
}

// fitsAny checks a token against each of the hashes that were kept.
func fitsAny(token string, kept []byte) error {
	for ; len(kept) >= sha256.Size; kept = kept[sha256.Size:] {
		if fits(token, kept[:sha256.Size], nil) == nil {
			return nil
		}
	}
	return ErrRunToken
}
