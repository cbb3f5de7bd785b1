// ACP agents of this machine (--acp): each runs behind a proxy in this process, which connects to the gateway over
// loopback like any other. Also the settings of the gateway itself, and the keys by which it knows proxies.

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/kballard/go-shellquote"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/proxy"
	"aqueduct/internal/app"
	"aqueduct/internal/child"
	"aqueduct/internal/ids"
	"aqueduct/server"
	"aqueduct/server/auth"
)

// acpFlags are the flags of serve about ACP agents. Most of them are defaults that an entry of --acp-agents can
// replace for one agent.
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
	Confine          confineFlags  `embed:""`

	together bool // the agents of --acp-workspaces can reach each other's folders
}

// acpFlag is an agent's command, with or without an id.
type acpFlag struct {
	id      string
	command []string
}

// UnmarshalText implements encoding.TextUnmarshaler. The part before the first "=" is an id only where it has the
// form of one; a command that begins with an assignment needs an id in front of it.
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
	if !ids.ValidName(a.id) {
		return fmt.Errorf("%q is not an id; name one, as in --acp id=%q", a.id, line)
	}
	return nil
}

// gateway is the settings of the gateway. baseURL is where agents reach this server. Its key is read when the first proxy
// comes, so a server without proxies needs no file of keys. An agent of --acp rests for --acp-idle where its own settings
// name no time.
func (f *acpFlags) gateway(baseURL string, registry *auth.Registry, metrics *server.Metrics, local *auth.Keys, files *stateFlags) acpgateway.Config {
	keys := &lateKeys{files: files, local: local, registry: registry}
	agents := make(map[string]acpgateway.AgentConfig, len(f.ACPAgents.byID))
	for id, a := range f.ACPAgents.byID {
		agents[id] = a.config()
	}
	// The order in which agents are taken for the default one: those of --acp, then those that only have settings.
	var order []string
	own := make(map[string]string)
	for _, a := range f.ACP {
		order = append(order, a.id)
		own[auth.LocalProxyPrefix+a.id] = a.id
		// The directory its proxy gets from local. A proxy elsewhere that serves this agent too has a directory of its
		// own.
		cfg := agents[a.id]
		cfg.Cwd, cfg.Keepalive = "", cmp.Or(cfg.Keepalive, f.ACPIdle)
		agents[a.id] = cfg
	}
	if !f.ACPToken { // without an address agents get no token either
		baseURL = ""
	}
	return acpgateway.Config{
		BaseURL: baseURL, Authenticate: knownPeer(keys.proxy), Watch: keys.watch, Agents: agents, Own: own, Order: append(order, f.ACPAgents.order...),
		Meter:  acpgateway.Meter{Linked: metrics.ProxiesLinked, Frame: metrics.FrameTaken, Refused: metrics.FrameRefused},
		Limits: acpgateway.Limits{Open: f.ACPOpenTimeout, Prompt: f.ACPPromptTimeout, Grace: f.ProxyGrace, Silence: f.ACPSilence, MergeTime: f.ACPMergeTime, MergeChars: f.ACPMergeChars},
	}
}

// lateKeys are the keys of tokens: those of the file, once they are needed, and those that this process made for its
// own proxies. mu guards what is below it and is held while the file is read: requests that come meanwhile wait for
// the one reading.
type lateKeys struct {
	files    *stateFlags
	local    *auth.Keys
	registry *auth.Registry

	mu     sync.Mutex
	keys   *auth.Keys
	looked time.Time // when the file was last looked at
	state  stamp     // what it was then
}

// keyFileRest is how often the file of the keys is looked at for a rotation. Tokens have no influence on it: what
// they name as their key is looked up in memory. A rotation so takes effect within five seconds on a server that
// runs.
const keyFileRest = 5 * time.Second

// proxy names the acp-proxy of a request. A token of this process's own proxies is tried first, and the file only for
// others, so that an installation without proxies elsewhere needs no file.
func (k *lateKeys) proxy(r *http.Request) (acpgateway.Identity, error) {
	c, err := k.local.Proxy(r)
	if err == nil {
		return acpgateway.Identity{ProxyID: c.ProxyID, AgentID: c.AgentID, Name: c.Name}, nil
	}
	file, err := k.file()
	if err != nil {
		return acpgateway.Identity{}, err
	}
	c, credential, key, err := file.ProxyCredential(r)
	if err == nil && auth.ReservedProxy(c.ProxyID) {
		err = auth.ErrTokenInvalid // only this process makes tokens for its own proxies
	}
	if err == nil {
		err = k.registry.Admit(r.Context(), credential)
	}
	return acpgateway.Identity{ProxyID: c.ProxyID, AgentID: c.AgentID, Name: c.Name, CredentialID: credential.ID, KeyID: key, Until: credential.ExpiresAt}, err
}

