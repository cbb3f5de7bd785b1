// This file encrypts originals, and makes the hashes that bind decisions to arguments. Both keys come from the lines
// of one file.

package redact

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"aqueduct/internal/secretfile"
)

// Vault encrypts texts that must be had again: originals of what is kept masked, and credentials. It seals them with AES-256-GCM. It is safe for concurrent use.
type Vault struct {
	// A new key seals; older ones stay in the file to unseal what was sealed before.
	newest string                 // the kid that seals
	keys   map[string]cipher.AEAD // by kid
	// Of the oldest key: a decision that is bound by a hash must stay valid when a new key is put in front.
	hash []byte // for hashes that must not be guessed from
	mac  []byte // for texts that a client brings back
}

// ErrSealed: a text cannot be unsealed, because its key is not in the key file or because it was changed.
var ErrSealed = errors.New("what is sealed cannot be opened with the keys of the key file")

// AES-256 takes 32 bytes.
const keyBytes = 32

// SealedOverhead is how many bytes Seal adds to a text: the nonce, and GCM's tag.
const SealedOverhead = 12 + 16

// OpenKeyFile reads the keys of a file, or makes the file with one when there is none. A line is "kid base64": the first
// seals, all unseal, and the last one's hashes bind decisions, so that a new key is put in front of the old ones. The
// file must be its owner's alone.
func OpenKeyFile(path string) (*Vault, error) {
	lines, err := secretfile.ReadOrMake(path, NewKeyLine)
	if err != nil {
		return nil, err
	}
	v, err := NewVault(lines)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// NewKeyLine is a line of a key file with a new key.
func NewKeyLine() string {
	var b [4 + keyBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return "k" + hex.EncodeToString(b[:4]) + " " + base64.StdEncoding.EncodeToString(b[4:]) + "\n"
}

// NewVault takes the lines of a key file.
func NewVault(lines string) (*Vault, error) {
	v := &Vault{keys: make(map[string]cipher.AEAD)}
	for line := range strings.Lines(lines) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 2 {
			return nil, errors.New("a line is no kid and key")
		}
		key, err := base64.StdEncoding.Strict().DecodeString(fields[1])
		if err != nil || len(key) != keyBytes {
			return nil, fmt.Errorf("the key of %q is not %d bytes in base64", fields[0], keyBytes)
		}
		if v.keys[fields[0]] != nil {
			return nil, fmt.Errorf("the kid %q is there twice", fields[0])
		}
		if v.newest == "" {
			v.newest = fields[0]
		}
		// Three keys are derived from each line, so that the hashes, which are shown, say nothing about the key that seals.
		seal, err := hkdf.Key(sha256.New, key, nil, "aqueduct sealed originals 1", keyBytes)
		if err == nil {
			v.hash, err = hkdf.Key(sha256.New, key, nil, "aqueduct argument hashes 1", keyBytes)
		}
		if err == nil {
			v.mac, err = hkdf.Key(sha256.New, key, nil, "aqueduct texts of clients 1", keyBytes)
		}
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(seal)
		if err != nil {
			return nil, err
		}
		// A nonce is random and stands before the ciphertext. With 96 bits one key is good for 2^32 originals.
		if v.keys[fields[0]], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, err
		}
	}
	if v.newest == "" {
		return nil, errors.New("there is no key in it")
	}
	return v, nil
}

// Seal encrypts a text, bound to what it belongs to.
func (v *Vault) Seal(ref string, original []byte) (kid string, data []byte) {
	return v.newest, v.keys[v.newest].Seal(nil, nil, original, []byte(ref))
}

// Open is the text that Seal encrypted. The ref is authenticated with the text, so one that was moved to another row in
// the database does not open.
func (v *Vault) Open(ref, kid string, data []byte) ([]byte, error) {
	key := v.keys[kid]
	if key == nil {
		return nil, fmt.Errorf("%w: there is no key %q", ErrSealed, kid)
	}
	original, err := key.Open(nil, nil, data, []byte(ref))
	if err != nil {
		return nil, ErrSealed
	}
	return original, nil
}

// Hasher gives the hashes that bind arguments to what is decided about them.
// Sum binds an approval to its arguments: what runs must have the sum that was decided about.
type Hasher struct {
	Filter *Filter
	Vault  *Vault
}

// Sum is the SHA-256 of arguments, in hexadecimal, where nothing of them is masked. Else it is an HMAC of the original: a
// plain hash beside the masked text would let a short secret be guessed.
func (h Hasher) Sum(args []byte) string {
	if h.Vault == nil || same(args, h.Filter.JSON(args)) {
		sum := sha256.Sum256(args)
		return hex.EncodeToString(sum[:])
	}
	return h.keyed(args)
}

// Matches reports whether sum binds args. Either form will do: the patterns may have changed since it was made.
func (h Hasher) Matches(args []byte, sum string) bool {
	plain := sha256.Sum256(args)
	return hmac.Equal([]byte(sum), []byte(hex.EncodeToString(plain[:]))) ||
		h.Vault != nil && hmac.Equal([]byte(sum), []byte(h.keyed(args)))
}

// keyed is the HMAC of arguments.
func (h Hasher) keyed(args []byte) string {
	mac := hmac.New(sha256.New, h.Vault.hash)
	mac.Write(args)
	return hex.EncodeToString(mac.Sum(nil))
}

// macBytes is the length of a MAC: 128 bits cannot be guessed, and leave an id short.
const macBytes = 16

// MAC authenticates a text that a client brings back, for one use. Without a Vault its key is empty: only tests have none.
func (h Hasher) MAC(use, text string) string {
	var key []byte
	if h.Vault != nil {
		key = h.Vault.mac
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(use + "\x00" + text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:macBytes])
}

// VerifyMAC reports whether mac is that of the text.
func (h Hasher) VerifyMAC(use, text, mac string) bool {
	return hmac.Equal([]byte(h.MAC(use, text)), []byte(mac))
}
