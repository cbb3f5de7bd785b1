package wire

import (
	"encoding/json"
	"strings"
)

// SessionCancel stops what a session does.
type SessionCancel struct {
	RunID     string `json:"run_id"`
	ControlID string `json:"control_id"`
	SessionID string `json:"session_id"`
}

// Type implements Frame.
func (*SessionCancel) Type() string { return "session_cancel" }

// SessionSetMode chooses a mode.
type SessionSetMode struct {
	RunID     string `json:"run_id"`
	ControlID string `json:"control_id"`
	SessionID string `json:"session_id"`
	ModeID    string `json:"mode_id"`
}

// Type implements Frame.
func (*SessionSetMode) Type() string { return "session_set_mode" }

// SessionSetModel chooses a model.
type SessionSetModel struct {
	RunID     string `json:"run_id"`
	ControlID string `json:"control_id"`
	SessionID string `json:"session_id"`
	ModelID   string `json:"model_id"`
}

// Type implements Frame.
func (*SessionSetModel) Type() string { return "session_set_model" }

// SessionSetConfigOption sets an option to a text or a boolean.
type SessionSetConfigOption struct {
	RunID     string          `json:"run_id"`
	ControlID string          `json:"control_id"`
	SessionID string          `json:"session_id"`
	ConfigID  string          `json:"config_id"`
	Value     json.RawMessage `json:"value"`
}

// Type implements Frame.
func (*SessionSetConfigOption) Type() string { return "session_set_config_option" }

// NotOffered stands in the error of a control that asks for what the agent does not offer.
const NotOffered = "is not offered by the agent"

// SessionControlResult answers the four above.
type SessionControlResult struct {
	RunID     string `json:"run_id"`
	ControlID string `json:"control_id"`
	OK        bool   `json:"ok"`
	Error     string `json:"error,omitempty"`
}

// Type implements Frame.
func (*SessionControlResult) Type() string { return "session_control_result" }

// SessionPermission answers a permission_request. Nothing answers it.
type SessionPermission struct {
	RunID     string    `json:"run_id"`
	SessionID string    `json:"session_id"`
	RequestID RequestID `json:"request_id"`
	Outcome   string    `json:"outcome"`
	OptionID  *string   `json:"option_id"`
}

// Type implements Frame.
func (*SessionPermission) Type() string { return "session_permission" }

// RequestID is the id of a permission request: a text, or from some ends a number. An answer has to
// name it as it came, so a number keeps a mark that no text begins with.
type RequestID string

// numberMark begins a RequestID that is a number.
const numberMark = "\x00"

// String is the id as a text, also when it is a number.
func (r RequestID) String() string { return strings.TrimPrefix(string(r), numberMark) }

// UnmarshalJSON takes both.
func (r *RequestID) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*r = RequestID(strings.TrimLeft(text, numberMark))
		return nil
	}
	var number json.Number
	if err := json.Unmarshal(data, &number); err != nil {
		return err
	}
	*r = RequestID(numberMark + number.String())
	return nil
}

// MarshalJSON writes the id as it came.
func (r RequestID) MarshalJSON() ([]byte, error) {
	if number, ok := strings.CutPrefix(string(r), numberMark); ok && json.Valid([]byte(number)) {
		return []byte(number), nil
	}
	return json.Marshal(string(r))
}