// watch ends what a proxy's token has opened when that is revoked, or its key retired. Both are needed: the registry
// knows revoked tokens, and the key file alone knows retired keys.
func (k *lateKeys) watch(ctx context.Context, who acpgateway.Identity) (context.Context, func()) {
	// A file that cannot be read ends nothing: only keys that were read and lack this one do.
	return k.registry.Watch(ctx, who.CredentialID, func() bool {
		keys, err := k.file()
		return err != nil || keys.Has(who.KeyID)
	})
}

// file are the keys of the file, as they are after a rotation too. A file that is gone does not end the proxies: the
// keys that were read before stay.
func (k *lateKeys) file() (*auth.Keys, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys != nil && time.Since(k.looked) < keyFileRest { // a file that could not be read yet is tried each time
		return k.keys, nil
	}
	// Before the file is read, also in vain: with keys from before, a file that is bad is tried once in keyFileRest.
	k.looked = time.Now()
	// The stamp is taken before the file is read: a rotation in between is seen at the next look.
	state, _ := stampOf(string(k.files.SigningKeyFile))
	if k.keys != nil && (state == k.state || state == stamp{}) { // unchanged, or gone: what was read stays good
		return k.keys, nil
	}
	keys, err := k.files.keys()
	if err != nil {
		return nil, err
	}
	k.keys, k.state = keys, state
	return k.keys, nil
}

// localTokenTime is how long the token of a proxy of our own is good; it gets a new one for
// each link.
const localTokenTime = time.Minute

// localLinkWait bounds how long being ready waits for the proxies of --acp. An agent that needs longer to connect is
// found by the first prompt a moment later.
const localLinkWait = 5 * time.Second

// localProxies are the agents of --acp, each behind a proxy in this process that connects to self like any other.
// Each gets the confinement of all: what one agent must not read, no other may.
func (f *acpFlags) localProxies(self string, keys *auth.Keys, confined *child.Confinement, log *slog.Logger) (parts []app.Part, err error) {
	for _, a := range f.ACP {
		cfg := f.local(a, self, keys)
		cfg.Confine, cfg.Pass = confined, f.Confine.ACPEnv
		cfg.Log = log.With(slog.String("proxy", cfg.ID))
		p, err := proxy.New(cfg)
		if err != nil {
			return nil, err
		}
		parts = append(parts, app.Part{Name: "proxy " + cfg.ID, Run: p.Run})
	}
	return parts, nil
}

// unconfined are the agents of --acp that could approve for themselves.
func (f *acpFlags) unconfined() (ids []string) {
	for _, a := range f.ACP {
		if f.Confine.Unconfined {
			ids = append(ids, a.id)
		}
	}
	return ids
}

// awaitLocal returns when the proxies of --acp are connected, or after localLinkWait. It makes the first prompt after
// a start find its agent; an agent that does not start is no reason not to serve.
func (f *acpFlags) awaitLocal(ctx context.Context, gateway *acpgateway.Gateway, log *slog.Logger) {
	waits, cancel := context.WithTimeout(ctx, localLinkWait)
	defer cancel()
	for _, a := range f.ACP {
		if !gateway.Await(waits, auth.LocalProxyPrefix+a.id) && ctx.Err() == nil {
			log.Warn("ready, although the agent of --acp has not connected yet; the log has the reason where it failed", slog.String("agent", a.id), slog.Duration("waited", localLinkWait))
		}
	}
}

// local is the configuration of the proxy of one agent. Its token lives for a minute, because it is made anew for
// each connection in this same process. It has no State: such a proxy has its identity from the flag, and ends with
// the server.
func (f *acpFlags) local(a acpFlag, self string, keys *auth.Keys) proxy.Config {
	id := auth.LocalProxyPrefix + a.id
	cfg := proxy.Config{
		// self is http in every case: with TLS it is the loopback listener (tlsFlags.inside).
		URL: "ws" + strings.TrimPrefix(self, "http") + "/ws/agent", ID: id, Name: a.id, Command: a.command, Version: version(),
		Cwd: cmp.Or(f.ACPAgents.byID[a.id].Cwd, f.ACPCwd), MaxConcurrent: f.ACPMaxConcurrent,
		Token: func(context.Context) (string, error) {
			return keys.Issue(auth.Claims{
				Type: auth.TypeACPProxy, ProxyClaims: auth.ProxyClaims{ProxyID: id, AgentID: a.id, Name: a.id},
			}, localTokenTime)
		},
	}
	if f.ACPWorkspaces != "" {
		cfg.Workspaces, cfg.Source = filepath.Join(f.ACPWorkspaces, a.id), cfg.Cwd
	}
	return cfg
}

// sharedWorkspaces are the ids of the agents of --acp that can reach the folders of other threads.
func (f *acpFlags) sharedWorkspaces() (list []string) {
	for _, a := range f.ACP {
		if f.together {
			list = append(list, a.id)
		}
	}
	return list
}

// checkLocal refuses two agents of one id. It also refuses a flag that is no longer taken, with the reason and what
// to use instead.
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
