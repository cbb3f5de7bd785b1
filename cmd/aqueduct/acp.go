package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/kballard/go-shellquote"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/proxy"
	"aqueduct/bridge"
	"aqueduct/bridge/proxies"
	"aqueduct/server"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// acpFlags are what serve is told of ACP agents.
type acpFlags struct {
	ACP              []acpFlag     `name:"acp" sep:"none" help:"An ACP agent to run here: its command, or id=\"command\"; repeatable." placeholder:"COMMAND"`
	ACPCwd           string        `name:"acp-cwd" default:"." help:"Directory the agents of --acp work in." placeholder:"DIR"`
	ACPWorkspaces    string        `name:"acp-workspaces" help:"Directory that gets one folder for each thread of --acp: a git worktree of the agent's directory, or a copy where it is not git's." placeholder:"DIR"`
	ACPMaxConcurrent int           `name:"acp-max-concurrent" default:"4" help:"Agents alive at a time, of each --acp; 0 is no limit. One that rests is closed to make room."`
	ACPIdle          time.Duration `name:"acp-idle" default:"5m" help:"How long an agent of --acp may rest before it is closed, where its keepalive says nothing; 60 s to 24 h."`
	ACPAgents        acpAgentsFlag `name:"acp-agents" help:"Settings of ACP agents by id; in the settings file a table, here JSON or YAML." placeholder:"YAML"`
	ACPOpenTimeout   time.Duration `name:"acp-open-timeout" default:"300s" help:"How long an ACP agent may take to start. $ACP_OPEN_TIMEOUT_MS means the same, in milliseconds."`
	ACPPromptTimeout time.Duration `name:"acp-prompt-timeout" default:"3600s" help:"How long an ACP agent may take to answer, open questions apart. $ACP_PROMPT_TIMEOUT_MS means the same, in milliseconds."`
	ACPSilence       time.Duration `name:"acp-silence-timeout" default:"300s" help:"How long an ACP agent may say nothing at all while no tool runs and nobody is asked; the chat hears of it after 30 s. Negative: no limit."`
	ACPToken         bool          `name:"acp-token" default:"true" negatable:"" help:"Give ACP agents AQUEDUCT_BASE_URL and AQUEDUCT_TOKEN, to call tools as their session's agent."`
	ACPMergeTime     time.Duration `name:"acp-merge-time" default:"800ms" help:"How long chunks of one message of an ACP agent are merged into one record."`
	ACPMergeChars    int           `name:"acp-merge-chars" default:"16000" help:"Characters after which such a record is written at once."`
	ProxyGrace       time.Duration `default:"45s" help:"How long a proxy's link may be cut before its turns fail."`
	BootstrapFile    string        `hidden:"" help:"Not taken any more: see aqueduct token bootstrap."`
	Key              keyFlag       `embed:""`
	Confine          confineFlags  `embed:""`
}

// acpFlag is an agent's command, with or without an id.
type acpFlag struct {
	id      string
	command []string
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *acpFlag) UnmarshalText(text []byte) error {
	line := string(text)
	if m := regexp.MustCompile(`^([A-Za-z0-9._-]+)=(.+)$`).FindStringSubmatch(line); m != nil {
		a.id, line = m[1], m[2]
	}
	words, err := shellquote.Split(line)
	if err != nil || len(words) == 0 {
		return fmt.Errorf("expected a command, as in --acp %q", "opencode acp")
	}
	a.command = words
	if a.id == "" {
		a.id = filepath.Base(words[0])
	}
	if !bridge.ValidName(a.id) {
		return fmt.Errorf("%q is not an id; name one, as in --acp id=%q", a.id, line)
	}
	return nil
}

// gatewayOf makes the gateway. Its key is read when the first proxy comes: who has none needs
// no file.
func (s *serveCmd) gatewayOf(log *slog.Logger, st store.Store, r *rooms, directory *bridge.Directory, metrics *server.Metrics, local *auth.Keys) *acpgateway.Gateway {
	keys := &lateKeys{flag: s.ACP.Key, local: local, registry: r.registry}
	agents := make(map[string]acpgateway.AgentConfig, len(s.ACP.ACPAgents.byID))
	for id, a := range s.ACP.ACPAgents.byID {
		agents[id] = a.config()
	}
	var order []string
	for _, a := range s.ACP.ACP {
		order = append(order, a.id)
		// Its proxy is told by local. One elsewhere that serves it too has its own place.
		cfg := agents[a.id]
		cfg.Cwd = ""
		if cfg.Keepalive == 0 {
			cfg.Keepalive = s.ACP.ACPIdle
		}
		agents[a.id] = cfg
	}
	baseURL := s.BaseURL
	if !s.ACP.ACPToken {
		baseURL = ""
	}
	return acpgateway.New(acpgateway.Config{
		BaseURL:      baseURL,
		Authenticate: knownPeer(keys.proxy), Watch: r.registry.Watch, Registry: proxies.New(st), Directory: directory, Spoke: r.sessions.Spoke, Note: r.events.Note,
		Stalled: r.events.Stalled, Hints: r.hints, Agents: agents, Order: append(order, s.ACP.ACPAgents.order...), Logger: log,
		Meter:  acpgateway.Meter{Linked: metrics.ProxiesLinked, Frame: metrics.FrameTaken, Refused: metrics.FrameRefused},
		Limits: acpgateway.Limits{Open: s.ACP.ACPOpenTimeout, Prompt: s.ACP.ACPPromptTimeout, Grace: s.ACP.ProxyGrace, Silence: s.ACP.ACPSilence, MergeTime: s.ACP.ACPMergeTime, MergeChars: s.ACP.ACPMergeChars},
	})
}

