// Package signed signs what is sent to others: webhooks, calls of tools, calls of HTTP agents. One form for all, so that
// one verifier serves them.
package signed

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The headers of a signed request.
const (
	HeaderSignature = "X-Aqueduct-Signature"
	// HeaderSHA256 is the hash of the body, byte for byte.
	HeaderSHA256 = "X-Aqueduct-Content-SHA256"
	// HeaderApproval is the Approval that let a call of a tool through. The body has it too, under the signature.
	HeaderApproval = "X-Aqueduct-Approval-Id"
)

// Secret signs. It does not print itself.
type Secret string

// MinSecret keeps out what can be found by trying.
const MinSecret = 16

// String implements fmt.Stringer.
func (Secret) String() string { return "[secret]" }

// GoString implements fmt.GoStringer.
func (Secret) GoString() string { return "[secret]" }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue("[secret]") }

// Set signs a request with the body. Without a secret it sets nothing.
func Set(h http.Header, secret Secret, body []byte, at time.Time) {
	if secret == "" {
		return
	}
	sum := sha256.Sum256(body)
	h.Set(HeaderSHA256, hex.EncodeToString(sum[:]))
	h.Set(HeaderSignature, Sign(secret, body, at))
}

// Sign is the signature of a body: t=<Unix seconds>,v1=<hex HMAC-SHA256 of "t.body">. The
// time is signed along, so that a delivery overheard cannot be sent again later.
func Sign(secret Secret, body []byte, at time.Time) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + signature(secret, t, body)
}

func signature(secret Secret, t string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s.", t)
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// ErrSignature: not signed by who knows the secret, or too long ago.
var ErrSignature = errors.New("signed: bad signature")

// Verify checks a signature no older, or newer, than tolerance. It is for those who are
// called, and for webhooks that come to us signed in the same way.
func Verify(secret Secret, header string, body []byte, now time.Time, tolerance time.Duration) error {
	t, given := parse(header)
	if !timely(t, given, now, tolerance) {
		return ErrSignature
	}
	want := []byte(signature(secret, t, body))
	for _, g := range given {
		if hmac.Equal([]byte(g), want) {
			return nil
		}
	}
	return ErrSignature
}

// Timely checks what can be checked of a signature before the body has been read: its form and
// its time. A body that Verify would refuse anyway need not be read then.
func Timely(header string, now time.Time, tolerance time.Duration) error {
	if t, given := parse(header); !timely(t, given, now, tolerance) {
		return ErrSignature
	}
	return nil
}

func parse(header string) (t string, given []string) {
	for part := range strings.SplitSeq(header, ",") {
		switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); name {
		case "t":
			t = value
		case "v1":
			given = append(given, value)
		}
	}
	return t, given
}

func timely(t string, given []string, now time.Time, tolerance time.Duration) bool {
	at, err := strconv.ParseInt(t, 10, 64)
	return err == nil && now.Sub(time.Unix(at, 0)).Abs() <= tolerance &&
		slices.ContainsFunc(given, func(g string) bool { return len(g) == 2*sha256.Size })
}
