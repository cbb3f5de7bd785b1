// The settings file of the platform contract's own proxy, read as ours: its users can switch without writing a new
// one.

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"
)

// hostProcess is the only place where this proxy runs agents, under the contract's name.
const hostProcess = "host_process"

// contractFile is what the settings file of the contract's own proxy holds that no flag is for.
type contractFile struct {
	env          []string        // for the agent
	capabilities json.RawMessage // announced beside ours
	inventory    time.Duration   // how often lists are sent; negative: only when it links, 0: not in the file
	envAllowed   []string        // names that the agent gets of the gateway's environment; nil: not in the file
	downloadMost int64           // bytes of an archive; 0: no bound
}

// yamlOfTOML reads TOML as the YAML that means the same. An error names the place and quotes nothing: the file may
// hold secrets. So there is one reader behind it, whatever the file's form.
func yamlOfTOML(raw []byte) ([]byte, error) {
	given := make(map[string]any)
	if err := toml.NewDecoder(bytes.NewReader(raw)).Decode(&given); err != nil {
		if wrong, ok := errors.AsType[*toml.DecodeError](err); ok {
			row, column := wrong.Position()
			return nil, fmt.Errorf("it is not TOML: line %d, column %d", row, column)
		}
		return nil, errors.New("it is not TOML")
	}
	return yaml.Marshal(given)
}

// translate turns the contract's names into ours. Its settings of containers and boxes are left out: they mean
// nothing to agents that are processes of the host. Empty secrets are left out, because the contract's example file
// has them and they would hide the real ones.
func (c *contractFile) translate(given map[string]any) error {
	rename(given, "orchestrator_url", "url")
	if seconds, ok := given["heartbeat_seconds"]; ok {
		delete(given, "heartbeat_seconds")
		// The contract has a number of seconds, the flag a span.
		given["heartbeat"] = fmt.Sprint(seconds, "s")
	}
	for _, secret := range []string{authToken, bootstrapToken, "register-url"} { // written with nothing in it, as in the example
		for _, key := range []string{secret, strings.ReplaceAll(secret, "-", "_")} {
			// Only in a file that names a gateway, as the contract's does. In any other an empty secret is a mistake
			// (settings.secret).
			if given[key] == "" && given["url"] != nil {
				delete(given, key)
			}
		}
	}
	if err := c.top(given); err != nil {
		return err
	}
	if agent, ok := given["agent"].(map[string]any); ok {
		delete(given, "agent")
		if err := c.agent(given, agent); err != nil {
			return err
		}
	}
	// One that is no table stays in given, and is refused as a setting that does not exist (settings.Validate).
	if sandbox, ok := given["sandbox"].(map[string]any); ok {
		delete(given, "sandbox")
		return c.sandbox(given, sandbox)
	}
	return nil
}

// top reads the contract's top-level settings for which there is no flag.
func (c *contractFile) top(given map[string]any) error {
	mock, err := take(given, "mock_mode", "true or false", asBool)
	if err != nil {
		return err
	}
	if mock {
		return errors.New("mock_mode: this proxy has no mock agent; name one as agent_command")
	}
	// Skills are agent inputs, which this proxy places whenever the gateway sends any. The switch belongs to the other end.
	if _, err := take(given, "skills_mounting_enabled", "true or false", asBool); err != nil {
		return err
	}
	_, said := given["inventory_interval_seconds"]
	seconds, err := take(given, "inventory_interval_seconds", "a number of seconds, 0 for never", asCount)
	if err != nil {
		return err
	}
	if c.inventory = time.Duration(seconds) * time.Second; said && seconds == 0 {
		c.inventory = -1
	}
	if c.downloadMost, err = take(given, "skills_download_max_bytes", "a number of bytes, 0 for no bound", asCount); err != nil {
		return err
	}
	if given["url"] != nil {
		delete(given, "profiles") // for a flag of the contract's proxy that this one does not have
	}
	c.envAllowed, err = take(given, "agent_env_allowlist", "a list of names", asTexts)
	return err
}

// take removes a setting and reads it; it returns the zero value if the file does not have it. The error quotes nothing of
// the file.
func take[T any](given map[string]any, key, expected string, as func(any) (T, bool)) (value T, err error) {
	raw, ok := given[key]
	if !ok {
		return value, nil
	}
	delete(given, key)
	if value, ok = as(raw); !ok {
		err = fmt.Errorf("%s: expected %s", key, expected)
	}
	return value, err
}

// asBool reads a boolean in the forms that the contract's proxy accepts.
func asBool(raw any) (value, ok bool) {
	switch fmt.Sprint(raw) {
	case "true", "1":
		return true, true
	case "false", "0":
		return false, true
	}
	return false, false
}

// maxCount bounds numbers of the file: more seconds do not fit a duration.
const maxCount = 1 << 31

// asCount reads a number that is not negative.
func asCount(raw any) (int64, bool) {
	n, err := strconv.ParseInt(fmt.Sprint(raw), 10, 64)
	return n, err == nil && n >= 0 && n <= maxCount
}

// asTexts reads a list of texts.
func asTexts(raw any) ([]string, bool) {
	list, ok := raw.([]any)
	texts := make([]string, 0, len(list))
	for _, one := range list {
		text, isText := one.(string)
		ok = ok && isText
		texts = append(texts, text)
	}
	return texts, ok
}

// agent moves the members of the table "agent" to the top, where flags of these names are.
func (c *contractFile) agent(given, agent map[string]any) error {
	for key, value := range agent {
		switch key {
		case "id", "name", "max_concurrent":
			if value != "" {
				given[key] = value
			}
		case "capabilities":
			raw, err := json.Marshal(value)
			if err != nil {
				return errors.New("agent.capabilities cannot be written as JSON")
			}
			c.capabilities = raw
		// As with every setting: a misspelled one would otherwise be left out in silence.
		default:
			return fmt.Errorf("there is no setting %q in agent", key)
		}
	}
	return nil
}

// sandbox takes what has a meaning for processes of the host. Another provider is refused: agents that are expected
// in a container must not run outside of one.
func (c *contractFile) sandbox(given, sandbox map[string]any) error {
	if provider, ok := sandbox["provider"]; ok && provider != hostProcess {
		return fmt.Errorf("sandbox.provider: this proxy runs agents as processes of the host, %q; to have them in a container, let agent_command start one", hostProcess)
	}
	if terminal, ok := sandbox["terminalEnabled"]; ok {
		given["agent-terminal"] = terminal
	}
	if root, ok := sandbox["workspaceHostRoot"]; ok {
		given["workspaces"] = root
	}
	env, ok := sandbox["env"].(map[string]any)
	if !ok && sandbox["env"] != nil {
		return errors.New("sandbox.env is not a table")
	}
	for name, value := range env {
		// TOML and YAML have numbers and booleans; an environment has texts.
		c.env = append(c.env, fmt.Sprint(name, "=", value))
	}
	slices.Sort(c.env)
	return nil
}

// rename moves a value to another key, if it is there.
func rename(given map[string]any, from, to string) {
	if value, ok := given[from]; ok {
		delete(given, from)
		given[to] = value
	}
}
