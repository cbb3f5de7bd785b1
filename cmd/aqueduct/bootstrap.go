// How proxies on other machines get their first token: an operator makes a bootstrap token here and carries it over;
// the proxy trades it at POST /api/admin/acp-proxy/register.

package main

import (
	"fmt"
	"slices"
	"time"

	"aqueduct/internal/ids"
	"aqueduct/server"
	"aqueduct/server/auth"
)

// tokenBootstrapCmd makes the token by which a proxy elsewhere gets its first own one. Its flags are in the token;
// the proxy cannot choose another id or agent.
type tokenBootstrapCmd struct {
	Proxy string        `required:"" help:"Id of the proxy it is for." placeholder:"ID"`
	Agent string        `help:"Id of the agent the proxy serves; the proxy's id when not given." placeholder:"ID"`
	Name  string        `help:"Name of the proxy, shown to people."`
	TTL   time.Duration `name:"ttl" default:"1h" help:"How long it is good, a day at most. It works once."`
	Key   keyFlag       `embed:""`
}

// Run implements the command. Nothing is kept: that the token was used is recorded when it is.
func (c *tokenBootstrapCmd) Run(to output) error {
	for flag, id := range map[string]string{"proxy": c.Proxy, "agent": c.Agent} {
		if id != "" && !ids.ValidName(id) {
			return fmt.Errorf("--%s: %q is not an id: letters, digits and . _ : - only", flag, id)
		}
	}
	keys, err := c.Key.keys()
	if err != nil {
		return err
	}
	token, err := keys.IssueBootstrap(auth.ProxyClaims{ProxyID: c.Proxy, Name: c.Name, AgentID: c.Agent}, c.TTL)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(to.out, token)
	return err
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
		Keys:     (&lateKeys{flag: s.ACP.Key}).file,
		Reserved: func(id string) bool { return slices.Contains(reserved, id) },
	}
}
