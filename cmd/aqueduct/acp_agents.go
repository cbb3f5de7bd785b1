// --acp-agents: settings of single ACP agents, as a table in the settings file or as YAML on the command line. They
// are sent to the agent's proxy when a session is opened.

package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/wire"
)

// acpAgentsFlag is the settings of ACP agents by id, and their ids in the order they are written in. The order
// decides which agent is the default where several are connected.
type acpAgentsFlag struct {
	byID  map[string]acpAgent
	order []string
}

// acpAgent is what one of them is started with. A zero member leaves the default of the flag or of the proxy.
type acpAgent struct {
	Cwd           string            `yaml:"cwd"`
	Env           map[string]string `yaml:"env"`
	InitScript    string            `yaml:"init_script"`
	InitTimeout   time.Duration     `yaml:"init_timeout"`
	AgentInputs   any               `yaml:"agent_inputs"`
	Keepalive     time.Duration     `yaml:"keepalive"`
	SystemContext string            `yaml:"system_context"`
	// What its prompts may hold, where its proxy does not announce it.
	PromptCapabilities struct {
		Image           bool `yaml:"image"`
		Audio           bool `yaml:"audio"`
		EmbeddedContext bool `yaml:"embedded_context"`
	} `yaml:"prompt_capabilities"`
	Token *bool `yaml:"token"` // false: it gets neither our address nor a token

	inputs *wire.AgentInputs
}

// Decode implements kong.MapperValue: a text is YAML, a table is what the settings file has. Unknown members are
// refused: a misspelled init_script would be left out in silence.
func (f *acpAgentsFlag) Decode(ctx *kong.DecodeContext) error {
	raw, err := yamlOf(ctx)
	if err != nil {
		return err
	}
	agents := make(map[string]acpAgent)
	if err := decodeStrict(raw, "acp-agents", &agents); err != nil {
		return err
	}
	for id, a := range agents {
		if err := a.readInputs(); err != nil {
			return fmt.Errorf("acp-agents: %s: agent_inputs: %w", id, err)
		}
		agents[id] = a
	}
	// A map has lost the order, so the same text is read once more as nodes.
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return err
	}
	f.byID, f.order = agents, keysIn(&doc)
	return nil
}

// readInputs takes the contract's shape, or its items alone. The items alone are short for {"version":1,"items":[…]}.
func (a *acpAgent) readInputs() error {
	if a.AgentInputs == nil {
		return nil
	}
	// By way of JSON, since the members of wire.AgentInputs have their names for that and not for YAML.
	raw, err := json.Marshal(a.AgentInputs)
	if err != nil {
		return err
	}
	a.inputs = &wire.AgentInputs{Version: 1}
	if _, items := a.AgentInputs.([]any); items {
		return json.Unmarshal(raw, &a.inputs.Items)
	}
	return json.Unmarshal(raw, a.inputs)
}

// config is the settings as the gateway takes them.
func (a acpAgent) config() acpgateway.AgentConfig {
	return acpgateway.AgentConfig{
		Cwd: a.Cwd, Env: a.Env, InitScript: a.InitScript, InitTimeout: a.InitTimeout, AgentInputs: a.inputs,
		Keepalive: a.Keepalive, SystemContext: a.SystemContext, NoToken: a.Token != nil && !*a.Token,
		PromptCapabilities: wire.PromptCapabilities(a.PromptCapabilities),
	}
}
