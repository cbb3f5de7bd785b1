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
	_, session := sessionOfToken(token)
	return run || session
}

// turnOfToken is the Turn a run token names.
func turnOfToken(token string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(token, store.RunTokenPrefix)
	id, _, found := strings.Cut(rest, "_")
	return id, ok && found && uuid.Validate(id) == nil
}
