package translate

import (
	"encoding/json"

	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
)

// maxOutput bounds what of a terminal's output becomes a call's result; the end is kept, where
// errors stand.
const maxOutput = 64 << 10

// terminals draws terminals the agent runs itself. The client never created them
// and can ask for nothing.
func (a *activities) terminals(dst []Out, c *call, news []wire.Terminal) []Out {
	var ops []operation
	for _, term := range news {
		id := a.ids.id("terminal", term.ID)
		at := "/terminals/" + agui.EscapePointer(id)
		if !c.shown.terminals[id] {
			if len(c.shown.terminals) == maxPieces {
				continue
			}
			c.shown.terminals[id] = true
			ops = append(ops, operation{"add", at, marshal(struct {
				Cwd    string   `json:"cwd,omitempty"`
				Output []string `json:"output"`
				Exit   *int     `json:"exit"`
			}{term.Cwd, []string{}, nil})})
		}
		if term.Data != "" {
			ops = append(ops, operation{"add", at + "/output/-", marshal(term.Data)})
			c.output(term.Data)
		}
		if term.Exited {
			ops = append(ops, operation{"replace", at + "/exit", exit(term)})
		}
	}
	// Each operation is sent by itself: an array that grew may not be looked at again in the same patch.
	for i := range ops {
		dst = a.patch(dst, c, ops[i:i+1])
	}
	return dst
}

// exit is how a terminal's command ended.
func exit(term wire.Terminal) json.RawMessage {
	return marshal(struct {
		Code   *int64 `json:"code"`
		Signal string `json:"signal,omitempty"`
	}{term.ExitCode, term.Signal})
}
