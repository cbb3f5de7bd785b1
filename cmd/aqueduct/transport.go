// How serve is reached (http or https), and the rule that nothing goes to another machine unencrypted unless
// --insecure allows it.

package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"aqueduct/internal/ownfile"
	"aqueduct/internal/secretfile"
	"aqueduct/server/llmproxy"
)

// tlsFlags are how serve is reached, and how it reaches agents.
type tlsFlags struct {
	TLSCert  ownfile.Config `name:"tls-cert" help:"Certificate and its chain, PEM. With it serve speaks https; it is read again when it changes." placeholder:"FILE"`
	TLSKey   ownfile.Secret `name:"tls-key" help:"Key of --tls-cert, PEM." placeholder:"FILE"`
	Insecure bool           `help:"Let agents, models and MCP servers on other machines be called by http://."`

	certificate *certificate // nil: http
}

// open reads the certificate, so that what is wrong with it is known before anything starts.
func (f *tlsFlags) open(log *slog.Logger) error {
	if f.Insecure {
		log.Warn(insecureWarning)
	}
	if f.TLSCert == "" && f.TLSKey == "" {
		return nil
	}
	if f.TLSCert == "" || f.TLSKey == "" {
		return errors.New("--tls-cert and --tls-key need each other")
	}
	f.certificate = &certificate{cert: string(f.TLSCert), key: string(f.TLSKey), log: log}
	// Nothing listens yet, so load needs no lock; get has it.
	return f.certificate.load()
}

// url is where programs on this machine reach a listener.
func (f *tlsFlags) url(addr net.Addr) string {
	if f.certificate == nil {
		return reachable(addr)
	}
	return "https" + strings.TrimPrefix(reachable(addr), "http")
}

// over is the listener that clients get. HTTP/2 is offered, because a browser opens only six connections of HTTP/1.1
// and each stream takes one.
func (f *tlsFlags) over(ln net.Listener) net.Listener {
	if f.certificate == nil {
		return ln
	}
	return tls.NewListener(ln, &tls.Config{GetCertificate: f.certificate.get, NextProtos: []string{"h2", "http/1.1"}})
}

// inside is the listener whose address agents of this machine are given: ln, or, with TLS, a loopback one of
// its own. A certificate names where people reach the server, so that no agent could verify it at 127.0.0.1.
func (f *tlsFlags) inside(ln net.Listener) (net.Listener, error) {
	if f.certificate == nil {
		return ln, nil
	}
	return net.Listen("tcp", "127.0.0.1:0")
}

// checkURLs refuses agents on other machines that would be called unencrypted.
func (f *tlsFlags) checkURLs(agents []agentFlag) error {
	for _, a := range agents {
		if err := checkFar("--agent "+a.id, a.url, f.Insecure); err != nil {
			return err
		}
	}
	return nil
}

// checkCalled does the same for the servers of models, which get keys and prompts, and for MCP servers, which get tokens and arguments.
func (f *tlsFlags) checkCalled(upstreams []llmproxy.Upstream, servers []mcpFlag) error {
	for _, up := range upstreams {
		if err := checkFar("the upstream "+up.Name+" of models", up.URL, f.Insecure); err != nil {
			return err
		}
	}
	for _, of := range servers {
		if err := checkFar("--mcp "+of.Name, of.URL, f.Insecure); err != nil {
			return err
		}
	}
	return nil
}

// checkFar refuses an unencrypted URL of another machine. What is sent to it (tokens, prompts,
// decisions) could be read and changed by everybody on the way.
func checkFar(what, raw string, insecure bool) error {
	u, err := url.Parse(raw)
	if err != nil || insecure || onThisMachine(u.Hostname()) { // what is no URL fails where it is used
		return nil
	}
	safe := map[string]string{"http": "https", "ws": "wss"}[u.Scheme]
	if safe == "" {
		return nil
	}
	return fmt.Errorf("%s: %s://%s is another machine, and everybody on the way could read and change what is sent, tokens too; use %s://, or say --insecure",
		what, u.Scheme, u.Host, safe)
}

// insecureWarning is printed by every command that was started with --insecure.
const insecureWarning = "--insecure: everybody on the way to another machine can read and change what is sent there by http:// or ws://, tokens too"

// certificateCheck is how often the files are looked at, at most: at a handshake. So a renewal needs no restart and
// no signal.
const certificateCheck = time.Second

// certificate is a certificate with its key, as the files have them now. mu guards what is below it; handshakes come
// from many goroutines, and those that come while the files are read wait for the one reading.
type certificate struct {
	cert, key string // paths
	log       *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	seen    [2]os.FileInfo // the files that current was read from, or that could not be used
	checked time.Time
}

// load reads the files.
func (c *certificate) load() error {
	seen, err := c.stat()
	if err != nil {
		return err
	}
	return c.read(seen)
}

// stat looks at both files without reading them.
func (c *certificate) stat() (seen [2]os.FileInfo, err error) {
	for i, path := range []string{c.cert, c.key} {
		if seen[i], err = os.Stat(path); err != nil {
			return seen, fmt.Errorf("--tls-cert, --tls-key: %w", err)
		}
	}
	return seen, nil
}

// read replaces current when both files belong together. seen is set in any case, so that a bad pair is logged once
// and not at each handshake.
func (c *certificate) read(seen [2]os.FileInfo) error {
	c.seen, c.checked = seen, time.Now()
	// seen is from before the files are read: what changes in between is read again at the next look.
	cert, err := os.ReadFile(c.cert)
	if err != nil {
		return fmt.Errorf("--tls-cert: %w", err)
	}
	key, err := secretfile.ReadBytes(c.key)
	if err != nil {
		return fmt.Errorf("--tls-key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("--tls-cert %s, --tls-key %s: %w", c.cert, c.key, err)
	}
	c.current = &pair
	return nil
}

// get implements tls.Config.GetCertificate. Where files that changed cannot be used, what was read
// before stays: a renewal writes the certificate and the key one after the other, and
// handshakes in between find two that do not belong together.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.checked) < certificateCheck {
		return c.current, nil
	}
	c.checked = time.Now() // also where stat fails, so that a missing file is not logged at each handshake
	seen, err := c.stat()
	if err == nil && !c.changed(seen) {
		return c.current, nil
	}
	if err == nil {
		err = c.read(seen)
	}
	if err != nil {
		c.log.Warn("the certificate could not be read again; the one before stays", slog.Any("error", err))
		return c.current, nil
	}
	c.log.Info("the certificate has changed and was read again", slog.String("file", c.cert))
	return c.current, nil
}

// changed compares the files with those that were read. A file that was replaced by rename is another file even with
// the same time and size.
func (c *certificate) changed(now [2]os.FileInfo) bool {
	for i, was := range c.seen {
		if !os.SameFile(was, now[i]) || !was.ModTime().Equal(now[i].ModTime()) || was.Size() != now[i].Size() || was.Mode() != now[i].Mode() {
			return true
		}
	}
	return false
}
