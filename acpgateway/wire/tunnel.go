package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"aqueduct/internal/strictjson"
)

// Frame is one message of /ws/agent. Type is its name there.
type Frame interface{ Type() string }

// Head is what every message may have beside its own fields.
type Head struct {
	Type  string `json:"type"`
	RunID string `json:"run_id"`
	// Seq counts the frames of one run_id (and those without one) from 1, in each direction,
	// for as long as the sender's epoch lasts. 0: this end does not count.
	Seq int64 `json:"seq"`
}

// ErrNoType is a message that does not say what it is.
var ErrNoType = errors.New("acp: a message without a type")

// ErrTooMany is a message that would take a hundred times its bytes when it is decoded.
var ErrTooMany = fmt.Errorf("acp: a message with more than %d values", strictjson.MostFrameValues)

// Decode reads one message. Head is as full as it could be read, also beside an error.
func Decode(data []byte) (Head, Frame, error) {
	if strictjson.TooMany(data, strictjson.MostFrameValues) {
		return Head{}, nil, ErrTooMany
	}
	head, err := decodeHead(data)
	if err != nil {
		return head, nil, err
	}
	frame := blank(head.Type)
	if frame == nil {
		return head, &Unknown{Name: head.Type, Raw: bytes.Clone(data)}, nil
	}
	if err := json.Unmarshal(data, frame); err != nil {
		return head, nil, fmt.Errorf("acp: %s: %w", head.Type, err)
	}
	return head, frame, nil
}

func decodeHead(data []byte) (Head, error) {
	// A run_id of a wrong type must not hide what the message is.
	var loose struct {
		Type  string          `json:"type"`
		RunID json.RawMessage `json:"run_id"`
		Seq   json.RawMessage `json:"seq"`
	}
	if err := json.Unmarshal(data, &loose); err != nil {
		return Head{}, fmt.Errorf("acp: %w", err)
	}
	if loose.Type == "" {
		return Head{}, ErrNoType
	}
	head := Head{Type: loose.Type}
	if json.Unmarshal(loose.RunID, &head.RunID) != nil {
		head.RunID = ""
	}
	if json.Unmarshal(loose.Seq, &head.Seq) != nil {
		head.Seq = 0
	}
	return head, nil
}

// Encode writes a message, its type first.
func Encode(f Frame) ([]byte, error) {
	if u, ok := f.(*Unknown); ok {
		return u.Raw, nil
	}
	body, err := marshal(f)
	if err != nil {
		return nil, fmt.Errorf("acp: %s: %w", f.Type(), err)
	}
	out := append(make([]byte, 0, len(body)+len(f.Type())+12), `{"type":"`...)
	out = append(append(out, f.Type()...), '"')
	if len(body) > len("{}") {
		out = append(out, ',')
	}
	return append(out, body[1:]...), nil
}

// marshal leaves <, > and & as they are: raw updates are passed on as they came.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// WithSeq returns an encoded message with its number in it.
func WithSeq(message []byte, seq int64) []byte {
	out := make([]byte, 0, len(message)+len(`,"seq":`)+20)
	out = append(out, message[:len(message)-1]...)
	return append(strconv.AppendInt(append(out, `,"seq":`...), seq, 10), '}')
}

// blank returns an empty message of a type, nil for an unknown one.
func blank(name string) Frame {
	if f := blankDown(name); f != nil {
		return f
	}
	return blankUp(name)
}

// blankDown knows what the gateway sends.
func blankDown(name string) Frame {
	switch name {
	case "register_ack":
		return &RegisterAck{}
	case "acp_open":
		return &Open{}
	case "acp_close":
		return &Close{}
	case "prompt_send":
		return &PromptSend{}
	case "session_cancel":
		return &SessionCancel{}
	case "session_set_mode":
		return &SessionSetMode{}
	case "session_set_model":
		return &SessionSetModel{}
	case "session_set_config_option":
		return &SessionSetConfigOption{}
	case "session_permission":
		return &SessionPermission{}
	case "session_elicitation":
		return &SessionElicitation{}
	case "sandbox_control":
		return &SandboxControl{}
	case "ack":
		return &Ack{}
	}
	return nil
}

// blankUp knows what a proxy sends.
func blankUp(name string) Frame {
	switch name {
	case "register_agent":
		return &RegisterAgent{}
	case "heartbeat":
		return &Heartbeat{}
	case "acp_opened":
		return &Opened{}
	case "acp_closed":
		return &Closed{}
	case "acp_exit":
		return &Exit{}
	case "acp_update":
		return &ACPUpdate{}
	case "proxy_update":
		return &ProxyUpdate{}
	case "prompt_result":
		return &PromptResult{}
	case "session_control_result":
		return &SessionControlResult{}
	case "sandbox_control_result":
		return &SandboxControlResult{}
	case "sandbox_inventory":
		return &SandboxInventory{}
	case "workspace_inventory":
		return &WorkspaceInventory{}
	case "branch_created":
		return &BranchCreated{}
	}
	return nil
}

// Unknown is a message of an unknown type, kept whole.
type Unknown struct {
	Name string
	Raw  json.RawMessage
}

// Type implements Frame.
func (u *Unknown) Type() string { return u.Name }

// Ack reports that every frame of a run up to Seq has been received for good. Either end sends it to
// one that counts; what is not acknowledged is sent again on the next link.
type Ack struct {
	RunID string `json:"run_id,omitempty"` // empty: the frames without a run_id
	Seq   int64  `json:"seq"`
}

// Type implements Frame.
func (*Ack) Type() string { return "ack" }
