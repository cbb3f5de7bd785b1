package proxies_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"aqueduct/test/program"
)

// site is a proxy in front of one aqueduct, and a client that comes through it.
type site struct {
	url    string
	client *http.Client
	tls    *tls.Config // of one that speaks https
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// plainNginx is all that most people write: every other directive has nginx's default.
const plainNginx = `server {
    listen 127.0.0.1:%s;
    location / {
        proxy_pass http://%s;
    }
}
`

// nginxMain is the frame around a site. Folders are its own, so that it runs beside a
// system's nginx and as any user.
const nginxMain = `%s
daemon off;
worker_processes 1;
error_log stderr notice;
pid nginx.pid;
events {}
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    %s
    include site.conf;
}
`

// readTimeout stands for nginx's 60 s of silence, and heartbeat for Aqueduct's 15 s: the same
// ratio in a tenth of a minute.
const (
	readTimeout = "4s"
	heartbeat   = "1s"
	// beats are more than fit into readTimeout: a stream that is silent but for them outlives it.
	beats = 6
)

// nginx starts one with a site's file; extra goes into the http block around it.
func nginx(t *testing.T, conf, extra string) {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		path = "/usr/sbin/nginx"
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(`no nginx; run "make setup-proxies"`)
	}
	dir := t.TempDir()
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;" // its workers could not enter the test's folder otherwise
	}
	write(t, filepath.Join(dir, "site.conf"), conf)
	write(t, filepath.Join(dir, "nginx.conf"), fmt.Sprintf(nginxMain, user, extra))
	start(t, regexp.MustCompile(`start worker process (\d+)`), exec.Command(path, "-p", dir, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf")))
}

// plain is nginx with its defaults, apart from extra.
func plain(t *testing.T, upstream, extra string) *site {
	t.Helper()
	port := strconv.Itoa(program.FreePort(t))
	nginx(t, fmt.Sprintf(plainNginx, port, upstream), "proxy_read_timeout "+readTimeout+"; "+extra)
	answers(t, func() (net.Conn, error) { return net.Dial("tcp", "127.0.0.1:"+port) })
	return &site{url: "http://127.0.0.1:" + port, client: &http.Client{Transport: program.Authorized(&http.Transport{DisableCompression: true})}}
}

// siteName is the name in the recipes of deploy/.
const siteName = "chat.example.com"

// recipe is nginx with deploy/nginx.conf; only its addresses and files are replaced.
func recipe(t *testing.T, upstream, extra string) *site {
	t.Helper()
	raw, err := os.ReadFile("../../deploy/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	crt, key, pool := certificate(t)
	port := strconv.Itoa(program.FreePort(t))
	conf := string(raw)
	for _, change := range [][2]string{
		{"server 127.0.0.1:8080;", "server " + upstream + ";"},
		{"listen 443 ssl http2;", "listen 127.0.0.1:" + port + " ssl http2;"},
		{"proxy_read_timeout 60s;", "proxy_read_timeout " + readTimeout + ";"},
		{"/etc/nginx/tls/chat.crt", crt}, {"/etc/nginx/tls/chat.key", key},
	} {
		if strings.Count(conf, change[0]) != 1 {
			t.Fatalf("deploy/nginx.conf does not say %q once", change[0])
		}
		conf = strings.Replace(conf, change[0], change[1], 1)
	}
	nginx(t, conf, extra)
	answers(t, func() (net.Conn, error) { return net.Dial("tcp", "127.0.0.1:"+port) })
	return named(port, pool)
}

// caddy runs deploy/Caddyfile with a certificate of Caddy's own making.
func caddy(t *testing.T, upstream string) *site {
	t.Helper()
	path, err := exec.LookPath("caddy")
	if err != nil {
		t.Fatal(`no Caddy; run "make setup-proxies"`)
	}
	file, err := filepath.Abs("../../deploy/Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	dir, port := t.TempDir(), strconv.Itoa(program.FreePort(t))
	write(t, filepath.Join(dir, "Caddyfile"),
		"{\n\tadmin off\n\tlocal_certs\n\tskip_install_trust\n\tauto_https disable_redirects\n\tdefault_bind 127.0.0.1\n}\nimport "+file+"\n")
	cmd := exec.Command(path, "run", "--adapter", "caddyfile", "--config", filepath.Join(dir, "Caddyfile"))
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir,
		"AQUEDUCT_SITE=https://"+siteName+":"+port, "AQUEDUCT_UPSTREAM="+upstream)
	start(t, regexp.MustCompile(`serving (initial) configuration`), cmd)
	// Caddy listens before it has made its certificate, and refuses handshakes until then.
	answers(t, func() (net.Conn, error) {
		return tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{ServerName: siteName, InsecureSkipVerify: true})
	})
	pool := x509.NewCertPool()
	root, err := os.ReadFile(filepath.Join(dir, "caddy", "pki", "authorities", "local", "root.crt"))
	if err != nil || !pool.AppendCertsFromPEM(root) {
		t.Fatalf("Caddy's own root: %v", err)
	}
	return named(port, pool)
}

// named is a site under the recipes' name, which no resolver is asked for.
func named(port string, pool *x509.CertPool) *site {
	s := &site{
		url: "https://" + siteName + ":" + port, tls: &tls.Config{RootCAs: pool},
		dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
		},
	}
	s.client = &http.Client{Transport: program.Authorized(&http.Transport{
		ForceAttemptHTTP2: true, DisableCompression: true, TLSClientConfig: s.tls.Clone(), DialContext: s.dial,
	})}
	return s
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// certificate makes one for the recipes' name and for browsers on localhost.
func certificate(t *testing.T) (crt, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{siteName, "localhost"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	crt, key = filepath.Join(dir, "chat.crt"), filepath.Join(dir, "chat.key")
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	write(t, crt, string(public))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})))
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(public)
	return crt, key, pool
}
