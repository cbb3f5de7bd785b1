// Package outbound is the one way out: every call to an address that a user or an operator named (agents, tools, webhooks)
// goes through a Gate. The Gate prevents that a caller reaches through this server what only this server can reach (SSRF).
//
// One function judges addresses (allowList.judge), and it is called wherever an address becomes known: in a URL that is
// registered or called (url.go), after a name was resolved, and when the socket connects (dial.go). The last of these is
// what counts; the earlier ones give an earlier and clearer answer. redirect.go and body.go bound what comes back.
//
// The package knows addresses, names and the operator's list. It knows neither who calls nor what for, and no part of it
// depends on the rest of this program.
package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Limits bound one call. Zero means the default; a negative value means none.
type Limits struct {
	Connect   time.Duration // until the connection stands, all addresses together; 10 s
	FirstByte time.Duration // until the answer's headers; 60 s
	Total     time.Duration // of the whole call with its body; 5 min
	Body      int64         // bytes of an answer; 10 MiB
	Redirects int           // followed in a row; 3. Negative: a redirect is the answer
}

func (l Limits) withDefaults() Limits {
	l.Connect = orDefault(l.Connect, 10*time.Second)
	l.FirstByte = orDefault(l.FirstByte, time.Minute)
	l.Total = orDefault(l.Total, 5*time.Minute)
	l.Body = orDefault(l.Body, 10<<20)
	l.Redirects = orDefault(l.Redirects, 3)
	return l
}

// orDefault makes every negative value -1: what is taken from Limits is compared with zero alone.
func orDefault[N time.Duration | int64 | int](n, d N) N {
	if n == 0 {
		return d
	}
	return max(n, -1)
}

// Config is what a Gate lets through.
type Config struct {
	// Allow opens what is closed by default, one entry each:
	//
	//	tools.corp          that name on ports 80 and 443, over http too, at private addresses too
	//	tools.corp:8080     the same on that port
	//	*.corp:8080         every name below corp
	//	10.1.2.3:8080       that address and port
	//	10.0.0.0/8          every address of the network, on every port
	//
	// Loopback is opened only by localhost or by an address; link-local and reserved networks
	// only by an address. The metadata services of clouds, multicast and broadcast are never
	// opened.
	Allow  []string
	Limits Limits
	// Lookup resolves names; nil asks the system.
	Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	// Roots are who may vouch for a server; nil is the system's.
	Roots *x509.CertPool
}

// Gate checks where calls go. It is safe for concurrent use.
//
// It has a transport for each scheme: what is allowed depends on whether the call is over TLS, and a dialer is given
// host and port only.
type Gate struct {
	allow  allowList
	limits Limits
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	plain  *http.Transport // for http
	secure *http.Transport // for https
}

// New makes a Gate. An entry of Allow that cannot be read is an error: ignored, it would leave the list with a meaning its
// author does not expect.
func New(cfg Config) (*Gate, error) {
	allow, err := parseAllow(cfg.Allow)
	if err != nil {
		return nil, err
	}
	g := &Gate{allow: allow, limits: cfg.Limits.withDefaults(), lookup: cfg.Lookup}
	if g.lookup == nil {
		g.lookup = net.DefaultResolver.LookupNetIP
	}
	// A transport with a TLS configuration of its own speaks HTTP/1.1 only.
	g.plain, g.secure = g.transport(false), g.transport(true)
	g.secure.TLSClientConfig = &tls.Config{RootCAs: cfg.Roots, MinVersion: tls.VersionTLS12}
	return g, nil
}

const (
	// maxHeader bounds the headers of an answer.
	maxHeader = 64 << 10
	// maxIdle keeps connections of a busy agent open: each Turn needs one of its own.
	maxIdle = 256
)

func (g *Gate) transport(secure bool) *http.Transport {
	return &http.Transport{
		Proxy:                  nil, // the environment's would dial in our place, unchecked
		DialContext:            (&dialer{gate: g, secure: secure}).dial,
		TLSHandshakeTimeout:    max(g.limits.Connect, 0),
		ResponseHeaderTimeout:  max(g.limits.FirstByte, 0),
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        90 * time.Second,
		// Compressed streams are held back by their encoder, and small ones grow in here.
		DisableCompression: true,
	}
}

// Client makes calls through the Gate.
func (g *Gate) Client() *http.Client {
	return &http.Client{Transport: g, CheckRedirect: g.redirect, Timeout: max(g.limits.Total, 0)}
}

// RoundTrip implements http.RoundTripper. Every request passes here, those of redirects too.
func (g *Gate) RoundTrip(req *http.Request) (*http.Response, error) {
	refused := g.checkURL(req.URL)
	if refused == nil && req.Host != "" && req.Host != req.URL.Host {
		refused = &Refused{ReasonHost} // another name for a server that trusts its front door
	}
	if refused != nil {
		if req.Body != nil {
			_ = req.Body.Close() // RoundTrip must, whatever happens
		}
		return nil, refused
	}
	through := g.plain
	if req.URL.Scheme == "https" {
		through = g.secure
	}
	resp, err := through.RoundTrip(req)
	// After 101 the body is the connection itself, which net/http wants to be a ReadWriteCloser.
	if err != nil || g.limits.Body < 0 || resp.Body == nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, err
	}
	if resp.ContentLength > g.limits.Body {
		_ = resp.Body.Close()
		return nil, ErrTooLarge
	}
	resp.Body = &bounded{body: resp.Body, left: g.limits.Body}
	return resp, nil
}

// Close drops idle connections.
func (g *Gate) Close() {
	g.plain.CloseIdleConnections()
	g.secure.CloseIdleConnections()
}

// CloseIdleConnections lets http.Client's method of that name reach ours.
func (g *Gate) CloseIdleConnections() { g.Close() }
