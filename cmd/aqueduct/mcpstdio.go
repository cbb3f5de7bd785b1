// aqueduct mcp: MCP over standard streams, for clients that start their servers. It passes on to a running server, or starts
// one of its own for a single MCP server, which is then gated without a change of it or its client.

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/kballard/go-shellquote"
	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"

	"aqueduct/bridge/mcpservers"
	"aqueduct/internal/mcpstdio"
	"aqueduct/internal/wake"
	"aqueduct/server/auth"
)

// mcpCmd is the command. Its standard output is the protocol's; what is for people goes to standard error.
type mcpCmd struct {
	Server clientFlags `embed:""`
	Thread string      `help:"Thread of the running server that the calls are shown in; \"mcp\" when not given." placeholder:"ID"`

	Wrap        string        `help:"Start this MCP server and gate its tools here, without a running server: a command or a URL." placeholder:"COMMAND|URL"`
	As          string        `default:"wrapped" help:"Name of the server of --wrap in rules of a policy, as in NAME.TOOL." placeholder:"NAME"`
	Allow       []string      `help:"Tools of --wrap that run unasked, as in read_*; repeatable." placeholder:"TOOL"`
	PolicyFile  string        `help:"Rules for the tools of --wrap, as of aqueduct serve." placeholder:"FILE"`
	ToolTimeout time.Duration `help:"How long a tool of --wrap may run; 24h when not given." placeholder:"DURATION"`

	PageListen string `default:"127.0.0.1:0" help:"Address of the page of --wrap, where calls are approved that the client does not ask about."`
}

// wrapFolder is the folder of --wrap in the state folder where --state does not name another: it keeps the token of the page,
// and the record of calls while a run lasts.
const wrapFolder = "mcp"

// wrappedTime is how long a tool of --wrap may run: without the gate nothing ended it but its client.
const wrappedTime = 24 * time.Hour

// Run implements the command.
func (m *mcpCmd) Run(ctx context.Context, to output, set *settings) error {
	if m.Wrap != "" {
		if m.Thread != "" {
			return errors.New("--thread is for a running server: the calls of --wrap are in no thread that could be read later")
		}
		return m.wrapped(ctx, to)
	}
	if len(m.Allow) > 0 {
		return errors.New("--allow is for --wrap: a running server has a policy of its own")
	}
	if m.ToolTimeout != 0 {
		return errors.New("--tool-timeout is for --wrap: a running server has one of its own")
	}
	token, err := m.Server.token(set.env)
	if err != nil {
		return err
	}
	if m.Server.Insecure {
		fmt.Fprintln(to.log, "aqueduct:", insecureWarning)
	}
	return relayMCP(ctx, to, m.Server.URL, m.Thread, token, mcpstdio.Config{})
}

// relayMCP answers the client at the standard streams by a server.
func relayMCP(ctx context.Context, to output, server, thread string, token auth.Secret, cfg mcpstdio.Config) error {
	cfg.URL = strings.TrimRight(server, "/") + "/mcp"
	if thread != "" {
		cfg.URL += "?thread=" + url.QueryEscape(thread)
	}
	cfg.Client = &http.Client{Transport: tokenTransport{token}, CheckRedirect: noRedirect}
	cfg.Version, cfg.In, cfg.Out = version(), os.Stdin, closer{to.out}
	return mcpstdio.Serve(ctx, cfg)
}

// closer is an output that the protocol's library closes at the end.
type closer struct{ io.Writer }

// Close implements io.Closer; the process ends behind it.
func (closer) Close() error { return nil }

// tokenTransport shows a token.
type tokenTransport struct{ token auth.Secret }

