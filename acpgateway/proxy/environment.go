package proxy

import (
	"maps"
	"os/exec"
	"slices"
	"strings"

	"aqueduct/acpgateway/wire"
	"aqueduct/internal/child"
)

// launcher makes the commands that run for agents: their environment and their confinement.
type launcher struct{ cfg Config }

// environment is what an agent and its script get: what it may inherit, the configuration's, the gateway's.
func (la *launcher) environment(init *wire.Init) []string {
	// Of two values of a name the last one counts (os/exec), so this order is the precedence.
	env := append(la.cfg.Confine.Account(child.Inherited(la.cfg.Pass)), la.cfg.Env...)
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

// of is the launcher of what runs in a workspace, which sees no other workspace where that can be kept.
func (la *launcher) of(w workspace) *launcher {
	if w.shared {
		return la
	}
	own := *la
	own.cfg.Confine = la.cfg.Confine.Within(w.root)
	return &own
}

// allowed returns init with only the variables that the agent may get of the gateway's environment. The init script gets all
// of them.
func (la *launcher) allowed(init *wire.Init) *wire.Init {
	if init == nil || la.cfg.EnvAllowed == nil {
		return init
	}
	less := *init
	less.Env = maps.Clone(init.Env)
	maps.DeleteFunc(less.Env, func(name, _ string) bool { return !slices.Contains(la.cfg.EnvAllowed, name) })
	return &less
}

// command is a command that runs for an agent, or in a folder that an agent can write to.
func (la *launcher) command(name string, args ...string) *exec.Cmd {
	return la.cfg.Confine.Wrap(exec.Command(name, args...))
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
