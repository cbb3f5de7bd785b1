// The secrets that calls of HTTP agents are signed with (--agent-secret), so that an agent knows who calls it.

package main

import (
	"fmt"
	"slices"
	"strings"

	"aqueduct/bridge/signed"
	"aqueduct/internal/ids"
	"aqueduct/internal/ownfile"
	"aqueduct/internal/secretfile"
)

// agentSecrets are what calls of HTTP agents are signed with. An agent without one is called unsigned.
type agentSecrets struct {
	AgentSecret []agentSecretFlag `help:"File with the secret that calls of an --agent are signed with, as id=FILE; repeatable." placeholder:"ID=FILE"`
}

// agentSecretFlag is id=FILE.
type agentSecretFlag struct {
	id   string
	file ownfile.Secret
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *agentSecretFlag) UnmarshalText(text []byte) error {
	id, file, ok := strings.Cut(string(text), "=")
	if !ok || !ids.ValidName(id) || file == "" {
		return fmt.Errorf("expected id=FILE")
	}
	f.id, f.file = id, ownfile.Secret(file)
	return nil
}

// load reads the secrets, by the agents' ids. A secret for an agent that does not exist is a mistake in one of the
// two flags and ends the start.
func (s agentSecrets) load(agents []agentFlag) (map[string]signed.Secret, error) {
	secrets := make(map[string]signed.Secret)
	for _, f := range s.AgentSecret {
		if !slices.ContainsFunc(agents, func(a agentFlag) bool { return a.id == f.id }) {
			return nil, fmt.Errorf("--agent-secret %s: there is no --agent of that id", f.id)
		}
		secret, err := secretfile.Read(string(f.file))
		if err != nil {
			return nil, fmt.Errorf("--agent-secret %s: %w", f.id, err)
		}
		// A short one could be found by trying, from one call that was seen.
		if len(secret) < signed.MinSecret {
			return nil, fmt.Errorf("--agent-secret %s: the secret must have at least %d characters", f.id, signed.MinSecret)
		}
		secrets[f.id] = signed.Secret(secret)
	}
	return secrets, nil
}
