package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/acp"
)

// acpAgentsFlag is the settings of ACP agents by id, and their ids in the order they are written in.
type acpAgentsFlag struct {
	byID  map[string]acpAgent
	order []string
}

// acpAgent is what one of them is started with.
type acpAgent struct {
	Cwd           string            `yaml:"cwd"`
	Env           map[string]string `yaml:"env"`
	InitScript    string            `yaml:"init_script"`
	InitTimeout   time.Duration     `yaml:"init_timeout"`
	AgentInputs   any               `yaml:"agent_inputs"`
	Keepalive     time.Duration     `yaml:"keepalive"`
	SystemContext string            `yaml:"system_context"`
	// What its prompts may hold, where its proxy does not say.
	PromptCapabilities struct {
		Image           bool `yaml:"image"`
		Audio           bool `yaml:"audio"`
		EmbeddedContext bool `yaml:"embedded_context"`
	} `yaml:"prompt_capabilities"`
	Token *bool `yaml:"token"` // false: it gets neither our address nor a token

	inputs *acp.AgentInputs
}

// Decode implements kong.MapperValue: a text is YAML, a table is what the settings file has.
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
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return err
	}
	f.byID, f.order = agents, keysIn(&doc)
	return nil
}

// readInputs takes the contract's shape, or its items alone.
func (a *acpAgent) readInputs() error {
	if a.AgentInputs == nil {
		return nil
	}
	raw, err := json.Marshal(a.AgentInputs)
	if err != nil {
		return err
	}
	a.inputs = &acp.AgentInputs{Version: 1}
	if _, items := a.AgentInputs.([]any); items {
		return json.Unmarshal(raw, &a.inputs.Items)
	}
	return json.Unmarshal(raw, a.inputs)
}

func (a acpAgent) config() acpgateway.AgentConfig {
	return acpgateway.AgentConfig{
		Cwd: a.Cwd, Env: a.Env, InitScript: a.InitScript, InitTimeout: a.InitTimeout, AgentInputs: a.inputs,
		Keepalive: a.Keepalive, SystemContext: a.SystemContext, NoToken: a.Token != nil && !*a.Token,
		PromptCapabilities: acp.PromptCapabilities(a.PromptCapabilities),
	}
}
