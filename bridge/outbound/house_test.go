package outbound_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"aqueduct/bridge/outbound"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inner is a server that only this machine should reach. It counts who gets through to it.
type inner struct {
	*httptest.Server
	port  string
	conns atomic.Int64
}

func newInner(t *testing.T, serve http.HandlerFunc) *inner {
	t.Helper()
	in := &inner{}
	in.Server = httptest.NewUnstartedServer(serve)
	in.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			in.conns.Add(1)
		}
	}
	in.Start()
	t.Cleanup(in.Close)
	_, in.port, _ = net.SplitHostPort(in.Listener.Addr().String())
	return in
}

// at is the server's address with another name for its host.
func (in *inner) at(host string) string { return host + ":" + in.port }

func secret(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("secret")) }

// names resolves from a list, and never asks anybody.
func names(known map[string]string) func(context.Context, string, string) ([]netip.Addr, error) {
	return func(_ context.Context, _, host string) ([]netip.Addr, error) {
		var addrs []netip.Addr
		for _, a := range strings.Fields(known[host]) {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
		if addrs == nil {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		return addrs, nil
	}
}

func newGate(t *testing.T, cfg outbound.Config) *outbound.Gate {
	t.Helper()
	if cfg.Lookup == nil {
		cfg.Lookup = names(map[string]string{"localhost": "127.0.0.1 ::1"})
	}
	g, err := outbound.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// get calls and reports why not, "" when an answer came.
func get(t *testing.T, g *outbound.Gate, url string) outbound.Reason {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return outbound.ReasonURL // net/http takes it for no address either
	}
	resp, err := g.Client().Do(req)
	if err == nil {
		_ = resp.Body.Close()
		return ""
	}
	return reason(t, err)
}

func reason(t *testing.T, err error) outbound.Reason {
	t.Helper()
	var refused *outbound.Refused
	if err == nil {
		return ""
	}
	if !errors.As(err, &refused) {
		t.Errorf("not refused, but %v", err)
		return "?"
	}
	return refused.Reason
}
