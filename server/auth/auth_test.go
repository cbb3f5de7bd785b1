package auth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"aqueduct/server/auth"
	"aqueduct/store"
)

const token = "0123456789abcdef"

func static(t *testing.T) *auth.Auth {
	t.Helper()
	a, err := auth.Static(token + "\n") // as a file has it
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// from makes a request that came in on an address.
func from(ip string, header ...string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(ip), Port: 80}))
}

func TestCaller(t *testing.T) {
	t.Parallel()
	in, err := static(t).SignIn(from("192.0.2.1"), token)
	if err != nil {
		t.Fatal(err)
	}
	cookie, page := in.Cookie, string(in.Page)
	session := cookie.Name + "=" + cookie.Value
	for name, c := range map[string]struct {
		auth *auth.Auth
		req  *http.Request
		kind auth.Kind
		err  error
	}{
		"open, loopback":      {auth.None(), from("127.0.0.1"), auth.KindNone, nil},
		"open, loopback v6":   {auth.None(), from("::1"), auth.KindNone, nil},
		"open, elsewhere":     {auth.None(), from("192.0.2.1"), "", auth.ErrNoCredential},
		"open, nobody knows":  {auth.None(), httptest.NewRequest("GET", "/", nil), "", auth.ErrNoCredential},
		"token":               {static(t), from("192.0.2.1", "Authorization", "Bearer "+token), auth.KindStatic, nil},
		"token, lower case":   {static(t), from("127.0.0.1", "Authorization", "bearer "+token), auth.KindStatic, nil},
		"token, on loopback":  {static(t), from("127.0.0.1"), "", auth.ErrNoCredential},
		"another token":       {static(t), from("127.0.0.1", "Authorization", "Bearer "+token+"0"), "", auth.ErrBadCredential},
		"no token":            {static(t), from("127.0.0.1", "Authorization", "Bearer "), "", auth.ErrBadCredential},
		"another scheme":      {static(t), from("127.0.0.1", "Authorization", "Basic "+token), "", auth.ErrBadCredential},
		"two headers":         {static(t), from("127.0.0.1", "Authorization", "Bearer "+token, "Authorization", "Bearer x"), "", auth.ErrBadCredential},
		"cookie":              {static(t), from("192.0.2.1", "Cookie", session, auth.PageHeader, page), auth.KindStatic, nil},
		"another cookie":      {static(t), from("192.0.2.1", "Cookie", session+"0", auth.PageHeader, page), "", auth.ErrBadCredential},
		"the cookie alone":    {static(t), from("192.0.2.1", "Cookie", session), "", auth.ErrNoPage},
		"another secret":      {static(t), from("192.0.2.1", "Cookie", session, auth.PageHeader, page+"0"), "", auth.ErrBadCredential},
		"the secret twice":    {static(t), from("192.0.2.1", "Cookie", session, auth.PageHeader, page, auth.PageHeader, page), "", auth.ErrBadCredential},
		"the secret alone":    {static(t), from("192.0.2.1", auth.PageHeader, page), "", auth.ErrNoCredential},
		"the token as cookie": {static(t), from("192.0.2.1", "Cookie", cookie.Name+"="+token), "", auth.ErrBadCredential},
		"a bad header beside a good cookie": {static(t), from("192.0.2.1", "Cookie", session, auth.PageHeader, page, "Authorization", "Bearer x"),
			"", auth.ErrBadCredential},
	} {
		got, err := c.auth.Caller(c.req)
		if !errors.Is(err, c.err) || got.Kind != c.kind {
			t.Errorf("%s: %v %v", name, got, err)
		}
		if err != nil && got.Scope() != store.As(store.Principal{}) {
			t.Errorf("%s: refused, but sees something", name)
		}
	}
}

func TestCheckListener(t *testing.T) {
	t.Parallel()
	for addr, open := range map[string]bool{"127.0.0.1": true, "127.3.2.1": true, "::1": true, "0.0.0.0": false, "::": false, "192.0.2.1": false, "::ffff:127.0.0.1": true} {
		at := &net.TCPAddr{IP: net.ParseIP(addr), Port: 80}
		if err := auth.None().CheckListener(at); (err == nil) != open {
			t.Errorf("%s without tokens: %v", addr, err)
		}
		if err := static(t).CheckListener(at); err != nil {
			t.Errorf("%s with a token: %v", addr, err)
		}
	}
}

func TestShortTokensAreRefused(t *testing.T) {
	t.Parallel()
	for _, short := range []auth.Secret{"", "   ", "\n", "secret", auth.Secret(token[:15])} {
		if _, err := auth.Static(short); err == nil {
			t.Errorf("%d characters are enough", len(short))
		}
	}
	if _, err := auth.None().SignIn(from("127.0.0.1"), ""); err == nil {
		t.Error("signed in where nobody has to")
	}
}

// TestSecretStaysSecret, whatever prints it.
func TestSecretStaysSecret(t *testing.T) {
	t.Parallel()
	const secret = auth.Secret("open sesame")
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	log.Info("x", slog.Any("token", secret), slog.Any("in", struct{ Token auth.Secret }{secret}))
	fmt.Fprintf(&out, "%v %s %#v %+v %q", secret, secret, secret, struct{ T auth.Secret }{secret}, secret)
	if err := json.NewEncoder(&out).Encode(map[string]auth.Secret{"token": secret}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "sesame") {
		t.Errorf("%s", out.String())
	}
}

// TestCallerTravels with the context; without one no rows are seen.
func TestCallerTravels(t *testing.T) {
	t.Parallel()
	c := auth.Caller{Kind: auth.KindStatic, Principal: store.Principal{Tenant: "t", User: "u"}}
	if got := auth.From(auth.With(t.Context(), c)); got.Scope() != store.As(c.Principal) {
		t.Errorf("%v", got)
	}
	if got := auth.From(t.Context()); got.Scope().All() || got.Scope().User() != "" {
		t.Errorf("%v", got)
	}
}
