// This file has the part that calls a tool of the frontend, which runs in the page and not here.

package demoagent

import (
	"encoding/json"
	"slices"
)

// showClientTool calls the first tool that the frontend declared, with arguments that are made up of its schema. The
// result comes with the next call, as the content of an answer.
func showClientTool(s *stream, c invocation) {
	const id = "call_client"
	a, ok := c.answered(id)
	switch {
	case ok && a.cancelled():
		s.say("Your frontend gave no result.")
	case ok:
		var p struct {
			Content json.RawMessage `json:"content"`
		}
		_ = json.Unmarshal(a.Payload, &p)
		s.say("Your frontend answered: " + words(p.Content))
	case len(c.Tools) == 0:
		s.say("Your frontend declared no tools, so there is none to call.")
	default:
		t := c.Tools[0]
		s.say("Your frontend can do " + t.Name + ", so I call it. ")
		s.send("call_client_tool", callFrame{id, t.Name, sample(t.Parameters)})
		s.done(c, id)
		return
	}
	s.done(c)
}

// schema is as much of a JSON Schema as is needed to make up arguments.
type schema struct {
	Type       string                     `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	Enum       []json.RawMessage          `json:"enum"`
	Default    json.RawMessage            `json:"default"`
}

// sample makes up arguments for a tool of those parameters: what is required, nothing else.
func sample(parameters json.RawMessage) json.RawMessage {
	var sc schema
	_ = json.Unmarshal(parameters, &sc) // no parameters, or strange ones: no arguments
	args := make(map[string]json.RawMessage, len(sc.Required))
	for _, name := range slices.Compact(slices.Sorted(slices.Values(sc.Required))) {
		args[name] = value(sc.Properties[name])
	}
	out, _ := json.Marshal(args) // map keys are sorted: the same call gives the same bytes
	return out
}

// value is a value that a schema of one member takes, in most cases: the default, the first of an enum, or the
// simplest of its type.
func value(raw json.RawMessage) json.RawMessage {
	var sc schema
	_ = json.Unmarshal(raw, &sc)
	switch {
	case sc.Default != nil:
		return sc.Default
	case len(sc.Enum) > 0:
		return sc.Enum[0]
	}
	switch sc.Type {
	case "integer", "number":
		return json.RawMessage("1")
	case "boolean":
		return json.RawMessage("true")
	case "array":
		return json.RawMessage("[]")
	case "object":
		return sample(raw)
	default:
		return json.RawMessage(`"demo"`)
	}
}
