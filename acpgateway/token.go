package acpgateway

import (
	"context"
	"strings"

	"aqueduct/acpgateway/wire"
)

// Names in the environment of an agent.
const (
	envBaseURL = "AQUEDUCT_BASE_URL"
	envToken   = "AQUEDUCT_TOKEN"
)

// addToken adds to an agent's environment what it calls this server with. The operator's own settings take precedence.
// The token names the Session. With it the agent's own programs call tools and the inbox as that Session, and nothing
// else.
func addToken(c *channel, cfg AgentConfig, env map[string]string) {
	if cfg.NoToken || c.g.cfg.BaseURL == "" {
		return
	}
	token, made := c.agent.makeToken(c.id)
	if made {
		c.g.keeper.instance(c)
	}
	for name, value := range map[string]string{envBaseURL: c.g.cfg.BaseURL, envToken: token} {
		if _, given := env[name]; !given {
			env[name] = value
		}
	}
}

// saveToken saves the token before an agent is started with it: its first call may come at once.
func saveToken(ctx context.Context, c *channel) error {
	if c.config().NoToken || c.g.cfg.BaseURL == "" {
		return nil
	}
	if _, made := c.agent.makeToken(c.id); !made {
		return nil
	}
	return c.g.keeper.saveInstance(ctx, c)
}

// ownMCPServers is this server as one of MCP, for the agent's sessions: the tools registered here, called with the token of its
// environment. An agent without one gets none.
func ownMCPServers(env map[string]string) []wire.MCPServer {
	base, token := env[envBaseURL], env[envToken]
	if base == "" || token == "" {
		return nil
	}
	return []wire.MCPServer{{
		Type: "http", Name: "aqueduct", URL: strings.TrimRight(base, "/") + "/mcp", Headers: []wire.HTTPHeader{{Name: "Authorization", Value: "Bearer " + token}},
	}}
}
