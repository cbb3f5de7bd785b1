// MCP servers whose tools agents may have run (--mcp): commands that are started here, and addresses.

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/kballard/go-shellquote"

	"aqueduct/bridge/mcpservers"
	"aqueduct/bridge/outbound"
	"aqueduct/internal/child"
	"aqueduct/internal/ownfile"
	"aqueduct/internal/secretfile"
)

// mcpFlags name the servers.
type mcpFlags struct {
	MCP          []mcpFlag      `name:"mcp" sep:"none" help:"An MCP server whose tools agents may have run, as NAME=\"command\" or NAME=https://…; repeatable." placeholder:"NAME=COMMAND|URL"`
	MCPTokenFile []mcpTokenFlag `name:"mcp-token-file" help:"File with the token that an --mcp URL is called with, as NAME=FILE; repeatable." placeholder:"NAME=FILE"`
	MCPEnv       []mcpNamedFlag `name:"mcp-env" help:"Variable that the command of an --mcp inherits although it looks like a secret, as in NAME=GITHUB_TOKEN; repeatable." placeholder:"NAME=VARIABLE"`

	changed func() // is called when there is something to see of the servers, where it is set
}

// mcpFlag is NAME=COMMAND or NAME=URL. host is kept for the list of addresses that may be called.
type mcpFlag struct {
	mcpservers.Server
	host string
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *mcpFlag) UnmarshalText(text []byte) error {
	name, rest, ok := strings.Cut(string(text), "=")
	if !ok || !mcpservers.ValidName(name) {
		return fmt.Errorf("expected NAME=\"command\" or NAME=https://…; the name is 1 to 32 letters, digits, underscores or hyphens")
	}
	f.Name = name
	if strings.HasPrefix(rest, "http://") || strings.HasPrefix(rest, "https://") {
		u, err := url.Parse(rest)
		if err != nil || u.Host == "" {
			return fmt.Errorf("%s is not an address", name)
		}
		f.URL, f.host = rest, u.Host
		return nil
	}
	words, err := shellquote.Split(rest)
	if err != nil || len(words) == 0 {
		return fmt.Errorf("expected a command, as in --mcp %q", "files=npx -y @modelcontextprotocol/server-filesystem /srv")
	}
	f.Command = words
	return nil
}

// mcpNamedFlag is NAME=VALUE.
type mcpNamedFlag struct{ name, value string }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *mcpNamedFlag) UnmarshalText(text []byte) error {
	var ok bool
	if f.name, f.value, ok = strings.Cut(string(text), "="); !ok || f.value == "" {
		return fmt.Errorf("expected the NAME of an --mcp, =, and a value")
	}
	return nil
}

// mcpTokenFlag is NAME=FILE.
type mcpTokenFlag struct {
	name string
	file ownfile.Secret
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *mcpTokenFlag) UnmarshalText(text []byte) error {
	var named mcpNamedFlag
	err := named.UnmarshalText(text)
	f.name, f.file = named.name, ownfile.Secret(named.value)
	return err
}

// config is that of the servers, nil without any. What their hosts resolve to may be private and this machine, for the
// operator named them. A redirect is not followed: it would take the token elsewhere.
func (f mcpFlags) config(confined func() (*child.Confinement, error)) (*mcpservers.Config, error) {
	servers, err := f.servers()
	if err != nil || len(servers) == 0 {
		return nil, err
	}
	allow := []string{"127.0.0.0/8", "::1/128"} // localhost may resolve to either
	commands := false
	for _, of := range f.MCP {
		commands = commands || of.URL == ""
		if of.URL != "" {
			allow = append(allow, of.host)
		}
	}
	gate, err := outbound.New(outbound.Config{Allow: allow, Limits: outbound.Limits{FirstByte: -1, Total: -1, Body: -1, Redirects: -1}})
	if err != nil {
		return nil, fmt.Errorf("--mcp: %w", err)
	}
	for _, of := range f.MCP {
		if of.URL == "" {
			continue
		}
		if err := gate.CheckURL(of.URL); err != nil {
			return nil, fmt.Errorf("--mcp %s: %w", of.Name, err)
		}
	}
	cfg := &mcpservers.Config{Servers: servers, Version: version(), Client: gate.Client(), Changed: f.changed}
	if commands {
		cfg.Confine, err = confined()
	}
	return cfg, err
}

// servers are those of --mcp, with what the other flags give to each.
func (f mcpFlags) servers() ([]mcpservers.Server, error) {
	var list []mcpservers.Server
	byName := make(map[string]int)
	for _, of := range f.MCP {
		if _, twice := byName[of.Name]; twice {
			return nil, fmt.Errorf("--mcp: there are two servers named %s", of.Name)
		}
		byName[of.Name] = len(list)
		list = append(list, of.Server)
	}
	for _, named := range f.MCPTokenFile {
		i, ok := byName[named.name]
		if !ok || list[i].URL == "" {
			return nil, fmt.Errorf("--mcp-token-file %s: there is no --mcp URL of that name", named.name)
		}
		token, err := secretfile.Read(string(named.file))
		if err != nil {
			return nil, fmt.Errorf("--mcp-token-file %s: %w", named.name, err)
		}
		list[i].Token = token
	}
	for _, named := range f.MCPEnv {
		i, ok := byName[named.name]
		if !ok || list[i].URL != "" {
			return nil, fmt.Errorf("--mcp-env %s: there is no --mcp command of that name", named.name)
		}
		list[i].Pass = append(list[i].Pass, named.value)
	}
	return list, nil
}

// mcpStartWait bounds how long being ready waits for the tools of --mcp. npx downloads a package at its first start; a
// balancer has other replicas meanwhile.
const mcpStartWait = 30 * time.Second

// awaitMCP returns when every server has listed its tools or has failed, whose reason is in the log; at the latest after
// mcpStartWait.
func awaitMCP(ctx context.Context, servers *mcpservers.Servers, log *slog.Logger) {
	if servers == nil {
		return
	}
	waits, cancel := context.WithTimeout(ctx, mcpStartWait)
	defer cancel()
	servers.Await(waits)
	if waits.Err() != nil && ctx.Err() == nil {
		log.Warn("ready, although MCP servers have not listed their tools yet", slog.Duration("waited", mcpStartWait))
	}
}
