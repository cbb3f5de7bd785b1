// Package decide serves /decide/{token}: one decision by a signed link, without signing in. A link is a narrow
// credential: one approver, one Question with exactly these arguments, one use, until it expires.
package decide

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"aqueduct/bridge/notify"
	"aqueduct/store"
)

var (
	// ErrInvalid is returned for a token that no key of this server signed.
	ErrInvalid = errors.New("link: invalid")
	// ErrExpired is returned for a link that is too old.
	ErrExpired = errors.New("link: expired")
)

// Claims are the signed content of a link. The members have one letter each because a link has to fit into a mail.
// The text is not encrypted: it holds ids and a hash, and no argument.
type Claims struct {
	ApprovalID string `json:"a"`
	Tenant     string `json:"t"`
	User       string `json:"u"` // the approver
	ArgsSHA256 string `json:"h"` // of the arguments that were in the notification
	Expires    int64  `json:"e"` // Unix seconds
	Nonce      string `json:"n"` // names the link
}

// Approver is who may decide by the link. Its roles are not in the link: they may change.
func (c Claims) Approver() store.Principal { return store.Principal{Tenant: c.Tenant, User: c.User} }

// ExpiresAt is when the link ends.
func (c Claims) ExpiresAt() time.Time { return time.Unix(c.Expires, 0).UTC() }

// Signer makes and reads links. Replicas share its key, or one could not read the other's. It does not change after
// NewSigner.
type Signer struct {
	token, nonce, page []byte
	before             []*Signer // of older secrets, which read and do not sign
}

// minKey is the least a key must have: as many bytes as the hash that uses it.
const minKey = sha256.Size

// NewSigner derives a key for each use from one secret. Links that the older secrets signed are read too: a secret
// that is rotated takes no link away that is under way. The three keys are apart, so that a token can never pass for
// the nonce of a page or the other way round.
func NewSigner(secret []byte, older ...[]byte) (*Signer, error) {
	if len(secret) < minKey {
		return nil, fmt.Errorf("link: the key must have at least %d bytes", minKey)
	}
	var s Signer
	for info, key := range map[string]*[]byte{
		"aqueduct decision link": &s.token, "aqueduct decision nonce": &s.nonce, "aqueduct decision page": &s.page,
	} {
		derived, err := hkdf.Key(sha256.New, secret, nil, info, sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("link: %w", err)
		}
		*key = derived
	}
	for _, old := range older {
		before, err := NewSigner(old)
		if err != nil {
			return nil, err
		}
		s.before = append(s.before, before)
	}
	return &s, nil
}

// Nonce names the link that goes out with something: the same each time it is sent, so
// that sending again makes no second link.
func (s *Signer) Nonce(sentWith string) string { return encode(sum(s.nonce, sentWith))[:22] }

// Token is the link's text: the last segment of its path.
func (s *Signer) Token(c Claims) string {
	raw, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings and a number
	}
	body := encode(raw)
	return body + "." + encode(sum(s.token, body))
}

// ForNotice returns the token of the link that goes out with a notification. Every try of one delivery carries the same
// link.
func (s *Signer) ForNotice(l notify.Link) string {
	return s.Token(Claims{
		ApprovalID: l.ApprovalID, Tenant: l.Tenant, User: l.User, ArgsSHA256: l.ArgsSHA256, Expires: l.ExpiresAt.Unix(), Nonce: s.Nonce(l.RowID),
	})
}

// maxToken bounds what is looked at.
const maxToken = 2048

// Read takes a link's claims. ErrExpired comes with them. The signature is checked before anything in the token is
// parsed.
func (s *Signer) Read(token string, now time.Time) (Claims, error) {
	body, mac, ok := strings.Cut(token, ".")
	if !ok || len(token) > maxToken || !s.signed(body, mac) {
		return Claims{}, ErrInvalid
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(body)
	var c Claims
	if err != nil || json.Unmarshal(raw, &c) != nil || c.ApprovalID == "" || c.Tenant == "" || c.User == "" || c.Nonce == "" {
		return Claims{}, ErrInvalid
	}
	if !now.Before(c.ExpiresAt()) {
		return c, ErrExpired
	}
	return c, nil
}

// signed reports whether a link's body was signed with the secret or an older one.
func (s *Signer) signed(body, mac string) bool {
	return equal(mac, encode(sum(s.token, body))) || slices.ContainsFunc(s.before, func(old *Signer) bool { return old.signed(body, mac) })
}

// pageLife is how long a page that was shown may be used. The nonce has no record of its own, so its age is all that
// ends it.
const pageLife = time.Hour

// Page is a nonce that only the link's page holds: who posts it was shown the arguments.
func (s *Signer) Page(c Claims, now time.Time) string {
	at := strconv.FormatInt(now.Unix(), 10)
	return at + "." + encode(sum(s.page, c.Nonce, c.ArgsSHA256, at))
}

// ReadPage reports whether a nonce is of this link's page, and recent.
func (s *Signer) ReadPage(c Claims, nonce string, now time.Time) bool {
	at, mac, ok := strings.Cut(nonce, ".")
	shown, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil || !equal(mac, encode(sum(s.page, c.Nonce, c.ArgsSHA256, at))) {
		return false
	}
	age := now.Sub(time.Unix(shown, 0))
	return age < pageLife && age > -pageLife
}

// sum signs parts, none of which may contain the NUL between them. Otherwise two lists of parts could have one
// signature.
func sum(key []byte, parts ...string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join(parts, "\x00")))
	return mac.Sum(nil)
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func equal(a, b string) bool { return hmac.Equal([]byte(a), []byte(b)) }
