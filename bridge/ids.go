package bridge

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"aqueduct/store"
)

// newID makes a primary key: a UUIDv7, so that ids sort by the time they were made.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// maxExternalID bounds ids that clients make, in characters.
const maxExternalID = 128

// InvalidIDs says which ids are taken.
const InvalidIDs = "Ids are 1 to 128 printable characters, without a space at either end."

// ValidExternalID reports whether a client's id has a form we accept: printable text of any
// script. Control characters, line separators and marks of direction could break a frame or a
// header, or make a log line look like another.
func ValidExternalID(id string) bool {
	if id == "" || len(id) > utf8.UTFMax*maxExternalID || !utf8.ValidString(id) || utf8.RuneCountInString(id) > maxExternalID {
		return false
	}
	for _, c := range id {
		if !unicode.IsPrint(c) && c != zeroWidthJoiner && c != zeroWidthNonJoiner {
			return false
		}
	}
	return strings.TrimSpace(id) == id
}

// Between letters and between emoji these two are part of what is written.
const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

// ValidName reports whether a name of an agent, a proxy or a webhook, which operators and
// programs choose, has the form we accept: it stands unescaped in flags, paths and addresses.
func ValidName(name string) bool {
	if name == "" || len(name) > maxExternalID {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}

// newRunToken makes the secret a Turn's Agent calls us with, and what is kept of it. It
// names the Turn, so that nobody has to search for it.
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

// IsRunToken says whether a credential has the form of one. Whether it is good the Turn knows.
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