// RoundTrip implements http.RoundTripper.
func (b tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(b.token)))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// noRedirect has a redirect be the answer: it would take the token elsewhere.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// wrapped starts a server for one MCP server, in this process, and passes on to it. Two clients that wrap the same server have
// a server each: only the token of the page is kept, so that a browser signs in once.
func (m *mcpCmd) wrapped(ctx context.Context, to output) error {
	if !mcpservers.ValidName(m.As) {
		return fmt.Errorf("--as %s: a name is 1 to 32 letters, digits, underscores or hyphens", m.As)
	}
	state := m.Server.Files.dir
	if !m.Server.Files.named {
		state = m.Server.Files.in(wrapFolder)
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	folder, held, err := runFolder(state)
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	defer held.Close()
	defer os.RemoveAll(folder)
	tokenFile := filepath.Join(state, tokenName)
	token, err := auth.LoadToken(tokenFile)
	if err != nil {
		return err
	}
	serve, err := m.server(folder, tokenFile, to)
	if err != nil {
		return err
	}
	started, changed := make(chan string, 1), wake.New()
	serve.wraps = true
	// The client's first list waits for the first ring: by then the wrapped server has listed its tools, or could not
	// be reached.
	serve.MCP.changed = changed.Ring
	serve.started = func(page string, callers *auth.Auth) {
		fmt.Fprintf(to.log, "aqueduct: calls are approved at %s/#sign-in=%s (the link works once; later: aqueduct token show --token-file %s)\n",
			page, string(callers.IssueSignInCode()), shellquote.Join(tokenFile))
		started <- page
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// Either ends the other: a client that leaves ends the server, and a server that fails ends the relay.
	var both errgroup.Group
	both.Go(func() error {
		defer stop()
		return serve.Run(ctx, output{to.log, to.log})
	})
	both.Go(func() error {
		defer stop() // the client has left
		select {
		case page := <-started:
			return relayMCP(ctx, to, page, "", token, mcpstdio.Config{Prefix: m.As + ".", Changed: changed})
		case <-ctx.Done():
			return nil
		}
	})
	return both.Wait()
}

// server is the command serve with the flags that --wrap stands for. It takes nothing from the environment: settings there
// are of another server.
func (m *mcpCmd) server(folder, tokenFile string, to output) (*serveCmd, error) {
	rules := m.PolicyFile
	if len(m.Allow) > 0 {
		if rules != "" {
			return nil, errors.New("--allow and --policy-file are two ways to name the same; use one")
		}
		rules = filepath.Join(folder, "policy.yaml")
		if err := m.writeAllowed(rules); err != nil {
			return nil, err
		}
	}
	// The command has as much time as if its client had started it. The name of the
	// folder is that of the replica, so that two runs never fence each other.
	args := []string{
		"serve", "--listen", m.PageListen, "--state", folder, "--token-file", tokenFile, "--mcp", m.As + "=" + m.Wrap,
		"--name", filepath.Base(folder),
		"--tool-timeout", cmp.Or(m.ToolTimeout, wrappedTime).String(),
	}
	if rules != "" {
		args = append(args, "--policy-file", rules)
	}
	if m.Server.Insecure {
		args = append(args, "--insecure")
	}
	var flags cli
	parser, err := kong.New(&flags, kong.Writers(to.log, to.log), kong.Exit(func(int) {}), kong.Bind(&settings{}))
	if err != nil {
		return nil, err
	}
	if _, err := parser.Parse(args); err != nil {
		return nil, err
	}
	flags.Serve.MCP.MCPEnv = m.variables(os.Environ())
	return &flags.Serve, nil
}

// variables are those that a command of --wrap gets: the client gave them to it by giving them to this program. They are no flags,
// where a comma in a name would make two of one.
func (m *mcpCmd) variables(environ []string) (pass []mcpNamedFlag) {
	if strings.HasPrefix(m.Wrap, "http://") || strings.HasPrefix(m.Wrap, "https://") {
		return nil
	}
	for _, pair := range environ {
		if name, _, _ := strings.Cut(pair, "="); name != "" && !strings.HasPrefix(name, "AQUEDUCT_") {
			pass = append(pass, mcpNamedFlag{m.As, name})
		}
	}
	return pass
}

// writeAllowed writes the policy of --allow. A name without a dot is one of the server's.
func (m *mcpCmd) writeAllowed(path string) error {
	risks := make(map[string]string)
	for _, tool := range m.Allow {
		if tool == "" {
			return errors.New("--allow: the name of a tool is missing")
		}
		risks[m.As+"."+strings.TrimPrefix(tool, m.As+".")] = "low"
	}
	raw, err := yaml.Marshal(map[string]any{"tools": risks})
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o600)
}
