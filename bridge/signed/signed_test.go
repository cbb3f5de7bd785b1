package signed

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"
)

const secret Secret = "0123456789abcdef"

// If this fails, receivers of webhooks that verify by the documented form refuse every delivery. The value was computed
// with: printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac 0123456789abcdef
func TestSignIsTheDocumentedForm(t *testing.T) {
	t.Parallel()
	const want = "t=1700000000,v1=9eb18f493f8ec135d9eb2dad817c369bb4e9cbfa818657897a7437c1cd8c3a23"
	if got := Sign(secret, []byte(`{"a":1}`), time.Unix(1700000000, 999)); got != want {
		t.Errorf("the signature is %s, want %s", got, want)
	}
}

// If this fails, a request that was changed, replayed, or signed by a stranger is taken, or a good one is refused.
func TestVerify(t *testing.T) {
	t.Parallel()
	body, at, tolerance := []byte(`{"a":1}`), time.Unix(1700000000, 0), 5*time.Minute
	good := Sign(secret, body, at)
	v1 := strings.TrimPrefix(good, "t=1700000000,")
	other := strings.TrimPrefix(Sign("another secret of length", body, at), "t=1700000000,")
	for name, c := range map[string]struct {
		header string
		body   string
		now    time.Time
		want   bool
		timely bool
	}{
		"good":                        {good, `{"a":1}`, at, true, true},
		"at the bound":                {good, `{"a":1}`, at.Add(tolerance), true, true},
		"of a clock that is ahead":    {good, `{"a":1}`, at.Add(-tolerance), true, true},
		"too old":                     {good, `{"a":1}`, at.Add(tolerance + time.Second), false, false},
		"too far ahead":               {good, `{"a":1}`, at.Add(-tolerance - time.Second), false, false},
		"another body":                {good, `{"a":2}`, at, false, true},
		"another time in it":          {"t=1700000001," + v1, `{"a":1}`, at, false, true},
		"of another secret":           {"t=1700000000," + other, `{"a":1}`, at, false, true},
		"two secrets during a change": {"t=1700000000," + other + "," + v1, `{"a":1}`, at, true, true},
		"spaces between":              {"t=1700000000, " + v1, `{"a":1}`, at, true, true},
		"a newer scheme beside it":    {good + ",v2=zz", `{"a":1}`, at, true, true},
		"upper case":                  {"t=1700000000,v1=" + strings.ToUpper(v1[3:]), `{"a":1}`, at, false, true},
		"too short":                   {good[:len(good)-1], `{"a":1}`, at, false, false},
		"no signature":                {"t=1700000000", `{"a":1}`, at, false, false},
		"no time":                     {v1, `{"a":1}`, at, false, false},
		"a time that is no number":    {"t=now," + v1, `{"a":1}`, at, false, false},
		"nothing":                     {"", `{"a":1}`, at, false, false},
		"a time that no clock has":    {"t=9223372036854775807," + v1, `{"a":1}`, at, false, false},
	} {
		if err := Verify(secret, c.header, []byte(c.body), c.now, tolerance); (err == nil) != c.want || err != nil && !errors.Is(err, ErrSignature) {
			t.Errorf("%s: Verify gives %v", name, err)
		}
		if err := Timely(c.header, c.now, tolerance); (err == nil) != c.timely || err != nil && !errors.Is(err, ErrSignature) {
			t.Errorf("%s: Timely gives %v", name, err)
		}
	}
}

// If this fails, a request goes out unsigned although a secret is set, or a receiver cannot check the body it got.
func TestSet(t *testing.T) {
	t.Parallel()
	h, at := http.Header{}, time.Unix(1700000000, 0)
	Set(h, "", []byte("x"), at)
	if len(h) != 0 {
		t.Errorf("without a secret the request has %v", h)
	}
	Set(h, secret, []byte("x"), at)
	if got := h.Get(HeaderSHA256); got != "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881" {
		t.Errorf("the hash of the body is %q", got)
	}
	if err := Verify(secret, h.Get(HeaderSignature), []byte("x"), at, 0); err != nil {
		t.Error(err)
	}
}

// If this fails, a secret stands in the log as soon as a configuration is printed.
func TestASecretDoesNotPrintItself(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("configured", "secret", secret, "in", struct{ S Secret }{secret})
	for _, text := range []string{log.String(), fmt.Sprint(secret), fmt.Sprintf("%v %+v %#v %s %q", secret, struct{ S Secret }{secret}, struct{ S Secret }{secret}, secret, secret)} {
		if strings.Contains(text, string(secret)) || !strings.Contains(text, "[secret]") {
			t.Errorf("printed is %s", text)
		}
	}
}
