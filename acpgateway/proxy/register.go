package proxy

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"aqueduct/internal/secretfile"
)

// FileToken reads the token from a file at every link, so that it may be renewed in place.
func FileToken(path string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		token, err := secretfile.Read(path)
		if err == nil && token == "" {
			err = fmt.Errorf("%s is empty", path)
		}
		return token, err
	}
}

const (
	registerTimeout = 30 * time.Second
	registerAnswer  = 64 << 10
)

// Enrolment gets a proxy's tokens from the gateway's register route: the first with a bootstrap token, the others with the
// one before.
//
// A bootstrap token is what an operator hands out for a new proxy; most are good for one registration. What the proxy
// gets for it is its own and is renewed when half of its life is over, so that one which is off for a weekend still
// has a good one.
type Enrolment struct {
	URL       string
	Bootstrap string // "" where the proxy has a token to begin with
	Given     string // the first token; "" if it has a bootstrap token
	ID, Name  string
	// File keeps the token across starts; "" keeps it in memory, and a proxy that is started again needs a bootstrap token
	// again.
	File string

	// mu is held while the gateway is asked: a bootstrap token works once, and must not be tried by two at a time.
	mu    sync.Mutex
	token string
}

// Token is what the proxy connects with. It is renewed in time; where that fails the old one is used on.
func (e *Enrolment) Token(ctx context.Context) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if own := e.kept(); own != "" {
		return e.renewed(ctx, own)
	}
	return e.enrol(ctx)
}

// renewed is a token that the proxy has, or the one it gets for it when half of its life is over.
func (e *Enrolment) renewed(ctx context.Context, own string) (string, error) {
	now := time.Now()
	if !renewable(own, now) {
		return own, nil
	}
	// In this order: the new token; the old one while it lives, or where nothing else is left to try; the bootstrap
	// token.
	token, err := e.ask(ctx, "Authorization", "Bearer "+own)
	switch {
	case err == nil:
		return token, e.keep(token)
	case lives(own, now) || e.Bootstrap == "":
		return own, nil // the next link asks again
	}
	return e.enrol(ctx)
}

// enrol uses the bootstrap token.
func (e *Enrolment) enrol(ctx context.Context) (string, error) {
	if e.Bootstrap == "" {
		return "", errors.New("register: the proxy has no token that the gateway takes, and no bootstrap token")
	}
	token, err := e.ask(ctx, "X-Acp-Proxy-Bootstrap", e.Bootstrap)
	if err != nil {
		return "", err
	}
	return token, e.keep(token)
}

// Again is Token for a proxy whose token the gateway refused, because it was revoked or the key replaced. One that was got
// since is used; otherwise only a bootstrap token helps.
func (e *Enrolment) Again(ctx context.Context, refused string) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Given == refused {
		e.Given = ""
	}
	if own := e.kept(); own != "" && own != refused {
		return e.renewed(ctx, own)
	}
	return e.enrol(ctx)
}

// kept returns the proxy's earlier token, or "". Of the token that the operator gave and the one obtained since, the one made
// last counts: an operator who gives another token means that one.
func (e *Enrolment) kept() string {
	if e.token == "" && e.File != "" {
		raw, _ := os.ReadFile(e.File) // absent or unreadable: then the given or the bootstrap token is tried
		e.token = strings.TrimSpace(string(raw))
	}
	if e.Given == "" {
		return e.token
	}
	given, _, dated := times(e.Given)
	got, _, ok := times(e.token)
	if dated && ok && got.After(given) {
		return e.token
	}
	return e.Given
}

// keep replaces the file in one step: a proxy that is killed meanwhile has the old token or the new one.
// 0600: the token is the proxy's identity.
// It is in memory before it is in the file. Where the file cannot be written the caller gets an error, but a
// bootstrap token that was used up for it is not lost: the next Token finds it there.
func (e *Enrolment) keep(token string) error {
	e.token = token
	if e.File == "" {
		return nil
	}
	draft := e.File + ".new"
	err := os.WriteFile(draft, []byte(token+"\n"), 0o600)
	if err == nil {
		err = os.Rename(draft, e.File)
	}
	if err != nil {
		return fmt.Errorf("the proxy's token cannot be kept: %w", err)
	}
	return nil
}

// times are when a token of the gateway's was made and ends. Its signature is the gateway's to check.
// A token is a JWT: three parts with dots between, of which the second holds iat and exp in Unix seconds.
// The dates are read without checking the signature, for they only decide when to ask for a new one.
func times(token string) (made, ends time.Time, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return made, ends, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return made, ends, false
	}
	var claims struct{ Iat, Exp int64 }
	if json.Unmarshal(raw, &claims) != nil || claims.Iat == 0 || claims.Exp <= claims.Iat {
		return made, ends, false
	}
	return time.Unix(claims.Iat, 0), time.Unix(claims.Exp, 0), true
}

// renewable reports whether half of a token's life is over. One without dates is never renewed.
func renewable(token string, now time.Time) bool {
	made, ends, ok := times(token)
	return ok && now.After(made.Add(ends.Sub(made)/2))
}

// lives reports whether a token has not ended. One without dates counts as living: only the gateway can refuse it.
func lives(token string, now time.Time) bool {
	_, ends, ok := times(token)
	return !ok || now.Before(ends)
}

// ask asks the register route for a token, with a bootstrap token or the token of before as its credential. The same
// id gets the same proxy; the name is what people see in lists.
func (e *Enrolment) ask(ctx context.Context, header, credential string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]string{"proxyId": e.ID, "name": e.Name})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(header, credential)
	return exchange(req)
}

// Nothing of the answer is shown but the code and the message of its error.
// An answer has the form {"data":{"token":…}} or {"error":{"code":…,"message":…}}, whatever its status.
func exchange(req *http.Request) (string, error) {
	// A redirect would carry the bootstrap token to another host.
	transport := &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct {
		Data  struct{ Token string }
		Error struct{ Code, Message string }
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, registerAnswer)).Decode(&answer); err != nil {
		return "", fmt.Errorf("register: HTTP %s: %w", resp.Status, err)
	}
	if answer.Data.Token == "" {
		return "", errors.New(strings.TrimSpace("register: HTTP " + resp.Status + " " + answer.Error.Code + " " + answer.Error.Message))
	}
	return answer.Data.Token, nil
}
