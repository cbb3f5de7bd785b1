package decide_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"aqueduct/server/decide"
	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Unix(1_800_000_000, 0)

func signer(t *testing.T, key string) *decide.Signer {
	t.Helper()
	s, err := decide.NewSigner([]byte(strings.Repeat(key, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func claims() decide.Claims {
	return decide.Claims{ApprovalID: "a1", Tenant: "t", User: "ada", ArgsSHA256: "ff", Expires: now.Unix() + 60, Nonce: "n1"}
}

// TestToken: what was signed is read, and nothing else.
func TestToken(t *testing.T) {
	t.Parallel()
	s, c := signer(t, "k"), claims()
	token := s.Token(c)
	if got, err := s.Read(token, now); err != nil || got != c {
		t.Fatalf("%+v, %v", got, err)
	}
	for i := range token {
		for _, other := range []byte("Ax.") {
			forged := []byte(token)
			if forged[i] == other {
				continue
			}
			forged[i] = other
			if _, err := s.Read(string(forged), now); !errors.Is(err, decide.ErrInvalid) {
				t.Fatalf("byte %d as %c: %v", i, other, err)
			}
		}
	}
	body, mac, _ := strings.Cut(token, ".")
	raw, _ := base64.RawURLEncoding.DecodeString(body)
	eve := base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(raw), "ada", "eve", 1)))
	for _, bad := range []string{"", ".", body, body + ".", "." + mac, eve + "." + mac, token + "=", token + ".", " " + token, strings.Repeat("x", 1<<20)} {
		if _, err := s.Read(bad, now); !errors.Is(err, decide.ErrInvalid) {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
	if _, err := signer(t, "o").Read(token, now); !errors.Is(err, decide.ErrInvalid) {
		t.Errorf("another key: %v", err)
	}
	if got, err := s.Read(token, c.ExpiresAt()); !errors.Is(err, decide.ErrExpired) || got != c {
		t.Errorf("at its end: %v", err)
	}
	for _, less := range []decide.Claims{{}, {ApprovalID: "a", Tenant: "t", Nonce: "n"}, {ApprovalID: "a", User: "u", Nonce: "n"}, {Tenant: "t", User: "u", ApprovalID: "a"}} {
		less.Expires = now.Unix() + 9
		if _, err := s.Read(s.Token(less), now); !errors.Is(err, decide.ErrInvalid) {
			t.Errorf("%+v: %v", less, err)
		}
	}
	rotated, err := decide.NewSigner([]byte(strings.Repeat("o", 32)), []byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := rotated.Read(token, now); err != nil || got != c {
		t.Errorf("a link of before a rotation: %v", err)
	}
	if _, err := s.Read(rotated.Token(c), now); !errors.Is(err, decide.ErrInvalid) {
		t.Errorf("the older key signs: %v", err)
	}
	if _, err := decide.NewSigner(make([]byte, 31)); err == nil {
		t.Error("a short key is taken")
	}
}

// TestPage: the page's nonce is of one link, these arguments, and some time.
func TestPage(t *testing.T) {
	t.Parallel()
	s, c := signer(t, "k"), claims()
	page := s.Page(c, now)
	swapped, other := c, c
	swapped.ArgsSHA256, other.Nonce = "00", "n2"
	for name, ok := range map[string]bool{
		"it": s.ReadPage(c, page, now.Add(59*time.Minute)), "old": !s.ReadPage(c, page, now.Add(time.Hour)),
		"early": !s.ReadPage(c, page, now.Add(-2*time.Hour)), "arguments": !s.ReadPage(swapped, page, now),
		"another link": !s.ReadPage(other, page, now), "empty": !s.ReadPage(c, "", now), "dot": !s.ReadPage(c, ".", now),
		"another time": !s.ReadPage(c, "9"+page, now), "a token": !s.ReadPage(c, s.Token(c), now),
		"another key": !signer(t, "o").ReadPage(c, page, now),
	} {
		if !ok {
			t.Error(name)
		}
	}
	if x := s.Nonce("x"); x != signer(t, "k").Nonce("x") || x == s.Nonce("y") || len(x) != 22 {
		t.Error("the nonce does not follow from what it was sent with")
	}
}

// TestBook: of many at once one uses a link, and a released one is as new.
func TestBook(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	b, c := decide.NewBook(signer(t, "k"), st), claims()
	used := func() bool {
		t.Helper()
		is, err := b.Used(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	if used() {
		t.Error("used before")
	}
	var first atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			mine, err := b.Claim(t.Context(), c, now)
			if err != nil {
				t.Error(err)
			}
			if mine {
				first.Add(1)
			}
		})
	}
	all.Wait()
	if first.Load() != 1 || !used() {
		t.Errorf("%d used it", first.Load())
	}
	if err := b.Release(t.Context(), c); err != nil || used() {
		t.Errorf("released: %v", err)
	}
	if mine, err := b.Claim(t.Context(), c, now); !mine || err != nil {
		t.Errorf("again: %t, %v", mine, err)
	}
	// Another approver's eyes do not see it.
	if _, err := st.UsedLink(t.Context(), store.As(store.Principal{Tenant: "t", User: "eve"}), c.Nonce); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}
