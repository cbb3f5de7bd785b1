// The token of this machine's server: where it lies, how serve greets with it, and how commands that call a server
// find it.

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/kballard/go-shellquote"

	"aqueduct/internal/child"
	"aqueduct/internal/secretfile"
	"aqueduct/server/auth"
)

// tokenName is the file of the token that serve makes at its first start.
const tokenName = "token"

// readToken reads a token from a file that the operator provided.
func readToken(path string) (auth.Secret, error) {
	raw, err := secretfile.Read(path)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	return auth.Secret(raw), nil
}

// cookies are for https alone where people reach the server by it. serve's own https is seen at each request.
func (s *serveCmd) cookies(a *auth.Auth) *auth.Auth {
	if u, err := url.Parse(s.Notify.PublicURL); err == nil && u.Scheme == "https" {
		return a.WithSecureCookies()
	}
	return a
}

// callers are those of --auth. A token file that is named must be there: making it would hide that a mount is
// missing. A token is made where no file was named, in the state folder, so that the first start needs no
// preparation.
func (s *serveCmd) callers() (*auth.Auth, error) {
	if s.Auth == "none" {
		return s.cookies(auth.None()), nil
	}
	var (
		token auth.Secret
		err   error
	)
	if s.TokenFile != "" {
		token, err = readToken(string(s.TokenFile))
	} else {
		token, err = auth.LoadToken(s.Files.in(tokenName))
	}
	if err != nil {
		return nil, err
	}
	a, err := auth.Static(token)
	if err != nil {
		return nil, err
	}
	return s.cookies(a).WithUsers(s.TokenUsers).WithLateKeys((&lateKeys{files: &s.Files}).file), nil
}

// greet prints where the server listens and, when it made the token itself, how to begin: a link
// that signs the page in, once, and a first stream to copy. It is one write, so that who reads
// the first line alone leaves nothing in a pipe that would block. The link goes nowhere else.
func (s *serveCmd) greet(out io.Writer, callers *auth.Auth, self string, log *slog.Logger) {
	text := "listening on " + self + "\n"
	switch {
	case callers.Open():
		log.Warn("--auth none: every program and user of this machine may do everything here, agents too; nobody is asked for a token")
	// Who named a file has the token, and a link in the output of a service would stay in its log.
	case s.TokenFile == "":
		text += firstSteps(cmp.Or(strings.TrimRight(s.Notify.PublicURL, "/"), self), self, s.Files.showToken(), callers.IssueSignInCode())
	}
	_, _ = io.WriteString(out, text) // who has closed the output wants to read nothing
}

// showToken is the command that prints the token. The program is named whole, so that the line can be copied in any folder.
func (f *stateFlags) showToken() string {
	program, err := os.Executable()
	if err != nil {
		program = "aqueduct"
	}
	words := []string{program, "token", "show"}
	if usual, err := defaultState(os.Getenv); err != nil || child.RealPath(usual) != f.dir {
		words = append(words, "--state", f.dir)
	}
	return shellquote.Join(words...)
}

// firstSteps is the text of the greeting. show prints the token.
func firstSteps(page, self, show string, code auth.Secret) string {
	return fmt.Sprintf(`
open this link to sign in (it works once, within %s):
  %s/#sign-in=%s
or copy this line for a first stream:
  curl -N %s/api/agui/chat -H "Authorization: Bearer $(%s)" -H 'content-type: application/json' -d '{"messages":[{"id":"u1","role":"user","content":"hi"}]}'

`, fmt.Sprintf("%d minutes", int(auth.SignInCodeTTL.Minutes())), page, string(code), self, show)
}

// clientFlags are those of commands that call a server.
type clientFlags struct {
	URL       string     `default:"http://127.0.0.1:8080" help:"The server."`
	TokenFile string     `help:"File that holds the token. Without it, $AQUEDUCT_TOKEN is the token; without that, for a server on this machine, the file that serve has made in its state folder." placeholder:"FILE"`
	Insecure  bool       `help:"Let a server on another machine be called by http://."`
	Files     stateFlags `embed:""`
}

// token is the one to show to the server; "" is none. The file of this machine's own server is for a server on this
// machine alone: another one would get a credential it should not have. The order is that of how exactly the operator
// named it: file, environment, then the machine's own.
func (c *clientFlags) token(env lookup) (auth.Secret, error) {
	if err := checkFar("--url", c.URL, c.Insecure); err != nil {
		return "", err
	}
	if c.TokenFile != "" {
		return readToken(c.TokenFile)
	}
	if token, ok := env("AQUEDUCT_TOKEN"); ok && token != "" {
		return auth.Secret(token), nil
	}
	u, err := url.Parse(c.URL)
	if err != nil || !onThisMachine(u.Hostname()) {
		return "", nil
	}
	raw, err := secretfile.Read(c.Files.in(tokenName))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil // a server of --auth none, or in another folder: its answer names what is missing
	}
	return auth.Secret(raw), err
}

// onThisMachine reports whether a host of a URL is loopback by its name or address.
func onThisMachine(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	// RFC 6761 gives every name below localhost to loopback.
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// tokenShowCmd prints the token of the server on this machine, for scripts. It reads the file and asks no server.
type tokenShowCmd struct {
	TokenFile string     `help:"File that holds the token; the one that serve has made by default." placeholder:"FILE"`
	Files     stateFlags `embed:""`
}

// Run implements the command.
func (c *tokenShowCmd) Run(to output) error {
	token, err := readToken(cmp.Or(c.TokenFile, c.Files.in(tokenName)))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(to.out, string(token))
	return err
}
