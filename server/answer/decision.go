// Package answer has the JSON shapes in which questions are shown and answered, shared by the HTTP API, the sockets and the
// webhooks of channels.
package answer

import (
	"encoding/json"

	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/internal/strictjson"
)

// Decision takes the contract's words (approve, reject), an option, or the value of an input. For example
// {"decision":"approve"}, {"option_id":"allow_always"}, or {"payload":{"name":"Ann"}} for an input.
type Decision struct {
	Decision string          `json:"decision" validate:"omitempty,oneof=approve reject cancel"`
	OptionID string          `json:"option_id" validate:"max=256"`
	Approved *bool           `json:"approved" validate:"required_without_all=Decision OptionID Payload"`
	Payload  json.RawMessage `json:"payload"`
	EditedArgs
	Reason string `json:"reason" validate:"max=2000"`
}

// EditedArgs is what shall run instead, where the question allows it. Who changes arguments and
// spells that as AG-UI's resume does must not have the others run.
type EditedArgs struct {
	Edited json.RawMessage `json:"edited_args"`
	AsAGUI json.RawMessage `json:"editedArgs"`
}

// Args returns the edited arguments under whichever of the two names they came; both names at once are refused.
func (e EditedArgs) Args() (json.RawMessage, error) {
	switch {
	case !strictjson.IsSet(e.AsAGUI):
		return e.Edited, nil
	case strictjson.IsSet(e.Edited):
		return nil, fault.New(approval.InvalidAnswer, "edited_args and editedArgs are the same; give one.")
	}
	return e.AsAGUI, nil
}

// Words is the decision as approval reads it.
func (b Decision) Words() (approval.Words, error) {
	edited, err := b.Args()
	return approval.Words{Decision: b.Decision, Approved: b.Approved, OptionID: b.OptionID, Payload: b.Payload, Edited: edited, Reason: b.Reason}, err
}

// NamedDecision is a person's decision. Beside the contract's words it takes an option, and for an input its value.
// It is an element of a batch, and a message of a channel.
type NamedDecision struct {
	ApprovalID string `json:"approval_id" validate:"required,max=128"`
	Decision
}
