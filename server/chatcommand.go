package server

import (
	"encoding/json"

	"aqueduct/bridge/approval"
)

// commandOf is the answer in forwardedProps.command, as clients of LangGraph's adapters send it, CopilotKit's among them: resume is
// the answer, any JSON, and interruptEvent the value of the CUSTOM on_interrupt that it answers. Nil for props without an answer.
func commandOf(props json.RawMessage) *approval.Answer {
	var forwarded struct {
		Command map[string]json.RawMessage `json:"command"`
	}
	if json.Unmarshal(props, &forwarded) != nil {
		return nil
	}
	resume, answers := forwarded.Command["resume"]
	if !answers {
		return nil
	}
	a := &approval.Answer{Payload: resume, Command: &approval.Command{}}
	if event := forwarded.Command["interruptEvent"]; len(event) > 0 && string(event) != "null" {
		a.Command.Event = event
	}
	return a
}
