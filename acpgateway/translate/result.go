package translate

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"aqueduct/acpgateway/wire"
)

// resultSoFar is what a call has shown, else why it shows nothing.
func (c *call) resultSoFar(otherwise string) string {
	seen := c.seen
	seen.Status = otherwise
	if so := resultText(seen, c.outputs); so != otherwise {
		return so + "\n" + otherwise
	}
	return otherwise
}

// output adds what the call's terminal wrote. Only the last maxOutput bytes stay, in whole pieces, and nothing counts
// after the call has ended.
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

// resultText is what a call came to, in text.
func resultText(c wire.ToolCall, outputs []string) string {
	var b strings.Builder
	for _, piece := range c.Content {
		if words := piece.Block.Words(); piece.Type == wire.ToolContentBlock && words != "" {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(words)
		}
	}
	switch {
	case b.Len() > 0:
		return b.String()
	case len(outputs) > 0:
		return withExit(strings.Join(outputs, ""), c)
	case len(c.RawOutput) > 0:
		return rawText(c.RawOutput)
	}
	return c.Status
}

// withExit adds how a command ended, when that was not well. codex has it in rawOutput where the
// command shows no terminal.
func withExit(output string, c wire.ToolCall) string {
	// Anything else in rawOutput, or a member of another type, is no exit code.
	var exit struct {
		Code int `json:"exit_code"`
	}
	if json.Unmarshal(c.RawOutput, &exit) != nil || exit.Code == 0 {
		return output
	}
	return strings.TrimRight(output, "\n") + "\n(exit code " + strconv.Itoa(exit.Code) + ")"
}

// rawText is a JSON string's text, or any other JSON as it is.
func rawText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
