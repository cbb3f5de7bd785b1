package auth_test

import (
	"bytes"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"aqueduct/server/auth"
)

func encoded(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// forge signs a header and claims as they are written, whatever they are.
func forge(key auth.Secret, header, payload string) string {
	body := encoded(header) + "." + encoded(payload)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(body))
	return body + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// TestS03ForgedTokens: the ways to have a token choose how it is checked, or to be read in two ways. None is taken, and what a
// token names as its key is neither read from a file nor fetched.
func TestS03ForgedTokens(t *testing.T) {
	t.Parallel()
	var fetched atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fetched.Add(1) }))
	t.Cleanup(elsewhere.Close)
	keyFile := filepath.Join(t.TempDir(), "known.key")
	if err := os.WriteFile(keyFile, []byte("known to the attacker, 32 bytes.."), 0o600); err != nil {
		t.Fatal(err)
	}
	const known = "known to the attacker, 32 bytes.."
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	rs256 := encoded(`{"alg":"RS256","typ":"JWT"}`) + "." + encoded("{}")
	digest := sha256.Sum256([]byte(rs256))
	signature, err := rsa.SignPKCS1v15(rand.Reader, private, crypto.SHA256, digest[:])
	if err != nil {
		t.Fatal(err)
	}

	exp, past := time.Now().Add(time.Hour).Unix(), time.Now().Add(-time.Hour).Unix()
	claims := func(rest string) string {
		return fmt.Sprintf(`{"type":"user","tenant":"acme","user":"ada","iss":"aqueduct","aud":"aqueduct/api","exp":%d%s}`, exp, rest)
	}
	const plain = `{"alg":"HS256","typ":"JWT"}`
	header := func(rest string) string { return `{"alg":"HS256","typ":"JWT",` + rest + `}` }
	good := forge(signingKey, plain, claims(""))
	a := static(t).WithKeys(keys(t))
	if c, err := a.Caller(from("192.0.2.1", bearer(good)...)); err != nil || c.Credential.ID == "" {
		t.Fatalf("a good one without kid and jti: %+v %v", c, err)
	}
	other := forge(auth.Secret(strings.Repeat("o", 32)), plain, claims(""))
	last := good[len(good)-1]
	swapped := strings.NewReplacer("A", "B", "E", "F", "I", "J", "M", "N", "Q", "R", "U", "V", "Y", "Z", "c", "d", "g", "h", "k", "l", "o", "p", "s", "t", "w", "x", "0", "1", "4", "5", "8", "9").Replace(string(last))
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"alg none":                   encoded(`{"alg":"none","typ":"JWT"}`) + "." + encoded(claims("")) + ".",
		"alg none, spelt":            encoded(`{"alg":"nOnE","typ":"JWT"}`) + "." + encoded(claims("")) + ".",
		"alg none, signed":           forge(signingKey, `{"alg":"none"}`, claims("")),
		"RS256":                      rs256 + "." + base64.RawURLEncoding.EncodeToString(signature),
		"HS256 with a public key":    forge(auth.Secret(public), plain, claims("")),
		"HS512 in the header":        forge(signingKey, `{"alg":"HS512","typ":"JWT"}`, claims("")),
		"another key":                other,
		"an empty key":               forge("", plain, claims("")),
		"another issuer":             forge(signingKey, plain, strings.Replace(claims(""), `"iss":"aqueduct"`, `"iss":"elsewhere"`, 1)),
		"no issuer":                  forge(signingKey, plain, strings.Replace(claims(""), `"iss":"aqueduct",`, "", 1)),
		"another audience":           forge(signingKey, plain, strings.Replace(claims(""), "aqueduct/api", "aqueduct/ws/agent", 1)),
		"no audience":                forge(signingKey, plain, strings.Replace(claims(""), `"aud":"aqueduct/api",`, "", 1)),
		"no end":                     forge(signingKey, plain, strings.Replace(claims(""), fmt.Sprintf(`,"exp":%d`, exp), "", 1)),
		"over":                       forge(signingKey, plain, strings.Replace(claims(""), fmt.Sprint(exp), fmt.Sprint(past), 1)),
		"for more than a year":       forge(signingKey, plain, strings.Replace(claims(""), fmt.Sprint(exp), fmt.Sprint(time.Now().Add(400*24*time.Hour).Unix()), 1)),
		"older than a year":          forge(signingKey, plain, claims(fmt.Sprintf(`,"iat":%d`, time.Now().Add(-366*24*time.Hour).Unix()))),
		"kid of a parent folder":     forge(signingKey, header(`"kid":"../../../../dev/null"`), claims("")),
		"kid of nothing":             forge("", header(`"kid":"/dev/null"`), claims("")),
		"kid of a known file":        forge(known, header(fmt.Sprintf(`"kid":%q`, keyFile)), claims("")),
		"kid of a known file, URL":   forge(known, header(fmt.Sprintf(`"kid":"file://%s"`, keyFile)), claims("")),
		"kid with SQL":               forge(signingKey, header(`"kid":"' OR 1=1 --"`), claims("")),
		"kid is a number":            forge(signingKey, header(`"kid":0`), claims("")),
		"kid is a list":              forge(signingKey, header(`"kid":["x"]`), claims("")),
		"kid is null":                forge(signingKey, header(`"kid":null`), claims("")),
		"kid is empty":               forge(signingKey, header(`"kid":""`), claims("")),
		"jwk":                        forge(known, header(`"jwk":{"kty":"oct","k":"`+encoded(known)+`"}`), claims("")),
		"jku":                        forge(known, header(fmt.Sprintf(`"jku":%q`, elsewhere.URL)), claims("")),
		"x5u":                        forge(known, header(fmt.Sprintf(`"x5u":%q`, elsewhere.URL)), claims("")),
		"jku with our signature":     forge(signingKey, header(fmt.Sprintf(`"jku":%q`, elsewhere.URL)), claims("")),
		"crit":                       forge(signingKey, header(`"crit":["exp"]`), claims("")),
		"b64 false":                  forge(signingKey, header(`"b64":false`), claims("")),
		"alg twice":                  forge(signingKey, `{"alg":"HS256","alg":"none"}`, claims("")),
		"alg in capitals":            forge(signingKey, `{"alg":"HS256","ALG":"none"}`, claims("")),
		"roles twice":                forge(signingKey, plain, claims(`,"roles":[],"roles":["admin"]`)),
		"the user in capitals":       forge(signingKey, plain, claims(`,"User":"root"`)),
		"something behind":           forge(signingKey, plain, claims("")+"{}"),
		"a list":                     forge(signingKey, plain, "["+claims("")+"]"),
		"no JSON":                    forge(signingKey, plain, "x"),
		"padding":                    good + "=",
		"padding in the middle":      parts[0] + "=." + parts[1] + "." + parts[2],
		"spare bits":                 good[:len(good)-1] + swapped,
		"a line end":                 good[:20] + "\n" + good[20:],
		"a line end in the payload":  parts[0] + "." + parts[1][:8] + "\r\n" + parts[1][8:] + "." + parts[2],
		"standard base64":            parts[0] + "." + parts[1] + "." + strings.NewReplacer("-", "+", "_", "/").Replace(parts[2]) + "+",
		"four parts":                 good + "." + parts[2],
		"no signature":               parts[0] + "." + parts[1] + ".",
		"a mebibyte":                 forge(signingKey, plain, claims(`,"sub":"`+strings.Repeat("x", 1<<20)+`"`)),
		"a mebibyte of a header":     forge(signingKey, header(`"kid":"`+strings.Repeat("x", 1<<20)+`"`), claims("")),
		"a mebibyte of nothing":      strings.Repeat("x", 1<<20),
		"the role operator":          forge(signingKey, plain, claims(`,"roles":["operator"]`)),
		"a service account's name":   forge(signingKey, plain, strings.Replace(claims(""), `"ada"`, `"service:ci"`, 1)),
		"who opened a session":       forge(signingKey, plain, claims(`,"opened_by":"x"`)),
		"an operator with a tenant":  forge(signingKey, plain, strings.NewReplacer(`"user",`, `"operator",`, "aqueduct/api", "aqueduct/operator").Replace(claims(""))),
		"an operator with our roles": forge(signingKey, plain, strings.NewReplacer(`"type":"user","tenant":"acme"`, `"type":"operator"`, "aqueduct/api", "aqueduct/operator").Replace(claims(`,"roles":["admin"]`))),
	} {
		for _, r := range []*http.Request{from("192.0.2.1", bearer(token)...), from("192.0.2.1", "Cookie", "aqueduct_session="+strings.NewReplacer("\n", "", "\r", "").Replace(token))} {
			if name == "a line end" && r.Header.Get("Cookie") != "" {
				continue // what a cookie cannot hold
			}
			if c, err := a.Caller(r, auth.KindApprover, auth.KindChannel); !errors.Is(err, auth.ErrBadCredential) || c.Kind != "" {
				t.Errorf("%s: %+v %v", name, c, err)
			}
		}
	}
	if fetched.Load() != 0 {
		t.Errorf("%d keys were fetched", fetched.Load())
	}
}