// lateKeys are the keys of tokens: those of the file, once they are needed, and those that
// this process made for its own proxies.
type lateKeys struct {
	flag     keyFlag
	local    *auth.Keys
	registry *auth.Registry

	mu     sync.Mutex
	keys   *auth.Keys
	looked time.Time // when the file was last looked at
	state  fileState // what it was then
}

// keyFileRest is how often the file of the keys is looked at for a rotation. Tokens have no influence
// on it: what they name as their key is looked up in memory.
const keyFileRest = 5 * time.Second

// fileState changes when a file is written or replaced.
type fileState struct {
	changed time.Time
	size    int64
}

func (k *lateKeys) proxy(r *http.Request) (acpgateway.Identity, error) {
	c, err := k.local.Proxy(r)
	if err == nil {
		return acpgateway.Identity{ProxyID: c.ProxyID, AgentID: c.AgentID, Name: c.Name}, nil
	}
	file, err := k.file()
	if err != nil {
		return acpgateway.Identity{}, err
	}
	c, credential, err := file.ProxyCredential(r)
	if err == nil && auth.ReservedProxy(c.ProxyID) {
		err = auth.ErrTokenInvalid // only this process makes tokens for its own proxies
	}
	if err == nil {
		err = k.registry.Admit(r.Context(), credential)
	}
	return acpgateway.Identity{ProxyID: c.ProxyID, AgentID: c.AgentID, Name: c.Name, CredentialID: credential.ID}, err
}

// file are the keys of the file, as they are after a rotation too.
func (k *lateKeys) file() (*auth.Keys, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys != nil && time.Since(k.looked) < keyFileRest {
		return k.keys, nil
	}
	k.looked = time.Now()
	var state fileState
	if info, err := os.Stat(k.flag.SigningKeyFile); err == nil {
		state = fileState{info.ModTime(), info.Size()}
	}
	if k.keys != nil && (state == k.state || state == fileState{}) { // unchanged, or gone: what was read stays good
		return k.keys, nil
	}
	keys, err := k.flag.keys()
	if err != nil {
		return nil, err
	}
	k.keys, k.state = keys, state
	return k.keys, nil
}

// localTokenTime is how long the token of a proxy of our own is good; it gets a new one for
// each link.
const localTokenTime = time.Minute

// localLinkWait bounds how long being ready waits for the proxies of --acp.
const localLinkWait = 5 * time.Second

// runLocal runs the agents of --acp, each behind a proxy in this process that connects like
// any other. It returns when they have.
func (s *serveCmd) runLocal(ctx context.Context, upstream *stage, ln net.Listener, keys *auth.Keys, gateway *acpgateway.Gateway, log *slog.Logger) error {
	var waiting []string
	confined, err := s.confineLocal(log)
	if err != nil {
		return err
	}
	for _, a := range s.ACP.ACP {
		cfg := s.ACP.local(a, reachable(ln.Addr()), keys)
		cfg.Confine, cfg.Pass = confined, s.ACP.Confine.ACPEnv
		cfg.Log = log.With(slog.String("proxy", cfg.ID))
		p, err := proxy.New(cfg)
		if err != nil {
			return err
		}
		upstream.run("proxy "+cfg.ID, p.Run)
		waiting = append(waiting, cfg.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, localLinkWait)
	defer cancel()
	for _, id := range waiting {
		gateway.Await(ctx, id)
	}
	return nil
}

func (f *acpFlags) local(a acpFlag, self string, keys *auth.Keys) proxy.Config {
	id := auth.LocalProxyPrefix + a.id
	cfg := proxy.Config{
		URL: "ws" + strings.TrimPrefix(self, "http") + "/ws/agent", ID: id, Name: a.id, Command: a.command, Cwd: f.ACPCwd, Version: version(),
		Token: func(context.Context) (string, error) {
			return keys.Issue(auth.Claims{
				Type: auth.TypeACPProxy, ProxyClaims: auth.ProxyClaims{ProxyID: id, AgentID: a.id, Name: a.id},
			}, localTokenTime)
		},
	}
	if own := f.ACPAgents.byID[a.id].Cwd; own != "" {
		cfg.Cwd = own
	}
	cfg.MaxConcurrent = f.ACPMaxConcurrent
	if f.ACPWorkspaces != "" {
		cfg.Workspaces, cfg.Source = filepath.Join(f.ACPWorkspaces, a.id), cfg.Cwd
	}
	return cfg
}

// checkLocal refuses two agents of one id.
func (f *acpFlags) checkLocal() error {
	if f.BootstrapFile != "" {
		return errors.New("--bootstrap-file is not taken any more, because one secret for all proxies let its holder take any proxy's place: make a token for each with aqueduct token bootstrap --proxy ID")
	}
	seen := make(map[string]bool)
	for _, a := range f.ACP {
		if seen[a.id] {
			return fmt.Errorf("--acp: two agents are called %q; name them, as in --acp id=\"command\"", a.id)
		}
		seen[a.id] = true
	}
	return nil
}
