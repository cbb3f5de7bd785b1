package proxy

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRegisterURLGivesAToken(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ ProxyID, Name string }
		err := json.NewDecoder(r.Body).Decode(&body)
		if err != nil || body.ProxyID != "p1" || r.Header.Get("x-acp-proxy-bootstrap") != "boot" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"success":false,"error":{"code":"UNAUTHORIZED","message":"no"}}`))
			return
		}
		_, _ = w.Write([]byte(`{"success":true,"data":{"token":"secret"}}`))
	}))
	t.Cleanup(srv.Close)
	if token, err := (&Enrolment{URL: srv.URL, Bootstrap: "boot", ID: "p1", Name: "P"}).Token(context.Background()); err != nil || token != "secret" {
		t.Errorf("%q %v", token, err)
	}
	if _, err := (&Enrolment{URL: srv.URL, Bootstrap: "wrong", ID: "p1", Name: "P"}).Token(context.Background()); err == nil || !strings.Contains(err.Error(), "UNAUTHORIZED") {
		t.Error(err)
	}
}

func TestTheTokenFileIsReadAtEachLink(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	read := FileToken(path)
	for _, text := range []string{"one\n", "two"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if token, err := read(context.Background()); err != nil || token != strings.TrimSpace(text) {
			t.Errorf("%q %v", token, err)
		}
	}
}

func TestATokenInTheAddressIsRefused(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"ws://h/ws/agent?token=x", "ws://u:x@h/", "http://h/", "h"} {
		if _, err := New(Config{URL: url, ID: "p", Command: []string{"a"}, Token: FileToken("f")}); err == nil {
			t.Errorf("%s was taken", url)
		}
	}
}
