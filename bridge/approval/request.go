package approval

import (
	"bytes"
	"cmp"
	"encoding/json"
	"time"

	"aqueduct/bridge/redact"
	"aqueduct/policy"
)

// What a person reads is bounded, in characters: a title is shown in lists, a tool's name beside it, a label on a button.
const (
	maxTitle = 500
	maxTool  = 128
	MaxLabel = 100
)

// Kind is what a Request waits for.
type Kind string

// The kinds of Requests.
const (
	AskPermission Kind = "permission"
	AskInput      Kind = "input"
	AskClientTool Kind = "client_tool"
)

// Request is what an Agent asks of a person or a person's client. It becomes a Question when it is kept.
//
// HTTP agents, the ACP translator and the tool proxy all ask with one of these. The engine adds what only it knows:
// who may decide, until when, and the policy's risk.
type Request struct {
	UpstreamID string // the Agent's id of it
	// CallID is the id of the Question, and of the tool call that shows it: one that the log has already where the Agent
	// sent that call by events. "" gives it a new one.
	CallID         string
	Kind           Kind
	ToolName       string // shown as toolCallName; permissions are always request_permission
	Tool           string // the tool a permission is about
	ToolKind       string // what ACP calls its kind: read, edit, execute, …; "" when not known
	Title          string
	Args           json.RawMessage
	Folder         string // where the Agent works for this Session, absolute; "" when not known
	Options        []Option
	ResponseSchema json.RawMessage
	Risk           string
	Event          json.RawMessage `json:",omitempty"` // the value of the CUSTOM on_interrupt that asks; nil for none
	// Lasting is set for a client's tool that waits for as long as the page needs, where ExpiresIn is 0.
	Lasting   bool          `json:",omitempty"`
	ExpiresIn time.Duration // 0: the default
}

// About is the name of the tool a permission is about.
func (r *Request) About() string { return cmp.Or(r.Tool, r.ToolName) }

// Fingerprint is that of the Question that the Request will be: masked, with a hash that may be keyed.
func (r *Request) Fingerprint(h redact.Hasher) string {
	args := Compact(r.Args)
	if r.Kind == AskClientTool {
		return Fingerprint(cmp.Or(r.ToolName, "request_input"), "", "", redact.Hasher{}.Sum(args))
	}
	return Fingerprint(PlainTool(r.About()), r.ToolKind, PlainTitle(h.Filter.Text(r.Title)), h.Sum(args))
}

// PlainTitle keeps a title on one line, short, and free of what would deceive a reader; the arguments show everything.
func PlainTitle(title string) string { return policy.Visible(title, maxTitle) }

// PlainTool does the same to a tool's name, which an agent makes up as it does the title. A Grant for a name that had to be
// changed covers nothing that the agent can ask for.
func PlainTool(tool string) string { return policy.Visible(tool, maxTool) }

// Compact is JSON without insignificant space: {} for none, and a string that holds it for text that is not JSON.
// The form matters: hashes are made of it, and two spellings of the same arguments must have the same.
func Compact(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		text, _ := json.Marshal(string(raw)) // a string always encodes
		return text
	}
	return out.Bytes()
}

// Delivery is the answer to a Request as its Agent gets it.
type Delivery struct {
	UpstreamID string
	CallID     string // of the call in the log, and so in the transcript
	// Key is the idempotency key of a ToolCall, and Repeated marks an answer that an earlier call of the Agent has had. Both
	// are for an Agent whose call was lost.
	Key      string
	Repeated bool
	// Fingerprint is the answered Question's. An upstream that has since asked something else under the same id must not
	// pass the answer on.
	Fingerprint string
	Kind        Kind
	Status      string // agui.ResumeResolved or agui.ResumeCancelled
	Payload     json.RawMessage
	// Reason is ReasonExpired where no person answered in time; Status is cancelled then. Reject is the payload of the reject
	// option, for an Agent that has no other word for it: ACP's cancelled means that the prompt was cancelled.
	Reason string
	Reject json.RawMessage
	// Args are the asked arguments, or the ones changed by a person, as Edited reports. Schema is the Request's
	// ResponseSchema, and Words is the person's reason. They are for an Agent that takes its answers in a form of its own.
	Args   json.RawMessage
	Edited bool
	Schema json.RawMessage
	Words  string
	Event  json.RawMessage // the Request's
}
