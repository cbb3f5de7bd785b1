package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"aqueduct/acpgateway/proxy"
)

// proxyCmd runs ACP agents here and carries them to a gateway elsewhere.
type proxyCmd struct {
	URL           string   `required:"" help:"The gateway: ws://host/ws/agent." placeholder:"URL"`
	TokenFile     string   `help:"File that holds the token. It is read again at each connection." placeholder:"FILE"`
	RegisterURL   string   `help:"Where a token is got with the bootstrap token instead." placeholder:"URL"`
	BootstrapFile string   `help:"File that holds the bootstrap token." placeholder:"FILE"`
	ID            string   `help:"Id of this proxy, the one the token is for; the host's name by default."`
	Name          string   `help:"Name shown to people; the id by default."`
	Cwd           string   `help:"Directory all agents work in." placeholder:"DIR"`
	Workspaces    string   `help:"Directory that gets one workspace for each run instead." placeholder:"DIR"`
	AgentHome     string   `help:"Home directory of the agents, which the gateway may write inputs to." placeholder:"DIR"`
	InputRoot     []string `help:"Directory that agent inputs may be copied or linked from (repeatable)." placeholder:"DIR"`
	MaxConcurrent int      `help:"Agents alive at a time; 0 is no limit."`
	AgentFS       bool     `help:"Let agents read and write files of the workspace through the proxy."`
	AgentTerminal bool     `help:"Let agents run commands through the proxy."`
	LogFormat     string   `enum:"text,json" default:"text" help:"Form of the log: text or json."`
	Command       []string `arg:"" passthrough:"" help:"The agent's command, after --."`
}

// Run implements the command.
func (c *proxyCmd) Run(ctx context.Context, to output) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	cfg.Log = newLogger(c.LogFormat, to.log)
	p, err := proxy.New(cfg)
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

func (c *proxyCmd) config() (proxy.Config, error) {
	id := c.ID
	if id == "" {
		host, err := os.Hostname()
		if err != nil {
			return proxy.Config{}, err
		}
		id = host
	}
	command := c.Command
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	cfg := proxy.Config{
		URL: c.URL, ID: id, Name: c.Name, Command: command, Cwd: c.Cwd, Workspaces: c.Workspaces, Home: c.AgentHome,
		InputRoots: c.InputRoot, MaxConcurrent: c.MaxConcurrent, FS: c.AgentFS, Terminal: c.AgentTerminal,
		Version: version(),
	}
	switch {
	case c.TokenFile != "" && c.RegisterURL != "":
		return cfg, errors.New("proxy: name either --token-file or --register-url")
	case c.TokenFile != "":
		cfg.Token = proxy.FileToken(c.TokenFile)
	case c.RegisterURL != "" && c.BootstrapFile != "":
		secret, err := os.ReadFile(c.BootstrapFile)
		if err != nil {
			return cfg, err
		}
		cfg.Token = proxy.Register(c.RegisterURL, strings.TrimSpace(string(secret)), id, c.Name)
	default:
		return cfg, errors.New("proxy: it needs --token-file, or --register-url with --bootstrap-file")
	}
	return cfg, nil
}
