// This file signs and verifies tokens (JWT, HS256). Verification is strict about form: two readers
// of one token must not be able to see different claims in it.

package auth

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

// Keys sign tokens and verify those that they signed. The first key signs; the others verify
// what they signed before a rotation. The header kid picks among these alone, in memory.
// They do not change after NewKeys, so they need no lock.
type Keys struct{ keys []signingKey }

// signingKey is one key with the id by which tokens name it.
type signingKey struct {
	id     string // kid
	secret []byte
}

// NewKeys takes the key that signs, and older ones that verify; see LoadKeys.
func NewKeys(signs Secret, verify ...Secret) (*Keys, error) {
	k := &Keys{}
	for _, key := range append([]Secret{signs}, verify...) {
		if len(key) < minKeyLength {
			return nil, fmt.Errorf("auth: a signing key must have at least %d bytes", minKeyLength)
		}
		k.keys = append(k.keys, signingKey{keyID(key), []byte(key)})
	}
	return k, nil
}

// keySource gives the keys when the first token needs them; nil for an installation without keys.
type keySource func() (*Keys, error)

// get loads the keys; the error for none is that of a bad token, because no token can be good then.
func (s keySource) get() (*Keys, error) {
	if s == nil {
		return nil, ErrTokenInvalid
	}
	return s()
}

// read verifies a token of one of the wanted types. The keys are not loaded for text that does not have the form of a
// token: a key file that cannot be read must not turn every wrong password into an internal error.
func (s keySource) read(token string, want ...Type) (wire, error) {
	if s == nil || strings.Count(token, ".") != 2 {
		return wire{}, ErrTokenInvalid
	}
	keys, err := s()
	if err != nil {
		return wire{}, fmt.Errorf("auth: the keys: %w", err)
	}
	return keys.read(token, want...)
}

// keyID names a key in tokens without saying anything of it. The id is a hash of the key with a word of its own, so
// it can be computed on every replica and reveals nothing.
func keyID(key Secret) string {
	sum := sha256.Sum256([]byte("aqueduct signing key\x00" + string(key)))
	return hex.EncodeToString(sum[:8])
}

// IDs are the kid of each key, that of the one which signs first.
func (k *Keys) IDs() []string {
	var ids []string
	for _, key := range k.keys {
		ids = append(ids, key.id)
	}
	return ids
}

// Has reports whether the keys have one of this id. A token that names none is not asked about.
func (k *Keys) Has(id string) bool {
	return id == "" || slices.ContainsFunc(k.keys, func(key signingKey) bool { return key.id == id })
}

// page is the page's secret of a session that the key of an id signed; "" when there is no such key any more.
func (k *Keys) page(key, session string) Secret {
	for _, of := range k.keys {
		if of.id == key {
			return pageSecret(of.secret, session)
		}
	}
	return ""
}

// Issued is a new token and what is kept of it.
type Issued struct {
	Token string
	ID    string // jti
	Until time.Time
}

// Issue makes a token that is good for ttl.
func (k *Keys) Issue(c Claims, ttl time.Duration) (string, error) {
	got, err := k.IssueWithin(c, ttl, LongestTokenLife)
	return got.Token, err
}

// IssueWithin makes a token that is good for ttl, which may not be longer than most. The claims are checked here and
// again when the token is read, since keys may sign elsewhere.
func (k *Keys) IssueWithin(c Claims, ttl, most time.Duration) (Issued, error) {
	if need := c.needs(); need != "" {
		return Issued{}, fmt.Errorf("auth: a token of type %s needs %s", c.Type, need)
	}
	if c.Type == typeSession || !c.whole() || ttl < time.Second {
		return Issued{}, errors.New("auth: a token needs a type, whom it is for and nothing else, and time to live")
	}
	if most = min(most, LongestTokenLife); ttl > most {
		return Issued{}, fmt.Errorf("auth: a token may live for %s at most, and %s was asked for; --token-max-life raises this to up to %s",
			days(most), days(ttl), days(LongestTokenLife))
	}
	id := newID()
	until := time.Now().Add(ttl)
	token, err := k.sign(c, id, until)
	return Issued{Token: token, ID: id, Until: until.Truncate(time.Second)}, err
}

// days words a span of time.
func days(d time.Duration) string {
	if n := d / (24 * time.Hour); n > 1 && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%d days", n)
	}
	return d.String()
}

