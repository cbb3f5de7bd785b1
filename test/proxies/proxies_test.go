package proxies_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/test/program"
)

// gzipEverything compresses streams too, which no recipe does and some installations do.
const gzipEverything = "gzip on; gzip_proxied any; gzip_min_length 0; gzip_types *;"

// TestProxies: through every proxy a stream comes as it is sent, outlives the proxy's limit of
// silence, and can be resumed. A server without heartbeats shows that the limit is in force.
func TestProxies(t *testing.T) {
	agent := newHeldAgent(t)
	flags := []string{"--agent", "held=" + agent.URL, "--allowed-host", siteName}
	upstream := serve(t, append(flags, "--heartbeat", heartbeat)...)
	silent := serve(t, append(flags, "--heartbeat", "1h")...)
	for _, tc := range []struct {
		name   string
		site   *site
		silent *site // the same proxy before a server without heartbeats; nil where it has no limit
		proto  int
		gzip   bool
	}{
		{"nginx with its defaults", plain(t, upstream, ""), plain(t, silent, ""), 1, false},
		{"nginx that compresses everything", plain(t, upstream, gzipEverything), nil, 1, true},
		{"nginx.conf", recipe(t, upstream, ""), recipe(t, silent, ""), 2, false},
		{"nginx.conf where everything is compressed", recipe(t, upstream, gzipEverything), nil, 2, true},
		{"Caddyfile", caddy(t, upstream), nil, 2, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			key := strings.ReplaceAll(tc.name, " ", "-")
			s := tc.site.chat(t, key)
			if proto, encoding := s.resp.ProtoMajor, s.resp.Header.Get("Content-Encoding"); proto != tc.proto || (encoding == "gzip") != tc.gzip {
				t.Errorf("HTTP/%d, Content-Encoding %q", proto, encoding)
			}
			s.until(`"delta":"first"`) // the agent still waits: nothing was held back
			began := time.Now()
			for range beats {
				s.until(":")
			}
			t.Logf("%d heartbeats and nothing else for %v, limit %s", beats, time.Since(began).Round(100*time.Millisecond), readTimeout)
			agent.release(key)
			s.until(`"type":"RUN_FINISHED"`)
			tc.site.resumes(t, s)
			if tc.silent != nil {
				cut := tc.silent.chat(t, key+"-silent")
				cut.until(`"delta":"first"`)
				if rest := cut.rest(); strings.Contains(rest, "data:") {
					t.Errorf("without heartbeats the proxy did not cut the stream: %q", rest)
				}
				agent.release(key + "-silent")
			}
		})
	}
}

// TestRecipes: what the defaults of nginx do not let through and the recipes do: large bodies,
// WebSockets, a name of the proxy's own. A stranger's name is refused behind them too.
func TestRecipes(t *testing.T) {
	agent := newHeldAgent(t)
	upstream := serve(t, "--agent", "held="+agent.URL, "--allowed-host", siteName)
	for name, s := range map[string]*site{"nginx": recipe(t, upstream, ""), "caddy": caddy(t, upstream)} {
		t.Run(name, func(t *testing.T) {
			key := name + strings.Repeat("x", 3<<20)
			agent.release(key)
			s.chat(t, key).until(`"type":"RUN_FINISHED"`)

			dialer := websocket.Dialer{TLSClientConfig: s.tls, NetDialContext: s.dial}
			conn, resp, err := dialer.DialContext(t.Context(), "wss"+strings.TrimPrefix(s.url, "https")+"/ws/client", signedIn(http.Header{"Origin": {s.url}}))
			if err != nil {
				t.Fatalf("a WebSocket: %v, %v", err, resp)
			}
			_ = conn.Close()
			if _, resp, err := dialer.DialContext(t.Context(), "wss"+strings.TrimPrefix(s.url, "https")+"/ws/client",
				signedIn(http.Header{"Origin": {"https://evil.example"}})); err == nil || resp.StatusCode != http.StatusForbidden {
				t.Errorf("a WebSocket of a stranger's page: %v", resp)
			}
		})
	}
	t.Run("a stranger's name", func(t *testing.T) {
		s := recipe(t, upstream, "")
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/api/threads", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "evil.example"
		resp, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("%s", resp.Status)
		}
	})
}

// signedIn adds the token to headers.
func signedIn(h http.Header) http.Header {
	maps.Copy(h, program.Authorization())
	return h
}
