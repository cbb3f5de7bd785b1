package proxy

import (
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"aqueduct/acpgateway/wire"
)

// secretNames are the names of variables that an agent does not inherit: they are where secrets of ours and of the operator's
// stand. What an agent needs of them the operator names, in Config.Pass.
var secretNames = []string{
	"AQUEDUCT_*", "PG*", "DATABASE_URL", "*TOKEN*", "*KEY*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*CREDENTIAL*", "*DSN*",
}

// isSecret reports whether a variable of a name is not inherited. The case does not matter.
func isSecret(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc(secretNames, func(pattern string) bool {
		matched, _ := path.Match(pattern, name) // the patterns are good
		return matched
	})
}

// launcher makes the commands that run for agents: their environment and their confinement.
type launcher struct{ cfg Config }

// inherited is what of this process's environment its agents get.
func (la *launcher) inherited() []string {
	return slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		// Ours are never passed on: a setting of the server may hold a secret under any name.
		return isSecret(name) && (strings.HasPrefix(name, "AQUEDUCT_") || !slices.Contains(la.cfg.Pass, name))
	})
}

// environment is what an agent and its script get: what it may inherit, the configuration's, the gateway's.
func (la *launcher) environment(init *wire.Init) []string {
	// Of two values of a name the last one counts (os/exec), so this order is the precedence.
	env := append(la.cfg.Confine.account(la.inherited()), la.cfg.Env...)
	if init != nil {
		env = appendAll(env, init.Env)
		if init.AgentInputs != nil {
			patch := maps.Clone(init.AgentInputs.EnvPatch)
			delete(patch, "HOME") // the gateway's idea of a home is another machine's
			env = appendAll(env, patch)
		}
	}
	if la.cfg.Home != "" {
		env = append(env, "HOME="+la.cfg.Home)
	}
	return env
}

// command is a command that runs for an agent, or in a folder that an agent can write to.
func (la *launcher) command(name string, args ...string) *exec.Cmd {
	return la.cfg.Confine.wrap(exec.Command(name, args...))
}

// appendAll adds variables in the order of their names, so that an agent's environment is the same at every start. A
// name or a value that no environment can hold is left out: the process could not be started with it.
func appendAll(env []string, pairs map[string]string) []string {
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		if name != "" && !strings.ContainsAny(name, "=\x00") && !strings.Contains(pairs[name], "\x00") {
			env = append(env, name+"="+pairs[name])
		}
	}
	return env
}