// TestKeyRotation: the new key signs, the one before verifies, by kid, and no longer when it is retired; tokens without a kid
// are tried with both.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "signing.key")
	load := func() *auth.Keys {
		t.Helper()
		all, err := auth.LoadKeys(path)
		if err != nil {
			t.Fatal(err)
		}
		k, err := auth.NewKeys(all[0], all[1:]...)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	issue := func(k *auth.Keys) (token, kid string) {
		t.Helper()
		token, err := k.Issue(claims()[auth.TypeUser], time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])
		var header struct{ Kid string }
		if err := errors.Join(err, json.Unmarshal(raw, &header)); err != nil || header.Kid == "" {
			t.Fatalf("%s %v", raw, err)
		}
		return token, header.Kid
	}
	first := load()
	one, kid := issue(first)
	secret, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	unnamed := forge(auth.Secret(strings.TrimSpace(string(secret))), `{"alg":"HS256"}`, fmt.Sprintf(
		`{"type":"user","tenant":"acme","user":"ada","iss":"aqueduct","aud":"aqueduct/api","exp":%d}`, time.Now().Add(time.Hour).Unix()))
	good := func(step string, k *auth.Keys, want map[string]bool) {
		t.Helper()
		for token, ok := range want {
			if _, err := k.Verify(token, auth.TypeUser); (err == nil) != ok {
				t.Errorf("%s: %v", step, err)
			}
		}
	}
	rotate := func(retire bool, keys int) {
		t.Helper()
		ids, err := auth.RotateKey(path, retire)
		info, serr := os.Stat(path)
		if err := errors.Join(err, serr); err != nil || len(ids) != keys || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v %v", ids, err)
		}
	}
	rotate(false, 2)
	two, next := issue(load())
	if next == kid {
		t.Error("the old key signs")
	}
	good("before", first, map[string]bool{one: true, two: false, unnamed: true})
	good("rotated", load(), map[string]bool{one: true, two: true, unnamed: true})
	rotate(true, 1)
	good("retired", load(), map[string]bool{one: false, two: true, unnamed: false})
	rotate(false, 2)
	rotate(false, 2)
	good("rotated twice", load(), map[string]bool{two: false})
	if err := os.WriteFile(path, bytes.Repeat([]byte(strings.Repeat("k", 32)+"\n"), 3), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.LoadKeys(path); err == nil || strings.Contains(err.Error(), "kkk") {
		t.Errorf("three keys: %v", err)
	}
}

// TestTokenLife: 90 days unless a setting allows more, a year at most, and the refusal names the limit.
func TestTokenLife(t *testing.T) {
	t.Parallel()
	k, c := keys(t), claims()[auth.TypeUser]
	const day = 24 * time.Hour
	for name, is := range map[string]struct {
		ttl, most time.Duration
		ok        bool
		says      string
	}{
		"as long as may be": {90 * day, auth.MaxTokenLife, true, ""},
		"longer":            {91 * day, auth.MaxTokenLife, false, "90 days at most"},
		"by a setting":      {365 * day, 365 * day, true, ""},
		"past a year":       {366 * day, 1000 * day, false, "365 days at most"},
	} {
		got, err := k.IssueWithin(c, is.ttl, is.most)
		if (err == nil) != is.ok || err != nil && !strings.Contains(err.Error(), is.says) || is.ok && (got.ID == "" || got.Token == "") {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}
