package outbound_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge/outbound"
)

// TestAllow checks that each entry opens what it names and nothing beside it.
func TestAllow(t *testing.T) {
	t.Parallel()
	for entry, cases := range map[string]map[string]outbound.Reason{
		"tools.corp": {
			"http://tools.corp": "", "https://tools.corp": "", "https://tools.corp:80": "",
			"http://tools.corp:8080": outbound.ReasonPort, "http://x.tools.corp": outbound.ReasonPlain,
			"http://tools.corp.evil.test": outbound.ReasonPlain, "https://10.0.0.1": outbound.ReasonPrivate,
		},
		"Tools.corp:8080": {
			"http://tools.corp:8080": "", "https://TOOLS.corp:8080": "", "http://tools.corp": outbound.ReasonPlain,
			"https://tools.corp": "", "http://tools.corp:8081": outbound.ReasonPort,
		},
		"*.corp:8080": {"http://a.corp:8080": "", "http://a.b.corp:8080": "", "http://corp:8080": outbound.ReasonPort, "http://acorp:8080": outbound.ReasonPort},
		"10.0.0.0/8": {
			"http://10.1.2.3:9999": "", "https://10.1.2.3": "", "http://11.1.2.3": outbound.ReasonPlain,
			"https://192.168.0.1": outbound.ReasonPrivate, "http://127.0.0.1": outbound.ReasonLoopback,
			"http://[::ffff:10.1.2.3]:9999": "", "http://[64:ff9b::10.1.2.3]:9999": outbound.ReasonPrivate,
		},
		"127.0.0.1:8080": {
			"http://127.0.0.1:8080": "", "http://[::ffff:127.0.0.1]:8080": "", "http://127.0.0.1": outbound.ReasonPort,
			"http://127.0.0.2:8080": outbound.ReasonLoopback, "http://[::1]:8080": outbound.ReasonLoopback,
		},
		"127.0.0.1":  {"http://127.0.0.1": "", "https://127.0.0.1": "", "http://127.0.0.1:8080": outbound.ReasonPort, "http://127.0.0.2": outbound.ReasonLoopback, "http://localhost:8080": ""},
		"localhost":  {"http://localhost": "", "http://localhost:8080": outbound.ReasonPort, "http://127.0.0.1": outbound.ReasonLoopback, "http://a.localhost": outbound.ReasonLoopback},
		"[::1]:8080": {"http://[::1]:8080": "", "http://127.0.0.1:8080": outbound.ReasonLoopback},
		"0.0.0.0/0": {
			"http://10.0.0.1:1": "", "http://169.254.1.1": "", "http://169.254.169.254": outbound.ReasonMetadata,
			"http://0.0.0.0": outbound.ReasonReserved, "http://255.255.255.255": outbound.ReasonReserved,
		},
	} {
		g := newGate(t, outbound.Config{Allow: []string{entry}})
		for url, want := range cases {
			if got := reason(t, g.CheckURL(url)); got != want {
				t.Errorf("with %s, %s: %q, want %q", entry, url, got, want)
			}
		}
	}
	for _, entry := range []string{"", "http://a.test", "a b", "10.0.0.0/33", "a:b:c", "a.test:0", "a.test:99999", "*", "127.1", "fe80::1%eth0"} {
		if _, err := outbound.New(outbound.Config{Allow: []string{entry}}); err == nil {
			t.Errorf("%q is taken for an entry", entry)
		}
	}
}

// TestNamedLoopback: a name opens private addresses; loopback opens by localhost or an address.
func TestNamedLoopback(t *testing.T) {
	t.Parallel()
	in := newInner(t, secret)
	lookup := names(map[string]string{"localhost": "127.0.0.1", "app.corp": "127.0.0.1"})
	for _, c := range []struct {
		allow, url string
		want       outbound.Reason
	}{
		{in.at("app.corp"), in.at("app.corp"), outbound.ReasonLoopback},
		{in.at("localhost"), in.at("localhost"), ""},
		{in.at("localhost"), in.at("127.0.0.1"), outbound.ReasonLoopback},
		{in.at("127.0.0.1"), in.at("app.corp"), ""},
		{"127.0.0.0/8", in.at("app.corp"), ""},
	} {
		g := newGate(t, outbound.Config{Allow: []string{c.allow}, Lookup: lookup})
		if got := get(t, g, "http://"+c.url); got != c.want {
			t.Errorf("with %s, %s: %q, want %q", c.allow, c.url, got, c.want)
		}
	}
}

// TestSecretsStay: on another origin, which another port is, no header that may be a
// secret goes along; on the same one they do.
func TestSecretsStay(t *testing.T) {
	t.Parallel()
	var heard http.Header
	there := newInner(t, func(_ http.ResponseWriter, r *http.Request) { heard = r.Header })
	here := newInner(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/same" {
			heard = r.Header
			return
		}
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusTemporaryRedirect)
	})
	g := newGate(t, outbound.Config{Allow: []string{here.at("127.0.0.1"), there.at("127.0.0.1")}})
	for to, kept := range map[string]bool{here.URL + "/same": true, there.URL: false} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, here.URL+"/?to="+to, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"Authorization", "Cookie", "X-Run-Token", "X-Aqueduct-Signature"} {
			req.Header.Set(name, "s")
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := g.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		for _, name := range []string{"Authorization", "Cookie", "X-Run-Token", "X-Aqueduct-Signature"} {
			if (heard.Get(name) == "s") != kept {
				t.Errorf("to %s: %s is %q", to, name, heard.Get(name))
			}
		}
		if heard.Get("Content-Type") != "application/json" || heard.Get("Referer") != "" {
			t.Errorf("to %s: %v", to, heard)
		}
	}
}

