// This file has the frames as Go types. docs/protocol.md, "HTTP agents", has the table of them, and of the AG-UI
// events that each becomes.

package demoagent

import "encoding/json"

// The data of the frames an agent may send. A frame's name is its event line.

type textFrame struct { // delta, thought
	Text string `json:"text"`
}

type stateFrame struct { // state
	State  string `json:"state"`
	Detail any    `json:"detail,omitempty"`
}

type callFrame struct { // tool_call, call_client_tool
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type resultFrame struct { // tool_result
	ID      string `json:"id"`
	Content any    `json:"content"`
}

type snapshotFrame struct { // state_snapshot
	Snapshot any `json:"snapshot"`
}

type deltaFrame struct { // state_delta
	Delta []op `json:"delta"`
}

type activityFrame struct { // activity: Content first, then Patches of it
	ID      string `json:"id"`
	Type    string `json:"type"`
	Content any    `json:"content,omitempty"`
	Patch   []op   `json:"patch,omitempty"`
}

type stepFrame struct { // step
	Name   string `json:"name"`
	Status string `json:"status"`
}

type customFrame struct { // custom
	Name  string `json:"name"`
	Value any    `json:"value"`
}

type askFrame struct { // ask
	ID             string          `json:"id"`
	Kind           string          `json:"kind"`
	Name           string          `json:"name,omitempty"`
	Title          string          `json:"title"`
	Tool           string          `json:"tool,omitempty"`
	Args           any             `json:"args,omitempty"`
	Options        []option        `json:"options,omitempty"`
	Risk           string          `json:"risk,omitempty"`
	ResponseSchema json.RawMessage `json:"response_schema,omitempty"`
	ExpiresIn      int             `json:"expires_in,omitempty"`
}

// option is a choice of a permission. Kind alone decides what it means: allow_once, allow_always, reject_once or
// reject_always.
type option struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	Kind  string `json:"kind"`
}

type doneFrame struct { // done
	Usage   usage    `json:"usage"`
	Pending []string `json:"pending,omitempty"`
}

type usage struct {
	Input  int `json:"input_tokens"`
	Output int `json:"output_tokens"`
	Total  int `json:"total_tokens"`
}

type errorFrame struct { // error
	Code    string `json:"code"`
	Message string `json:"message"`
}

// op is one operation of a JSON Patch (RFC 6902). The demo keeps to what every client
// applies alike: replacing and adding members, and appending to arrays.
type op struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}
