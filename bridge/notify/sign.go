package notify

import (
	"time"

	"aqueduct/bridge/signed"
)

// The signature is bridge/signed's. It stands here under this package's name, because the contract of a webhook is this
// package's: what is sent has it, and receivers of ours (channels) check theirs by the same functions.

// Secret signs deliveries. It does not print itself.
type Secret = signed.Secret

// HeaderSignature is the header of a delivery's signature.
const HeaderSignature = signed.HeaderSignature

// ErrSignature: not signed by who knows the secret, or too long ago.
var ErrSignature = signed.ErrSignature

// Sign is the signature of a body, in the form of all that is sent signed.
func Sign(secret Secret, body []byte, at time.Time) string { return signed.Sign(secret, body, at) }

// Verify checks a signature no older, or newer, than tolerance.
func Verify(secret Secret, header string, body []byte, now time.Time, tolerance time.Duration) error {
	return signed.Verify(secret, header, body, now, tolerance)
}

// Timely checks what can be checked of a signature before the body has been read.
func Timely(header string, now time.Time, tolerance time.Duration) error {
	return signed.Timely(header, now, tolerance)
}
