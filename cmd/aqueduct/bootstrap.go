// How proxies on other machines get their first token: an operator makes a bootstrap token here and carries it over;
// the proxy trades it at POST /api/admin/acp-proxy/register.

package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"aqueduct/internal/ids"
	"aqueduct/server"
	"aqueduct/server/auth"
)

// tokenBootstrapCmd makes the token by which a proxy elsewhere gets its own token: the first one or, if it is reusable, one
// at each start. The token contains the flags; the proxy cannot choose another id or agent.
type tokenBootstrapCmd struct {
	Proxy    string        `help:"Id of the proxy it is for. With --reusable you may omit it: the token is then for the first proxy that uses it." placeholder:"ID"`
	Reusable bool          `help:"Let the proxy register with it at each of its starts. No other proxy can use it."`
	Agent    string        `help:"Id of the agent the proxy serves; the proxy's id when not given." placeholder:"ID"`
	Name     string        `help:"Name of the proxy, shown to people."`
	TTL      time.Duration `name:"ttl" help:"Life of the token: 1h by default and a day at most, because it works once; 2160h by default with --reusable. The tokens that the proxy gets with a reusable one expire with it."`
	Life     tokenFlags    `embed:""`
	Files    stateFlags    `embed:""`
}

// bootstrapTime is the life of a token that works once, without --ttl.
const bootstrapTime = time.Hour

// Run implements the command. It stores nothing: the server records the token at its use. For a reusable token it also prints
// the id, for revocation, and the end.
func (c *tokenBootstrapCmd) Run(to output) error {
	if c.Proxy == "" && !c.Reusable {
		return errors.New("--proxy: a token that works once names its proxy; with --reusable it may be left out")
	}
	for flag, id := range map[string]string{"proxy": c.Proxy, "agent": c.Agent} {
		if id != "" && !ids.ValidName(id) {
			return fmt.Errorf("--%s: %q is not an id: letters, digits and . _ : - only", flag, id)
		}
	}
	keys, err := c.Files.keys()
	if err != nil {
		return err
	}
	claims := auth.ProxyClaims{ProxyID: c.Proxy, Name: c.Name, AgentID: c.Agent}
	if !c.Reusable {
		token, err := keys.IssueBootstrap(claims, cmp.Or(c.TTL, bootstrapTime))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(to.out, token)
		return err
	}
	if err := c.Life.check(); err != nil {
		return err
	}
	issued, err := keys.IssueReusableBootstrap(claims, cmp.Or(c.TTL, min(auth.MaxTokenLife, c.Life.TokenMaxLife)), c.Life.TokenMaxLife)
	if err != nil {
		return err
	}
	return printIssued(to, issued)
}

// proxyAccess is how proxies elsewhere get their tokens. Ids of agents that this server runs or calls itself are
// reserved: a proxy serves the agent of its id where its token names none. Without that a proxy elsewhere could take
// over the conversations of an agent that runs here.
func (s *serveCmd) proxyAccess(registry *auth.Registry) *server.ProxyAccess {
	var reserved []string
	if s.Demo {
		reserved = append(reserved, demoID)
	}
	for _, a := range s.Agent {
		reserved = append(reserved, a.id)
	}
	for _, a := range s.ACP.ACP {
		reserved = append(reserved, a.id)
	}
	// Only file is used of these keys, so they need neither the registry nor the keys of local proxies.
	return &server.ProxyAccess{
		Admit:    registry.Admit,
		Made:     registry.Made,
		Keys:     (&lateKeys{files: &s.Files}).file,
		Reserved: func(id string) bool { return slices.Contains(reserved, id) },
	}
}
