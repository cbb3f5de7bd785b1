package bridge

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"

	"github.com/google/uuid"
)

// newID makes a primary key: a UUIDv7, so that ids sort by the time they were made.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// maxExternalID bounds ids that clients make.
const maxExternalID = 128

// ValidExternalID reports whether a client's id has the form we accept. Anything else
// could carry a line break into a frame, a header or a log line.
func ValidExternalID(id string) bool {
	if id == "" || len(id) > maxExternalID {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}

// newRunToken makes the secret a Turn's Agent calls us with, and what is kept of it.
func newRunToken() (token string, hash []byte) {
	var secret [32]byte
	rand.Read(secret[:]) // never fails; crypto/rand ends the process instead
	token = "run_" + base64.RawURLEncoding.EncodeToString(secret[:])
	sum := sha256.Sum256([]byte(token))
	return token, sum[:]
}
