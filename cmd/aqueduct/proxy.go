// aqueduct proxy: runs ACP agents on this machine for a gateway elsewhere. What it does is in acpgateway/proxy; here
// are its flags, its identity and its tokens.

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/kballard/go-shellquote"

	"aqueduct/acpgateway/proxy"
	"aqueduct/bridge/redact"
	"aqueduct/internal/ownfile"
	"aqueduct/internal/secretfile"
)

// proxyCmd runs ACP agents here and carries them to a gateway elsewhere. Its settings file may
// also hold auth_token and bootstrap_token, and may be that of the contract's own proxy.
type proxyCmd struct {
	URL           string         `required:"" help:"The gateway: ws://host/ws/agent." placeholder:"URL"`
	TokenFile     ownfile.Secret `help:"File that holds the token. It is read again at each connection." placeholder:"FILE"`
	RegisterURL   string         `help:"Where a token is got with the bootstrap token: when there is none, or it is refused." placeholder:"URL"`
	BootstrapFile ownfile.Secret `help:"File that holds the bootstrap token." placeholder:"FILE"`
	ID            string         `help:"Id of this proxy, the one the token is for; the host's name by default."`
	Name          string         `help:"Name shown to people; the id by default."`
	Cwd           string         `help:"Directory all agents work in." placeholder:"DIR"`
	Workspaces    string         `help:"Directory that gets one workspace for each run instead." placeholder:"DIR"`
	WorkspaceFrom string         `help:"Directory that a new workspace is a git worktree of, or a copy where it is not git's; empty ones by default." placeholder:"DIR"`
	AgentHome     string         `help:"Home directory of the agents, which the gateway may write inputs to." placeholder:"DIR"`
	InputRoot     []string       `help:"Directory that agent inputs may be copied or linked from (repeatable)." placeholder:"DIR"`
	MaxConcurrent int            `help:"Agents alive at a time; 0 is no limit."`
	AgentFS       bool           `help:"Let agents read and write files of the workspace through the proxy."`
	AgentTerminal bool           `help:"Let agents run commands through the proxy."`
	AgentCommand  commandFlag    `help:"The agent's command, when none follows --." placeholder:"COMMAND"`
	State         ownfile.Secret `help:"This proxy's own folder, where it keeps who it is; by default a folder named after the gateway and its id, below the folder that serve takes for its state." placeholder:"DIR"`
	Heartbeat     time.Duration  `default:"30s" help:"How often the gateway gets a sign of life."`
	Confine       confineFlags   `embed:""`
	LogFormat     string         `enum:"text,json" default:"text" help:"Form of the log: text or json."`
	Insecure      bool           `help:"Let a gateway on another machine be reached by ws:// and http://."`
	Command       []string       `arg:"" optional:"" passthrough:"" help:"The agent's command, after --."`
}

// commandFlag is an agent's command: one line as a shell splits it, or a list of words. The contract's settings file
// has the list, a command line the text.
type commandFlag []string

// Decode implements kong.MapperValue.
func (c *commandFlag) Decode(ctx *kong.DecodeContext) (err error) {
	switch value := ctx.Scan.Pop().Value.(type) {
	case string:
		*c, err = shellquote.Split(value)
		return err
	case []any:
		*c = nil
		for _, word := range value {
			text, ok := word.(string)
			if !ok {
				return errors.New("a word of the command is not a text")
			}
			*c = append(*c, text)
		}
		return nil
	}
	return errors.New("expected a command, or a list of its words")
}

