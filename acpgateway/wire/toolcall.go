package wire

import (
	"bytes"
	"encoding/json"
)

// The states of a tool call. Cancelled is of v2; agents of v1 do not send it.
const (
	StatusPending    = "pending"
	StatusInProgress = "in_progress"
	StatusCompleted  = "completed"
	StatusFailed     = "failed"
	StatusCancelled  = "cancelled"
)

// The types of a tool call's content.
const (
	ToolContentBlock    = "content"
	ToolContentDiff     = "diff"
	ToolContentTerminal = "terminal"
)

// ToolCall is what is known of a tool call, or what one frame has about it. What a frame
// does not say is empty, nil for the lists: absent means unchanged, and so does null.
type ToolCall struct {
	ID        string
	Title     string
	Kind      string
	Status    string
	Name      string // the tool, where the agent tells it
	Content   []ToolContent
	Locations []Location
	RawInput  json.RawMessage
	RawOutput json.RawMessage
	Terminals []Terminal // of _meta; what one frame adds, never merged
}

// Location is a place in a file that a call is about.
type Location struct {
	Path string `json:"path"`
	Line *int64 `json:"line,omitempty"`
}

// ToolContent is one piece of what a call shows: a block, a change of a file, a terminal.
type ToolContent struct {
	Type       string
	Block      Block
	Path       string
	OldText    *string // nil for a new file
	NewText    string
	TerminalID string
	Raw        json.RawMessage
}

// Terminal is news of a terminal the client never created: codex runs its own and tells
// of them in _meta (terminal_info, terminal_output or terminal_output_delta, terminal_exit).
type Terminal struct {
	ID       string
	Cwd      string
	Data     string // output since the last frame
	Exited   bool
	ExitCode *int64
	Signal   string
}

// ToolCall is the view of tool_call and tool_call_update.
func (u Update) ToolCall() ToolCall { return ReadToolCall(u.Raw) }

// ReadToolCall reads a tool call out of any of the three frames that carry one.
func ReadToolCall(raw json.RawMessage) ToolCall {
	var wire struct {
		ID        lax[string]          `json:"toolCallId"`
		Title     lax[string]          `json:"title"`
		Kind      lax[string]          `json:"kind"`
		Status    lax[string]          `json:"status"`
		Name      lax[string]          `json:"name"`
		Content   laxList[ToolContent] `json:"content"`
		Locations laxList[Location]    `json:"locations"`
		RawInput  json.RawMessage      `json:"rawInput"`
		RawOutput json.RawMessage      `json:"rawOutput"`
		Meta      json.RawMessage      `json:"_meta"`
	}
	if json.Unmarshal(raw, &wire) != nil {
		return ToolCall{}
	}
	c := ToolCall{
		ID: wire.ID.Val, Title: wire.Title.Val, Kind: wire.Kind.Val, Status: wire.Status.Val, Name: wire.Name.Val,
		Content: wire.Content.Val, Locations: wire.Locations.Val,
		RawInput: given(wire.RawInput), RawOutput: given(wire.RawOutput),
	}
	if isObject(wire.Meta) {
		c.readMeta(wire.Meta)
	}
	return c
}

// Merge takes over a later frame: absent is unchanged, lists replace. An empty
// rawInput is no news either; agents open with {} before they know the arguments.
func (c *ToolCall) Merge(next ToolCall) {
	for _, m := range [...]struct {
		dst  *string
		news string
	}{{&c.Title, next.Title}, {&c.Kind, next.Kind}, {&c.Status, next.Status}, {&c.Name, next.Name}} {
		if m.news != "" {
			*m.dst = m.news
		}
	}
	if next.Content != nil {
		c.Content = next.Content
	}
	if next.Locations != nil {
		c.Locations = next.Locations
	}
	if !EmptyInput(next.RawInput) {
		c.RawInput = next.RawInput
	}
	if len(next.RawOutput) > 0 {
		c.RawOutput = next.RawOutput
	}
}

// EmptyInput tells arguments that are none yet.
func EmptyInput(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 1 && (raw[0] == '{' || raw[0] == '[') {
		return len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0
	}
	return len(raw) == 0 || string(raw) == "null" || string(raw) == `""`
}

// Ended tells whether a status is the last.
func Ended(status string) bool {
	return status == StatusCompleted || status == StatusFailed || status == StatusCancelled
}

// UnmarshalJSON reads tolerantly.
func (c *ToolContent) UnmarshalJSON(raw []byte) error {
	var wire struct {
		Type       lax[string] `json:"type"`
		Content    lax[Block]  `json:"content"`
		Path       lax[string] `json:"path"`
		OldText    lax[string] `json:"oldText"`
		NewText    lax[string] `json:"newText"`
		TerminalID lax[string] `json:"terminalId"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return err
	}
	*c = ToolContent{
		Type: wire.Type.Val, Block: wire.Content.Val, Path: wire.Path.Val, NewText: wire.NewText.Val,
		TerminalID: wire.TerminalID.Val, Raw: bytes.Clone(raw),
	}
	if wire.OldText.Set {
		c.OldText = &wire.OldText.Val
	}
	return nil
}

// UnmarshalJSON reads tolerantly; a line that is no whole number is left out.
func (l *Location) UnmarshalJSON(raw []byte) error {
	var wire struct {
		Path lax[string] `json:"path"`
		Line lax[int64]  `json:"line"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return err
	}
	*l = Location{Path: wire.Path.Val}
	if wire.Line.Set {
		l.Line = &wire.Line.Val
	}
	return nil
}
