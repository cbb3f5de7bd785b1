package proxy

import (
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"aqueduct/acpgateway/acp"
)

// secretNames are the names of variables that an agent does not inherit: they are where secrets of ours and of the operator's
// stand. What an agent needs of them the operator names, in Config.Pass.
var secretNames = []string{
	"AQUEDUCT_*", "PG*", "DATABASE_URL", "*TOKEN*", "*KEY*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*CREDENTIAL*", "*DSN*",
}

// isSecret says whether a variable of a name is not inherited. The case does not matter.
func isSecret(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc(secretNames, func(pattern string) bool {
		matched, _ := path.Match(pattern, name) // the patterns are good
		return matched
	})
}

// inherited is what of this process's environment its agents get.
func (p *Proxy) inherited() []string {
	return slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		// Ours are never passed on: a setting of the server may hold a secret under any name.
		return isSecret(name) && (strings.HasPrefix(name, "AQUEDUCT_") || !slices.Contains(p.cfg.Pass, name))
	})
}

// environment is what an agent and its script get: what it may inherit, the configuration's, the gateway's.
func (p *Proxy) environment(init *acp.Init) []string {
	env := append(p.cfg.Confine.account(p.inherited()), p.cfg.Env...)
	if init != nil {
		env = appendAll(env, init.Env)
		if init.AgentInputs != nil {
			patch := maps.Clone(init.AgentInputs.EnvPatch)
			delete(patch, "HOME") // the gateway's idea of a home is another machine's
			env = appendAll(env, patch)
		}
	}
	if p.cfg.Home != "" {
		env = append(env, "HOME="+p.cfg.Home)
	}
	return env
}

// command is a command that runs for an agent, or in a folder that an agent can write to.
func (p *Proxy) command(name string, args ...string) *exec.Cmd {
	return p.cfg.Confine.wrap(exec.Command(name, args...))
}

func appendAll(env []string, pairs map[string]string) []string {
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		if name != "" && !strings.ContainsAny(name, "=\x00") && !strings.Contains(pairs[name], "\x00") {
			env = append(env, name+"="+pairs[name])
		}
	}
	return env
}
