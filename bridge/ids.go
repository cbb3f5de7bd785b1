package bridge

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/google/uuid"

	"aqueduct/store"
)

// newID makes a primary key: a UUIDv7, so that ids sort by the time they were made.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// NewCallID makes a run id for a further call of a Turn's Agent, where its protocol wants another for each call. Half of it is
// a digest of the Turn's id, so that whose it is needs not be kept; the run token proves who names it.
func NewCallID(turnID string) string {
	id := uuid.Must(uuid.NewV7())
	return callID(id, turnID)
}

// callID is NewCallID with the time and chance of an id.
func callID(id uuid.UUID, turnID string) string {
	id[6] = id[6]&0x0f | 0x80 // version 8: in a form of one's own
	sum := sha256.Sum256(append([]byte(turnID), id[:8]...))
	copy(id[8:], sum[:])
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// OwnRun is the Turn that an Agent means by a run id beside its run token: the token's own, where the id is of one of that
// Turn's calls. Any other id is given back as it is.
func OwnRun(token, runID string) string {
	turnID, ok := turnOfToken(token)
	id, err := uuid.Parse(runID)
	if ok && err == nil && id.Version() == 8 && callID(id, turnID) == runID {
		return turnID
	}
	return runID
}

// newRunToken makes the secret a Turn's Agent calls us with, and what is kept of it. It
// names the Turn, so that its Turn is found without a search.
func newRunToken(turnID string) (token string, hash []byte) {
	var secret [32]byte
	rand.Read(secret[:]) // never fails; crypto/rand ends the process instead
	token = store.RunTokenPrefix + turnID + "_" + base64.RawURLEncoding.EncodeToString(secret[:])
	return token, runTokenHash(token)
}

func runTokenHash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// IsRunToken reports whether a credential has the form of one. Whether it is good the Turn knows.
func IsRunToken(token string) bool {
	_, run := turnOfToken(token)
	_, session := SessionOfToken(token)
	return run || session
}

// turnOfToken is the Turn a run token names.
func turnOfToken(token string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(token, store.RunTokenPrefix)
	id, _, found := strings.Cut(rest, "_")
	return id, ok && found && uuid.Validate(id) == nil
}
