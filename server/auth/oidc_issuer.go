// This file calls the OpenID provider: with bounded time, size and redirects, and with a brake,
// because requests with bad tokens are free for attackers.

package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

const (
	// issuerTime bounds one call to the issuer: a person, or a request with a bearer token, waits for it.
	issuerTime = 10 * time.Second
	// issuerBytes bounds what the issuer may answer. Discovery documents and key sets are a few KiB.
	issuerBytes = 1 << 20
	// discoveryBrake is the least time between two tries to read the issuer's configuration after a failure.
	discoveryBrake = 5 * time.Second
)

// issuerClient calls the issuer alone, whose address is the operator's own configuration. It follows
// no redirect to plain http, and reads no endless answer.
func issuerClient() *http.Client {
	return &http.Client{
		Timeout:   issuerTime,
		Transport: boundedAnswers{http.DefaultTransport},
		CheckRedirect: func(to *http.Request, via []*http.Request) error {
			if len(via) > 3 || !secureURL(to.URL.String()) {
				return errors.New("auth: the issuer redirects too often, or to an address that is not secure")
			}
			return nil
		},
	}
}

// boundedAnswers cuts what the issuer answers at issuerBytes.
type boundedAnswers struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper. An answer that is cut no longer parses, and is an error of the issuer.
func (b boundedAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, issuerBytes), resp.Body}
	return resp, nil
}

// secureURL accepts https, and http for loopback, where tests and developers run a provider.
func secureURL(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	host := u.Hostname()
	return u.Scheme == "https" || u.Scheme == "http" && (host == "localhost" || host == "127.0.0.1" || host == "::1")
}

// remoteIssuer is the connection to an OpenID provider. Its configuration is read when something needs it first.
type remoteIssuer struct {
	url    string
	client *http.Client
	now    func() time.Time

	mu       sync.Mutex // held during discovery: requests that come meanwhile wait for its result instead of asking too
	provider *oidc.Provider
	found    discovery
	failedAt time.Time
}

// discovery is what is read of the issuer's configuration beside what go-oidc reads itself.
type discovery struct {
	JWKS       string `json:"jwks_uri"`
	EndSession string `json:"end_session_endpoint"`
}

// discover reads the issuer's configuration once. After a failure it waits before it tries again, so
// that requests with bad tokens cannot make this server hammer the issuer.
func (i *remoteIssuer) discover(ctx context.Context) (*oidc.Provider, discovery, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.provider != nil {
		return i.provider, i.found, nil
	}
	if i.now().Sub(i.failedAt) < discoveryBrake {
		return nil, discovery{}, ErrIssuer
	}
	p, err := oidc.NewProvider(i.calling(ctx), i.url)
	var found discovery
	if err == nil {
		err = p.Claims(&found)
	}
	if err == nil && (!secureURL(found.JWKS) || !secureURL(p.Endpoint().TokenURL) || found.EndSession != "" && !secureURL(found.EndSession)) {
		err = errors.New("an endpoint is not https")
	}
	if err != nil {
		i.failedAt = i.now()
		return nil, discovery{}, fmt.Errorf("%w: %w", ErrIssuer, err)
	}
	i.provider, i.found = p, found
	return p, found, nil
}

// calling has go-oidc and oauth2 use the bounded client. Both libraries take their client from the context.
func (i *remoteIssuer) calling(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, i.client)
}

// keysURL is where the issuer publishes its keys.
func (i *remoteIssuer) keysURL(ctx context.Context) (string, error) {
	_, found, err := i.discover(ctx)
	return found.JWKS, err
}
