package wire

import "encoding/json"

// readMeta takes what agents say of a call beside the protocol: the tool's name, under
// their own key or not, and terminals of their own.
func (c *ToolCall) readMeta(meta json.RawMessage) {
	var wire struct {
		ToolName lax[string]      `json:"toolName"`
		Info     lax[terminalOut] `json:"terminal_info"`
		Output   lax[terminalOut] `json:"terminal_output"`
		Delta    lax[terminalOut] `json:"terminal_output_delta"`
		Exit     lax[terminalOut] `json:"terminal_exit"`
	}
	if json.Unmarshal(meta, &wire) != nil {
		return
	}
	if c.Name == "" {
		c.Name = wire.ToolName.Val
	}
	if c.Name == "" {
		c.Name = nestedToolName(meta)
	}
	for _, news := range [...]lax[terminalOut]{wire.Info, wire.Output, wire.Delta, wire.Exit} {
		if news.Set && news.Val.ID.Val != "" {
			c.addTerminal(news.Val)
		}
	}
	if n := len(c.Terminals); n > 0 && wire.Exit.Set {
		c.Terminals[n-1].Exited = true
	}
}

// nestedToolName is the toolName under any vendor's key, as claude's
// {"claudeCode":{"toolName":…}}; the first by key, so that the choice is stable.
func nestedToolName(meta json.RawMessage) string {
	var vendors map[string]lax[struct {
		ToolName lax[string] `json:"toolName"`
	}]
	if json.Unmarshal(meta, &vendors) != nil {
		return ""
	}
	name, from := "", ""
	for vendor, v := range vendors {
		if n := v.Val.ToolName.Val; n != "" && (name == "" || vendor < from) {
			name, from = n, vendor
		}
	}
	return name
}

// terminalOut is any of the three terminal members.
type terminalOut struct {
	ID       lax[string] `json:"terminal_id"`
	Cwd      lax[string] `json:"cwd"`
	Data     lax[string] `json:"data"`
	ExitCode lax[int64]  `json:"exit_code"`
	Signal   lax[string] `json:"signal"`
}

// addTerminal joins what one frame has about one terminal.
func (c *ToolCall) addTerminal(news terminalOut) {
	n := len(c.Terminals)
	if n == 0 || c.Terminals[n-1].ID != news.ID.Val {
		c.Terminals = append(c.Terminals, Terminal{ID: news.ID.Val})
		n++
	}
	t := &c.Terminals[n-1]
	t.Cwd += news.Cwd.Val
	t.Data += news.Data.Val
	t.Signal += news.Signal.Val
	if news.ExitCode.Set {
		t.ExitCode = &news.ExitCode.Val
	}
}
