package server

import (
	"encoding/json"

	"aqueduct/bridge/approval"
)

// commandOf returns the answer in forwardedProps.command, as clients of LangGraph's adapters, such as CopilotKit's, send it.
// resume is the answer, any JSON; interruptEvent is the value of the CUSTOM on_interrupt that it answers. commandOf returns
// nil for props without an answer.
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
