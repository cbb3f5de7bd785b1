package wire

import "encoding/json"

// The kinds of a permission's options. A kind names what an option does; its id is the
// agent's own word and means nothing here.
const (
	AllowOnce    = "allow_once"
	AllowAlways  = "allow_always"
	RejectOnce   = "reject_once"
	RejectAlways = "reject_always"
)

// Option is one answer a permission request offers.
type Option struct {
	ID   string
	Name string
	Kind string
}

// Permission is a request for permission: session/request_permission as the agent made
// it, or permission_request as a proxy passes it on.
type Permission struct {
	RequestID RequestID
	SessionID string
	PromptID  string
	ToolCall  ToolCall
	// Options are without those that have no id, which cannot be chosen, or whose kind is none
	// of its own: what choosing one would do is unknown.
	Options []Option
}

// ReadPermission reads either form. It does not fail.
func ReadPermission(raw json.RawMessage) Permission {
	var wire struct {
		RequestID  lax[RequestID]  `json:"request_id"`
		SessionID  lax[string]     `json:"session_id"`
		PromptID   lax[string]     `json:"prompt_id"`
		ToolCall   json.RawMessage `json:"tool_call"`
		SessionID2 lax[string]     `json:"sessionId"`
		ToolCall2  json.RawMessage `json:"toolCall"`
		Options    laxList[Option] `json:"options"`
	}
	var p Permission
	if json.Unmarshal(raw, &wire) != nil {
		return p
	}
	p.RequestID, p.SessionID, p.PromptID = wire.RequestID.Val, wire.SessionID.Val, wire.PromptID.Val
	if p.SessionID == "" {
		p.SessionID = wire.SessionID2.Val
	}
	call := wire.ToolCall
	if !isObject(call) {
		call = wire.ToolCall2
	}
	p.ToolCall = ReadToolCall(call)
	for _, o := range wire.Options.Val {
		if o.ID != "" {
			if !isKind(o.Kind) {
				o.Kind = "" // its name has to say what it does
			}
			p.Options = append(p.Options, o)
		}
	}
	return p
}

func isKind(kind string) bool {
	switch kind {
	case AllowOnce, AllowAlways, RejectOnce, RejectAlways:
		return true
	}
	return false
}

// UnmarshalJSON reads tolerantly.
func (o *Option) UnmarshalJSON(raw []byte) error {
	var wire struct{ OptionID, Name, Kind lax[string] }
	if err := json.Unmarshal(raw, &wire); err != nil {
		return err
	}
	*o = Option{ID: wire.OptionID.Val, Name: wire.Name.Val, Kind: wire.Kind.Val}
	return nil
}
