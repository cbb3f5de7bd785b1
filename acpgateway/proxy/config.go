package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"time"

	"aqueduct/internal/child"
)

const (
	// Down to keepaliveMost the numbers are the contract's, by which the gateway waits as well: one end alone must
	// not change them. keepaliveLeast and keepaliveMost are in seconds, as keepalive_ttl_seconds is on the wire.
	heartbeatEvery = 30 * time.Second
	inventoryEvery = 300 * time.Second

	openTimeout    = 300 * time.Second // starting an agent, and any call that is not a prompt
	promptTimeout  = 3600 * time.Second
	promptShortest = 5 * time.Second
	promptLongest  = 24 * time.Hour
	controlTimeout = 60 * time.Second
	authTimeout    = 30 * time.Second
	initTimeout    = 300 * time.Second
	keepalive      = 1800 * time.Second
	keepaliveLeast = 60
	keepaliveMost  = 86400

	// cancelGrace is how long an agent may take to end a prompt whose time is over.
	cancelGrace = 10 * time.Second
	// stopGrace is how long a process group may take to end before it is killed.
	stopGrace = 5 * time.Second
	// flushGrace is how long the last frames may take when the proxy ends.
	flushGrace = 2 * time.Second

	lineBytes  = 64 << 20 // one line of an agent: whole files come in one
	frameBytes = 15 << 20 // one frame to the gateway, which takes 16 MiB
	queued     = 64       // prompts and opens that wait in one run
	controls   = 256      // controls under way at a time, and an agent's open requests
)

// Config describes a proxy.
type Config struct {
	URL   string // of /ws/agent
	ID    string
	Name  string
	Token func(context.Context) (string, error) // asked for each link
	// Renews is set if Token returns a long-lived token that changes in time. The proxy then calls Token while a link holds
	// too, and logs how long the token is valid.
	Renews bool

	// Register returns a new token after the server refused the given one. A nil Register gets no new token.
	Register func(ctx context.Context, refused string) (string, error)

	Command []string // the agent's
	Env     []string // added to ours for the agent
	Pass    []string // names of secrets in our environment that the agent gets all the same; see secretNames

	// Confine is what agents are kept from; nil is nothing.
	Confine *child.Confinement

	// State is the proxy's own folder; "" is none. What it keeps there tells the gateway that a proxy which was started again
	// is no stranger.
	State string

	// Cwd is where all agents work. With Workspaces each run gets a directory of its own
	// below it instead.
	Cwd        string
	Workspaces string
	Source     string   // what a new workspace begins as: a git worktree of it, or a copy where git does not know it; "" is an empty one
	Home       string   // target root USER_HOME of agent inputs; empty refuses it
	InputRoots []string // what agent inputs may be taken from, beside the workspace

	Version string // of this program, announced to agents

	MaxConcurrent int  // agents alive at a time; 0 is no limit
	FS            bool // the agent may read and write files through us
	Terminal      bool // and run commands

	Capabilities json.RawMessage // a JSON object, announced beside this proxy's own

	Heartbeat time.Duration
	Inventory time.Duration // negative: only when it links

	// EnvAllowed names the variables that the agent gets of the environment that the gateway sends; nil allows all.
	EnvAllowed []string
	// DownloadMost bounds the bytes of one archive among agent inputs. 0 is the maximum for any archive.
	DownloadMost int64
	Log          *slog.Logger
}

// What is wrong is reported at the start, with the name of the setting's meaning; a proxy that runs has a good Config.
func (c Config) checked() (Config, error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || (u.Scheme != "ws" && u.Scheme != "wss") || u.Host == "":
		return c, fmt.Errorf("proxy: %q is not a ws:// or wss:// address", c.URL)
	case u.User != nil || u.Query().Has("token"):
		return c, errors.New("proxy: a token does not belong into an address, which is logged")
	case c.ID == "":
		return c, errors.New("proxy: it needs an id")
	case len(c.Command) == 0:
		return c, errors.New("proxy: it needs an agent's command")
	case c.Token == nil:
		return c, errors.New("proxy: it needs a token")
	}
	if c.Source != "" && c.Workspaces == "" {
		return c, errors.New("proxy: a source for workspaces needs a directory for them")
	}
	if c.Name == "" {
		c.Name = c.ID
	}
	if c.Version == "" {
		c.Version = "0.0.0"
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = heartbeatEvery
	}
	if c.Inventory == 0 {
		c.Inventory = inventoryEvery
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, c.absolute()
}

// absolute fixes the directories: agents get absolute paths.
func (c *Config) absolute() error {
	if c.Cwd == "" && c.Workspaces == "" {
		c.Cwd = "."
	}
	for _, dir := range []*string{&c.Cwd, &c.Workspaces, &c.Source, &c.Home, &c.State} {
		if *dir == "" {
			continue
		}
		whole, err := filepath.Abs(*dir)
		if err != nil {
			return err
		}
		*dir = whole
	}
	if c.Source != "" && child.Inside(c.Source, c.Workspaces) {
		return errors.New("proxy: the workspaces cannot lie inside what they are copies of")
	}
	return nil
}
