package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aqueduct/server/auth"
	"aqueduct/store/storetest"
)

// pair is a self-signed certificate and its key in files.
type pair struct{ cert, key string }

// write replaces both files by a new certificate of a number.
func (p pair) write(t *testing.T, serial int64) *x509.CertPool {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	as := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "aqueduct"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, as, as, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{p.cert: {Type: "CERTIFICATE", Bytes: der}, p.key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(cert)
	return pool
}

func newPair(t *testing.T) pair {
	dir := t.TempDir()
	return pair{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
}

// serial is the number of the certificate that a server shows now.
func serial(t *testing.T, address string) int64 {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// TestTLS: chats over https with HTTP/2 and 1.1, cookies that neighbours cannot plant, an agent of --acp inside, and a
// certificate that is renewed without a restart.
func TestTLS(t *testing.T) {
	t.Parallel()
	files := newPair(t)
	pool := files.write(t, 1)
	agent := filepath.Join(t.TempDir(), "agent.sh")
	if err := os.WriteFile(agent, []byte(scriptedAgent), 0o700); err != nil {
		t.Fatal(err)
	}
	r := start(t, "--demo", "--database", "sqlite:"+storetest.SQLite(t), "--tls-cert", files.cert, "--tls-key", files.key, "--acp", "code="+agent)
	address, ok := strings.CutPrefix(r.URL, "https://")
	if !ok || len(r.greeting) < 3 || !strings.Contains(strings.Join(r.greeting, " "), r.URL+"/#sign-in=") {
		t.Fatalf("it listens on %s, and says %q", r.URL, r.greeting)
	}
	token, err := os.ReadFile(r.tokens)
	if err != nil {
		t.Fatal(err)
	}
	for proto, two := range map[int]bool{2: true, 1: false} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: two}}
		for who, want := range map[string]string{"demo": "RUN_FINISHED", "code": "at /"} {
			req, err := http.NewRequest(http.MethodPost, r.URL+"/api/agui/chat?agent="+who, strings.NewReader(
				`{"protocolVersion":"1.0","threadId":"","runId":"","messages":[{"id":"u1","role":"user","content":"text"}]}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			said, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.ProtoMajor != proto || !strings.Contains(string(said), want) {
				t.Errorf("%s over HTTP/%d: %v %s", who, resp.ProtoMajor, err, said)
			}
		}
		resp, err := client.Post(r.URL+"/api/session", "application/json", strings.NewReader(`{"token":"`+strings.TrimSpace(string(token))+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		_, port, _ := strings.Cut(address, ":")
		secure := "__Host-aqueduct_session_" + port
		if c := resp.Cookies(); len(c) != 1 || c[0].Name != secure || !c[0].Secure || !c[0].HttpOnly || c[0].Path != "/" || c[0].Domain != "" {
			t.Fatalf("%+v", c)
		}
		for name, want := range map[string]int{secure: 200, "aqueduct_session_" + port: 401, "__Host-aqueduct_session": 401} {
			req, err := http.NewRequest(http.MethodGet, r.URL+"/api/threads", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.AddCookie(&http.Cookie{Name: name, Value: resp.Cookies()[0].Value})
			req.Header.Set(auth.PageHeader, resp.Header.Get(auth.PageHeader))
			got, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got.Body.Close()
			if got.StatusCode != want {
				t.Errorf("the session as %s: %d", name, got.StatusCode)
			}
		}
		client.CloseIdleConnections()
	}

	files.write(t, 2)
	eventually(t, "the new certificate", func() bool { return serial(t, address) == 2 })
	if err := os.WriteFile(files.cert, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := serial(t, address); got != 2 {
		t.Errorf("a broken file: the certificate is %d", got)
	}
	files.write(t, 3)
	eventually(t, "the certificate after a broken one", func() bool { return serial(t, address) == 3 })
}

// eventually waits for what comes within a few seconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what, "never came")
		}
	}
}

// TestTLSFiles: what cannot be served by is known before anything starts.
func TestTLSFiles(t *testing.T) {
	t.Parallel()
	good, other := newPair(t), newPair(t)
	good.write(t, 1)
	other.write(t, 2)
	open := newPair(t)
	open.write(t, 3)
	if err := os.Chmod(open.key, 0o640); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no key":                {[]string{"--tls-cert", good.cert}, "need each other"},
		"no certificate":        {[]string{"--tls-key", good.key}, "need each other"},
		"another's key":         {[]string{"--tls-cert", good.cert, "--tls-key", other.key}, "private key does not match"},
		"a key others may read": {[]string{"--tls-cert", open.cert, "--tls-key", open.key}, "chmod 600 " + open.key},
		"no file":               {[]string{"--tls-cert", good.cert + "x", "--tls-key", good.key}, "no such file"},
	} {
		_, err := program(t, env(), append([]string{"serve", "--listen", "127.0.0.1:0", "--database", "sqlite:" + filepath.Join(t.TempDir(), "a.db")}, c.args...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSecureCookiesBehindAProxy: the public URL states that browsers connect by https.
func TestSecureCookiesBehindAProxy(t *testing.T) {
	t.Parallel()
	r := start(t, "--demo", "--database", "sqlite:"+filepath.Join(t.TempDir(), "a.db"), "--public-url", "https://chat.example/")
	if !strings.Contains(strings.Join(r.greeting, "\n"), "  https://chat.example/#sign-in=") {
		t.Errorf("the link leads elsewhere: %q", r.greeting)
	}
	token, err := os.ReadFile(r.tokens)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(r.URL+"/api/session", "application/json", strings.NewReader(`{"token":"`+strings.TrimSpace(string(token))+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if c := resp.Cookies(); len(c) != 1 || !strings.HasPrefix(c[0].Name, "__Host-aqueduct_session_") || !c[0].Secure {
		t.Errorf("%+v", c)
	}
	page, err := r.client.Post(r.URL+"/api/agui/chat", "application/json", strings.NewReader(`{"prompt":"text"}`)) // TDesign's
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	if c := page.Cookies(); len(c) != 1 || c[0].Name != "__Host-aqueduct_browser" || !c[0].Secure || c[0].Path != "/" {
		t.Errorf("%+v", c)
	}
}

// TestS40Downgrades: a certificate without a trusted issuer is refused by every client of ours, and what is sent to another machine is
// encrypted unless --insecure allows otherwise, with a warning.
func TestS40Downgrades(t *testing.T) {
	t.Parallel()
	called := make(chan string, 100)
	stranger := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { called <- r.URL.Path }))
	stranger.Config.ErrorLog = log.New(io.Discard, "", 0)
	stranger.StartTLS()
	t.Cleanup(stranger.Close)
	db := "sqlite:" + filepath.Join(t.TempDir(), "a.db")
	r := start(t, "--agent", "far="+stranger.URL, "--database", db)
	if _, said := r.post("/api/agui/chat", hello); !strings.Contains(said, `"code":"upstream_unreachable"`) {
		t.Errorf("an agent with a certificate of its own: %s", said)
	}
	token := write(t, "token", "a token with some length\n")
	if _, err := program(t, env(), "token", "show", "--token-file", token); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"tail, http":            {[]string{"tail", "R", "--url", "http://192.0.2.1", "--token-file", token}, "--insecure"},
		"tail, http, by name":   {[]string{"tail", "R", "--url", "http://aqueduct.example:8080", "--token-file", token}, "use https://"},
		"proxy, ws":             {[]string{"proxy", "--url", "ws://192.0.2.1/ws/agent", "--token-file", token, "--", "true"}, "use wss://"},
		"proxy, register, http": {[]string{"proxy", "--url", "wss://192.0.2.1/ws/agent", "--register-url", "http://192.0.2.1/r", "--token-file", token, "--", "true"}, "--register-url"},
		"an agent, http":        {[]string{"serve", "--listen", "127.0.0.1:0", "--database", "sqlite:" + filepath.Join(t.TempDir(), "f.db"), "--agent", "a=http://192.0.2.1"}, "--agent a"},
		"a model, http":         {[]string{"serve", "--listen", "127.0.0.1:0", "--database", "sqlite:" + filepath.Join(t.TempDir(), "m.db"), "--llm-url", "http://192.0.2.1/v1"}, "upstream llm"},
		"an MCP server, http":   {[]string{"serve", "--listen", "127.0.0.1:0", "--database", "sqlite:" + filepath.Join(t.TempDir(), "t.db"), "--mcp", "a=http://192.0.2.1/mcp"}, "--mcp a"},
	} {
		if _, err := program(t, env(), c.args...); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--insecure") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, far := range []string{"http://192.0.2.1", "ws://h/x", "http://127.0.0.1.nip.io", "http://localhost.example", "http://[2001:db8::1]:80"} {
		if checkFar("x", far, false) == nil || checkFar("x", far, true) != nil {
			t.Errorf("%s: %v, %v", far, checkFar("x", far, false), checkFar("x", far, true))
		}
	}
	for _, near := range []string{"http://127.0.0.1:1", "ws://localhost:1", "http://[::1]", "http://LOCALHOST.", "https://192.0.2.1", "wss://h", ""} {
		if err := checkFar("x", near, false); err != nil {
			t.Errorf("%s: %v", near, err)
		}
	}
	// The proxy tries again for ever; its log gives the reason.
	logged := &waitingLog{found: make(chan struct{}), want: []byte("certificate")}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"proxy", "--url", "wss" + strings.TrimPrefix(stranger.URL, "https") + "/ws/agent", "--id", "s40", "--token-file", token, "--", "true"},
			env(), output{io.Discard, logged})
	}()
	select {
	case <-logged.found:
	case <-ctx.Done():
		t.Error("the proxy does not say that it refuses the certificate")
	}
	cancel()
	<-ended
	if len(called) > 0 {
		t.Errorf("a server that nobody vouches for was called at %s", <-called)
	}
}

// waitingLog closes found when some text was written.
type waitingLog struct {
	text  bytes.Buffer
	want  []byte
	done  bool
	found chan struct{}
}

// Write implements io.Writer.
func (w *waitingLog) Write(p []byte) (int, error) {
	w.text.Write(p)
	if !w.done && bytes.Contains(w.text.Bytes(), w.want) {
		w.done = true
		close(w.found)
	}
	return len(p), nil
}
