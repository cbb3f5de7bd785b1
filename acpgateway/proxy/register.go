package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
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

// Register gets a token from url with a bootstrap token. It is asked at every link: that is
// how a token that is refused gets replaced.
func Register(url, bootstrap, id, name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, registerTimeout)
		defer cancel()
		body, err := json.Marshal(map[string]string{"proxyId": id, "name": name})
		if err != nil {
			return "", err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return "", err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Acp-Proxy-Bootstrap", bootstrap)
		return exchange(req)
	}
}

func exchange(req *http.Request) (string, error) {
	// A redirect would carry the bootstrap token to somebody else.
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
