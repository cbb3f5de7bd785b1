package fromacp

import (
	"encoding/json"

	"aqueduct/acpgateway/acp"
	"aqueduct/agui"
)

// maxOutput bounds what of a terminal's output becomes a call's result; the end of it
// says most.
const maxOutput = 64 << 10

// showTerminals tells of terminals the agent runs itself. The client never created them
// and can ask for nothing.
func (t *Translator) showTerminals(dst []Out, c *call, news []acp.Terminal) []Out {
	var ops []operation
	for _, term := range news {
		id := t.id("terminal", term.ID)
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
	return t.redrawEach(dst, c, ops)
}

// redrawEach sends every operation by itself: an array that grew may not be looked at
// again in the same patch.
func (t *Translator) redrawEach(dst []Out, c *call, ops []operation) []Out {
	for i := range ops {
		dst = t.redraw(dst, c, ops[i:i+1])
	}
	return dst
}

func exit(term acp.Terminal) json.RawMessage {
	return marshal(struct {
		Code   *int64 `json:"code"`
		Signal string `json:"signal,omitempty"`
	}{term.ExitCode, term.Signal})
}

// output keeps the last of it.
func (c *call) output(data string) {
	if c.ended {
		return
	}
	c.outputs = append(c.outputs, tail(data, maxOutput))
	size := 0
	for i := len(c.outputs) - 1; i >= 0; i-- {
		if size += len(c.outputs[i]); size > maxOutput {
			c.outputs = c.outputs[i+1:]
			return
		}
	}
}