// Run implements the command. A settings file that holds a token must not be readable by others, and is checked
// before anything is sent.
func (c *proxyCmd) Run(ctx context.Context, to output, set *settings) error {
	// The file's mode is checked before a secret is read out of it.
	err := errors.Join(checkFar("--url", c.URL, c.Insecure), checkFar("--register-url", c.RegisterURL, c.Insecure), set.checkMode())
	if err != nil {
		return err
	}
	cfg, err := c.config(set)
	if err != nil {
		return err
	}
	cfg.Log = newLogger(c.LogFormat, to.log, redact.Forms())
	if c.Insecure {
		cfg.Log.Warn(insecureWarning)
	}
	if cfg.Confine, err = c.confinement(cfg); err != nil {
		return err
	}
	p, err := proxy.New(cfg)
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// config is the proxy's configuration, from flags and the contract's settings file. The command behind -- wins over
// the one of the settings.
func (c *proxyCmd) config(set *settings) (proxy.Config, error) {
	id := c.ID
	if id == "" {
		// A second proxy of one host for the same gateway would have the same folder, whose lock refuses it
		// (proxy.Config.State): it needs an id of its own.
		host, err := os.Hostname()
		if err != nil {
			return proxy.Config{}, err
		}
		id = host
	}
	command := c.Command // kong passes the -- through with it
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if len(command) == 0 {
		command = c.AgentCommand
	}
	cfg := proxy.Config{
		URL: c.URL, ID: id, Name: c.Name, Command: command, Cwd: c.Cwd, Workspaces: c.Workspaces, Source: c.WorkspaceFrom, Home: c.AgentHome,
		State: string(c.State), InputRoots: c.InputRoot, MaxConcurrent: c.MaxConcurrent, FS: c.AgentFS, Terminal: c.AgentTerminal,
		Version: version(), Renews: true, Heartbeat: c.Heartbeat, Env: set.contract.env, Capabilities: set.contract.capabilities, Pass: c.Confine.ACPEnv,
		Inventory: set.contract.inventory, EnvAllowed: set.contract.envAllowed, DownloadMost: set.contract.downloadMost,
	}
	if cfg.State == "" {
		var err error
		if cfg.State, err = stateOf(c.URL, id); err != nil {
			return cfg, err
		}
	} else if err := os.MkdirAll(cfg.State, 0o700); err != nil { // what is not there cannot be hidden from agents
		return cfg, fmt.Errorf("--state: %w", err)
	}
	return cfg, c.tokens(&cfg, set)
}

// stateOf is the folder of a proxy that was given none, below the state folder that every command takes by default: one for
// each gateway and id. It is "" where the user has no place for such things, as in many containers. Two gateways on one
// machine so never share an identity.
func stateOf(gateway, id string) (string, error) {
	base, err := defaultState(os.Getenv)
	if err != nil {
		return "", nil
	}
	host := gateway
	if u, err := url.Parse(gateway); err == nil {
		host = u.Host
	}
	place := filepath.Join("proxies", url.QueryEscape(host), url.QueryEscape(id))
	folder := filepath.Join(base, place)
	// Earlier versions kept it with the user's configuration. A new identity would need a new token.
	if config, err := os.UserConfigDir(); err == nil {
		if earlier := filepath.Join(config, "aqueduct", place); exists(earlier) && !exists(folder) {
			to := shellquote.Join(filepath.Dir(folder))
			return "", fmt.Errorf("%s is this proxy's folder of an earlier version, and %s is its folder now. Move it: mkdir -p -m 700 %s && mv %s %s/ ; or go on where it is: --state %s",
				earlier, folder, to, shellquote.Join(earlier), to, shellquote.Join(earlier))
		}
	}
	// A home that cannot be written to is as good as none: the proxy then runs without an identity that outlives it.
	if os.MkdirAll(folder, 0o700) != nil {
		return "", nil
	}
	return folder, nil
}

// tokens sets the source of tokens. A token file has priority and is read repeatedly, so it may be rotated. Otherwise it is
// the token of the settings, or one that the proxy obtained since and keeps in its state folder. The proxy renews both in
// time.
func (c *proxyCmd) tokens(cfg *proxy.Config, set *settings) error {
	given, err := set.secret(authToken)
	if err != nil {
		return err
	}
	bootstrap, err := c.bootstrap(set)
	if err != nil {
		return err
	}
	registerURL := cmp.Or(c.RegisterURL, registerAt(c.URL))
	var enrol *proxy.Enrolment
	if registerURL != "" {
		enrol = &proxy.Enrolment{URL: registerURL, Bootstrap: bootstrap, Given: given, ID: cfg.ID, Name: c.Name}
		if cfg.State != "" {
			enrol.File = filepath.Join(cfg.State, "token")
		}
	}
	// Without a bootstrap token a refused one could not be replaced: the gateway takes only that or a token that is
	// good.
	if enrol != nil && bootstrap != "" { // whatever the source is, a token that is refused is replaced by a new one
		cfg.Register = enrol.Again
	}
	switch {
	case c.TokenFile != "":
		cfg.Token = proxy.FileToken(string(c.TokenFile))
	case enrol != nil && (given != "" || bootstrap != "" || readable(enrol.File)):
		cfg.Token = enrol.Token
	case given != "":
		cfg.Token = func(context.Context) (string, error) { return given, nil }
	default:
		return errors.New("proxy: it needs a token: --token-file, auth_token in the settings file, or --register-url with --bootstrap-file or bootstrap_token in the settings file")
	}
	return nil
}

// registerAt returns the register route of the gateway at an address, by the paths of the contract; "" for an address with
// another path. That host has already seen the token that is sent there.
func registerAt(gateway string) string {
	u, err := url.Parse(gateway)
	if err != nil {
		return ""
	}
	before, ok := strings.CutSuffix(u.Path, "/ws/agent")
	if !ok {
		return ""
	}
	scheme := map[string]string{"ws": "http", "wss": "https"}[u.Scheme]
	return (&url.URL{Scheme: scheme, Host: u.Host, Path: before + "/api/admin/acp-proxy/register"}).String()
}

// readable reports whether a proxy has kept a token of an earlier start. Whether it is still good is found when it is
// shown.
func readable(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// bootstrap is the bootstrap token; "" is none.
func (c *proxyCmd) bootstrap(set *settings) (string, error) {
	if c.BootstrapFile == "" {
		return set.secret(bootstrapToken)
	}
	return secretfile.Read(string(c.BootstrapFile))
}