// TestRedirects: three are followed, a fourth is not; with none, the redirect is the answer.
func TestRedirects(t *testing.T) {
	t.Parallel()
	in := newInner(t, func(w http.ResponseWriter, r *http.Request) {
		if left := strings.TrimPrefix(r.URL.Path, "/"); left != "" {
			http.Redirect(w, r, "/"+left[1:], http.StatusFound)
		}
	})
	g := newGate(t, outbound.Config{Allow: []string{in.at("127.0.0.1")}})
	for path, want := range map[string]outbound.Reason{"/xxx": "", "/xxxx": outbound.ReasonRedirects} {
		if got := get(t, g, in.URL+path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	none := newGate(t, outbound.Config{Allow: []string{in.at("127.0.0.1")}, Limits: outbound.Limits{Redirects: -1}})
	resp, err := none.Client().Get(in.URL + "/x")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusFound {
		t.Errorf("%d", resp.StatusCode)
	}
}

// TestDowngrade: what began under TLS does not go on in the open, even at a listed host.
func TestDowngrade(t *testing.T) {
	t.Parallel()
	in := newInner(t, secret)
	safe := httptest.NewUnstartedServer(http.RedirectHandler(in.URL, http.StatusFound))
	safe.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	safe.StartTLS()
	t.Cleanup(safe.Close)
	roots := x509.NewCertPool()
	roots.AddCert(safe.Certificate())
	allow := []string{"127.0.0.0/8"}
	if got := get(t, newGate(t, outbound.Config{Allow: allow, Roots: roots}), safe.URL); got != outbound.ReasonDowngrade {
		t.Errorf("%q", got)
	}
	if in.conns.Load() != 0 {
		t.Error("it was followed")
	}
	// S40: a server whose certificate no known authority signed is refused.
	_, err := newGate(t, outbound.Config{Allow: allow}).Client().Get(safe.URL)
	if err == nil || outbound.Cause(err) != "unreachable" {
		t.Errorf("a self-signed server: %v", err)
	}
}

// TestBody: an answer larger than it may be fails, announced or not; one that fits is whole.
func TestBody(t *testing.T) {
	t.Parallel()
	in := newInner(t, func(w http.ResponseWriter, r *http.Request) {
		body := strings.Repeat("x", map[string]int{"/fits": 100, "/large": 101, "/flood": 1 << 20}[r.URL.Path])
		if r.URL.Path == "/flood" {
			w.(http.Flusher).Flush() // then there is no Content-Length
		}
		_, _ = io.WriteString(w, body)
	})
	g := newGate(t, outbound.Config{Allow: []string{"127.0.0.0/8"}, Limits: outbound.Limits{Body: 100}})
	for path, want := range map[string]error{"/fits": nil, "/large": outbound.ErrTooLarge, "/flood": outbound.ErrTooLarge} {
		resp, err := g.Client().Get(in.URL + path)
		var raw []byte
		if err == nil {
			raw, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		if !errors.Is(err, want) || len(raw) > 100 || want == nil && len(raw) != 100 {
			t.Errorf("%s: %d bytes, %v", path, len(raw), err)
		}
	}
}

// TestTimeouts: a server that does not answer, and one that does not stop.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	for path, limits := range map[string]outbound.Limits{
		"/silent": {FirstByte: 20 * time.Millisecond}, "/endless": {Total: 50 * time.Millisecond},
	} {
		in := newInner(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/endless" {
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		})
		g := newGate(t, outbound.Config{Allow: []string{"127.0.0.0/8"}, Limits: limits})
		resp, err := g.Client().Get(in.URL + path)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		if outbound.Cause(err) != "timeout" {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestErrorsTellNothing: what may be shown names neither addresses nor what is there.
func TestErrorsTellNothing(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	_ = l.Close()
	g := newGate(t, outbound.Config{Allow: []string{closed, "a.corp"}, Lookup: names(map[string]string{"b.corp": "10.11.12.13"})})
	for url, want := range map[string]string{
		"http://" + closed: "unreachable", "http://a.corp": "unreachable", "https://b.corp": "private_address",
	} {
		_, err := g.Client().Get(url)
		if got := outbound.Cause(err); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
		if strings.Contains(err.Error(), "10.11.") {
			t.Errorf("%v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+closed, nil)
	if _, err := g.Client().Do(req); outbound.Cause(err) != "cancelled" {
		t.Error(err)
	}
}

// TestNoProxy: a proxy of the environment would dial in the Gate's place. And no other
// name for the host reaches the server behind it.
func TestNoProxy(t *testing.T) {
	proxy := newInner(t, secret)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	if os.Getenv("HTTP_PROXY") == "" {
		t.Fatal("not set")
	}
	g := newGate(t, outbound.Config{Allow: []string{"a.corp"}, Lookup: names(nil)})
	if _, err := g.Client().Get("http://a.corp/"); err == nil || proxy.conns.Load() != 0 {
		t.Errorf("%v, %d connections", err, proxy.conns.Load())
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.corp/", nil)
	req.Host = "admin.corp"
	if _, err := g.Client().Do(req); reason(t, err) != outbound.ReasonHost {
		t.Error(err)
	}
}