// newID is an id of a credential; they sort by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// sign makes the token. The audience names the one place where its type is taken, so that a token of
// one type cannot be used at another even if a check of the type were forgotten.
func (k *Keys) sign(c Claims, id string, until time.Time) (string, error) {
	t := jwt.NewWithClaims(jwt.SigningMethodHS256, wire{Claims: c, RegisteredClaims: jwt.RegisteredClaims{
		Issuer: issuer, Audience: jwt.ClaimStrings{c.Type.audience()}, ID: id,
		IssuedAt: jwt.NewNumericDate(time.Now()), ExpiresAt: jwt.NewNumericDate(until),
	}})
	t.Header["kid"] = k.keys[0].id
	return t.SignedString(k.keys[0].secret)
}

// Verify reads a token of one of the wanted types. Any other is one of the ErrToken….
func (k *Keys) Verify(token string, want ...Type) (Claims, error) {
	got, err := k.read(token, want...)
	if err != nil {
		return Claims{}, err
	}
	return got.Claims, nil
}

// pick is the key that a token's header names. One that names none was signed before tokens had
// a kid, and is tried with each key. Any further member of the header (jwk, jku, x5u, crit) would
// have the token choose how it is checked.
func (k *Keys) pick(t *jwt.Token) (any, error) {
	for name := range t.Header {
		if name != "alg" && name != "typ" && name != "kid" {
			return nil, ErrTokenInvalid
		}
	}
	kid, named := t.Header["kid"]
	if !named {
		all := jwt.VerificationKeySet{}
		for _, key := range k.keys {
			all.Keys = append(all.Keys, key.secret)
		}
		return all, nil
	}
	for _, key := range k.keys {
		if kid == key.id {
			return key.secret, nil
		}
	}
	return nil, ErrTokenInvalid
}

// Time is checked with leeway, form and signature without. Errors carry no part of the token: they
// reach logs and clients.
func (k *Keys) read(token string, want ...Type) (wire, error) {
	if len(token) > tokenBytes || !strictToken(token) {
		return wire{}, ErrTokenInvalid
	}
	var got wire
	parsed, err := jwt.ParseWithClaims(token, &got, k.pick,
		// Exactly this method: a token must not choose how it is checked (alg none, RS256 with
		// a public key as the secret).
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(),
		jwt.WithIssuer(issuer), jwt.WithLeeway(leeway), jwt.WithStrictDecoding())
	switch {
	// The signature is valid, or there would be another error: callers may log the token's owner.
	case errors.Is(err, jwt.ErrTokenExpired):
		return got, ErrTokenExpired
	case err != nil || !slices.ContainsFunc(got.Audience, func(a string) bool { return a != "" }):
		return wire{}, ErrTokenInvalid
	// Type and audience must agree, so that neither can be added to a token alone.
	case !slices.Contains(want, got.Type) || len(got.Bound) > 0 || !slices.Contains(got.Audience, got.Type.audience()):
		return wire{}, ErrTokenType
	case !got.whole():
		return wire{}, ErrTokenInvalid
	}
	got.key, _ = parsed.Header["kid"].(string)
	if got.tooOld(time.Now()) {
		return wire{}, ErrTokenExpired
	}
	if got.ID == "" { // signed by another program with this key: it can be revoked by this id
		sum := sha256.Sum256([]byte(token))
		got.ID = "sha256-" + hex.EncodeToString(sum[:16])
	}
	return got, nil
}

// tooOld reports whether a token has lived for as long as any may, whatever end it names.
func (w wire) tooOld(now time.Time) bool {
	if w.IssuedAt == nil {
		return w.ExpiresAt.After(now.Add(LongestTokenLife + leeway))
	}
	return now.After(w.IssuedAt.Add(LongestTokenLife + leeway))
}

// strictToken reports whether header and payload are each written in the one way there is: base64
// without padding, line ends or spare bits, and a JSON object whose members occur once and in lower
// case. encoding/json takes "Roles" for "roles" and the last of two members; another reader of the
// same token may take the first.
func strictToken(token string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	for i, part := range parts {
		raw, err := base64.RawURLEncoding.Strict().DecodeString(part)
		if err != nil || base64.RawURLEncoding.EncodeToString(raw) != part || i < 2 && !strictObject(raw) {
			return false
		}
	}
	return true
}

// strictObject reports whether raw is an object whose members occur once and in lower case.
func strictObject(raw []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	seen := make(map[string]bool)
	for dec.More() {
		name, err := dec.Token()
		member, ok := name.(string)
		// The claim of a proxy is the only one that has a capital letter.
		if err != nil || !ok || seen[member] || member != strings.ToLower(member) && member != "proxyId" {
			return false
		}
		seen[member] = true
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return false
		}
	}
	if _, err := dec.Token(); err != nil {
		return false
	}
	_, err := dec.Token()
	return errors.Is(err, io.EOF)
}
