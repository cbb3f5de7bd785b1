// This file is the wire form of what the server sends on the channel.

package channel

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
)

// Message is everything that the server sends on the channel (platform contract §5.3). The members of its first part
// are on every message. One flat struct holds the members of all types, as the contract does: a client reads type and
// then the members it needs. Which type has which is in server/openapi.json, the schemas Ingress…Frame. It is written
// once and not changed afterwards, but for Again and Replay, which are set before it is sent.
type Message struct {
	Type      string `json:"type"`
	TS        int64  `json:"ts"` // Unix milliseconds
	RequestID string `json:"request_id"`
	SessionID string `json:"session_id"`
	RunID     string `json:"run_id"` // our Turn
	// Seq is how far the client has come in the session: ten times the position of the event in the session's log,
	// plus the index of the message within that event. A message that is not from the log has the Seq of the message
	// before it. A client keeps the highest it has seen for each session and sends it in its next hello.
	Seq    int64 `json:"seq"`
	Replay bool  `json:"replay,omitempty"` // asked for by replay_run
	Again  bool  `json:"again,omitempty"`  // sent before, and still of use: an open question

	AgentID string `json:"agent_id,omitempty"`
	Text    string `json:"text,omitempty"`

	State  string  `json:"state,omitempty"`
	Source string  `json:"source,omitempty"` // "agent" when the state is the agent's own word
	Detail *detail `json:"detail,omitempty"`

	ApprovalID string          `json:"approval_id,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	ToolName   string          `json:"tool_name,omitempty"`
	Args       json.RawMessage `json:"args,omitempty"`
	DeadlineTS int64           `json:"deadline_ts,omitempty"`

	Kind        string `json:"kind,omitempty"` // permission or input
	ArgsSummary string `json:"args_summary,omitempty"`
	approval.Shown
	ArgsSHA256     string          `json:"args_sha256,omitempty"`
	Risk           string          `json:"risk,omitempty"`
	Options        json.RawMessage `json:"options,omitempty"`
	ResponseSchema json.RawMessage `json:"response_schema,omitempty"`

	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`

	Usage *usageSum `json:"usage,omitempty"`

	UserID string `json:"user_id,omitempty"` // for whom the connection speaks
}

// The types of messages.
const (
	typeHelloOK          = "hello_ok"
	typeRunStarted       = "run_started"
	typeDelta            = "delta"
	typeState            = "state"
	typeToolRequest      = "tool_request"
	typeApprovalRequired = "approval_required"
	typeError            = "error"
	typeDone             = "done"
)

// The states of a Turn as this wire has them.
const (
	stateRunning         = "RUNNING"
	stateWaitingApproval = "WAITING_APPROVAL"
	stateWaitingTool     = "WAITING_TOOL"
)

// detail is more about a state: what is waited for, and what was settled.
// The first id is also given alone, in approval_id or tool_call_id, for clients that handle one
// question at a time.
type detail struct {
	ApprovalID  string            `json:"approval_id,omitempty"`
	ToolCallID  string            `json:"tool_call_id,omitempty"`
	ApprovalIDs []string          `json:"approval_ids,omitempty"`
	ToolCallIDs []string          `json:"tool_call_ids,omitempty"`
	Settled     []settledQuestion `json:"settled,omitempty"`

	raw json.RawMessage // an agent's own
}

// has reports whether the question is listed as settled.
func (d *detail) has(id string) bool {
	return d != nil && slices.ContainsFunc(d.Settled, func(s settledQuestion) bool { return s.ID == id })
}

// settle adds a question that is settled. The state of a continued Turn lists them all, in the order
// of the log.
func (m *Message) settle(s settledQuestion) {
	if m.Detail == nil {
		m.Detail = &detail{}
	}
	m.Detail.Settled = append(m.Detail.Settled, s)
}

// MarshalJSON gives an agent's own detail as it came.
func (d *detail) MarshalJSON() ([]byte, error) {
	if d.raw != nil {
		return d.raw, nil
	}
	type plain detail
	return json.Marshal((*plain)(d))
}

// settledQuestion is a question that has its answer. ID is its approval_id or tool_call_id,
// which are one.
type settledQuestion struct {
	ID         string `json:"id"`
	Status     string `json:"status"`
	OptionID   string `json:"option_id,omitempty"`
	DecidedBy  string `json:"decided_by,omitempty"`
	DecidedVia string `json:"decided_via,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

// question is the id of the question the message asks, "" for any other message.
// Open questions are sent again after a reconnect although their seq is old; this is how they are
// recognised.
func (m *Message) question() string {
	if m.Type == typeApprovalRequired || m.Type == typeToolRequest {
		return m.ToolCallID
	}
	return ""
}

// usageSum is a Run's use of tokens: the sums over its models.
type usageSum struct {
	Tokens       int64 `json:"tokens"`
	InputTokens  int64 `json:"input_tokens,omitempty"`
	OutputTokens int64 `json:"output_tokens,omitempty"`
}

// usageOf sums a Run's usage. For a model without a reported total it adds input and output. If both the agent and the model
// proxy counted, the sum is the agent's own report, because the same tokens may be in both.
func usageOf(end *agui.RunFinished) *usageSum {
	var metadata map[string]json.RawMessage
	_ = json.Unmarshal(end.Metadata, &metadata) // an object, or nothing
	var by []string
	_ = json.Unmarshal(metadata[agui.CountedByKey], &by) // of our own writing, or nothing
	var sum usageSum
	for i, u := range end.Usage {
		if i < len(by) && by[i] == agui.CountedByProxy {
			continue
		}
		in, out := count(u.InputTokens), count(u.OutputTokens)
		sum.InputTokens += in
		sum.OutputTokens += out
		if u.TotalTokens != nil {
			sum.Tokens += *u.TotalTokens
		} else {
			sum.Tokens += in + out
		}
	}
	return &sum
}

// count is a number of tokens; unknown counts as none.
func count(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// millis is a time in Unix milliseconds, 0 for none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// summaryLength bounds a summary, in characters. It fits on a phone's notification and in a line of a chat.
const summaryLength = 300

// Summary is what a question is about on one short line, in characters that show as what
// they are: no line breaks, no control or formatting characters (ANSI, bidi).
// It is shown to people who decide on it: bidirectional controls could make a command read as
// another one.
func Summary(title string, args []byte) string {
	text := title
	if len(args) > 0 && string(args) != "{}" {
		text = strings.TrimSpace(text + " " + string(args))
	}
	out := make([]rune, 0, summaryLength)
	for _, r := range text {
		if len(out) == summaryLength {
			return string(out) + "…"
		}
		switch {
		case unicode.IsSpace(r):
			if len(out) == 0 || out[len(out)-1] == ' ' {
				continue
			}
			r = ' '
		case unicode.In(r, unicode.C):
			r = unicode.ReplacementChar
		}
		out = append(out, r)
	}
	return strings.TrimSpace(string(out))
}
