package acpgateway

import (
	"bytes"
	"context"

	"aqueduct/bridge"
	"aqueduct/store"
)

// Names in the environment of an agent.
const (
	envBaseURL = "AQUEDUCT_BASE_URL"
	envToken   = "AQUEDUCT_TOKEN"
)

// callback adds to an agent's environment what it calls us with. The operator's own settings go before ours.
func (t *tunnel) callback(c AgentConfig, env map[string]string) {
	if c.NoToken || t.g.cfg.BaseURL == "" {
		return
	}
	for name, value := range map[string]string{envBaseURL: t.g.cfg.BaseURL, envToken: t.agentToken()} {
		if _, given := env[name]; !given {
			env[name] = value
		}
	}
}

// agentToken is the token of the Session's agent. It stays the same until the instance is closed, for the agent's process
// has it from its start; only its hash is kept. Of a process from before a restart of ours the token is unknown here, and
// its hash stays beside the new one.
func (t *tunnel) agentToken() string {
	t.mu.Lock()
	token := t.token
	t.mu.Unlock()
	if token != "" {
		return token
	}
	token, hash := bridge.NewSessionToken(t.id)
	t.mu.Lock()
	if t.token != "" {
		token = t.token
		t.mu.Unlock()
		return token
	}
	t.token = token
	t.row.TokenHash = bridge.AddTokenHash(t.row.TokenHash, hash)
	t.mu.Unlock()
	t.g.keeper.instance(t)
	return token
}

// readyToken has the token kept before an agent is started with it: it may call at once.
func (t *tunnel) readyToken(ctx context.Context) error {
	cfg := t.config()
	t.mu.Lock()
	has := t.token != ""
	t.mu.Unlock()
	if has || cfg.NoToken || t.g.cfg.BaseURL == "" {
		return nil
	}
	t.agentToken()
	return t.g.keeper.saveInstance(ctx, t)
}

// revokeToken makes the tokens of an instance that has ended worthless.
func (t *tunnel) revokeToken() {
	t.mu.Lock()
	t.token = ""
	t.mu.Unlock()
	t.note(func(row *store.SandboxInstance) { row.TokenHash = nil })
}

func sameToken(a, b store.SandboxInstance) bool { return bytes.Equal(a.TokenHash, b.TokenHash) }
