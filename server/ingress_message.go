package server

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"

	"aqueduct/agui"
	"aqueduct/bridge/inbox"
)

// Codes of errors that only this channel has.
const (
	codeUnknownType     = "unknown_type"
	codeHelloTwice      = "already_authenticated"
	codeMessageNotTaken = "message_not_taken"
	codeForeignUser     = "forbidden_user"
	codeReplaying       = "replay_in_progress"
)

// ingressMessage is everything that is told on the channel (platform contract §5.3). The
// members of its first part are on every message.
type ingressMessage struct {
	Type      string `json:"type"`
	TS        int64  `json:"ts"` // Unix milliseconds
	RequestID string `json:"request_id"`
	SessionID string `json:"session_id"`
	RunID     string `json:"run_id"` // our Turn
	// Seq is how far the client has come in the session: ten times the position in its log
	// of the event that is told, and which message of that event. What is not from the log
	// has that of the message before.
	Seq    int64 `json:"seq"`
	Replay bool  `json:"replay,omitempty"` // asked for by replay_run
	Again  bool  `json:"again,omitempty"`  // told before, and still of use: an open question

	AgentID string `json:"agent_id,omitempty"`
	Text    string `json:"text,omitempty"`

	State  string         `json:"state,omitempty"`
	Source string         `json:"source,omitempty"` // "agent" when the state is the agent's own word
	Detail *ingressDetail `json:"detail,omitempty"`

	ApprovalID string  `json:"approval_id,omitempty"`
	ToolCallID string  `json:"tool_call_id,omitempty"`
	ToolName   string  `json:"tool_name,omitempty"`
	Args       rawJSON `json:"args,omitempty"`
	DeadlineTS int64   `json:"deadline_ts,omitempty"`

	Kind        string `json:"kind,omitempty"` // permission or input
	ArgsSummary string `json:"args_summary,omitempty"`
	inbox.Shown
	ArgsSHA256     string  `json:"args_sha256,omitempty"`
	Risk           string  `json:"risk,omitempty"`
	Options        rawJSON `json:"options,omitempty"`
	ResponseSchema rawJSON `json:"response_schema,omitempty"`

	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`

	Usage *ingressUsage `json:"usage,omitempty"`
}

// The types of messages.
const (
	ingressRunStarted  = "run_started"
	ingressDelta       = "delta"
	ingressState       = "state"
	ingressToolRequest = "tool_request"
	ingressApproval    = "approval_required"
	ingressError       = "error"
	ingressDone        = "done"
)

// The states of a Turn as this wire has them.
const (
	ingressRunning         = "RUNNING"
	ingressWaitingApproval = "WAITING_APPROVAL"
	ingressWaitingTool     = "WAITING_TOOL"
)

// ingressDetail says more of a state: what is waited for, and what was settled.
type ingressDetail struct {
	ApprovalID  string           `json:"approval_id,omitempty"`
	ToolCallID  string           `json:"tool_call_id,omitempty"`
	ApprovalIDs []string         `json:"approval_ids,omitempty"`
	ToolCallIDs []string         `json:"tool_call_ids,omitempty"`
	Settled     []ingressSettled `json:"settled,omitempty"`

	raw rawJSON // an agent's own
}

// has reports whether a question is told as settled.
func (d *ingressDetail) has(id string) bool {
	return d != nil && slices.ContainsFunc(d.Settled, func(s ingressSettled) bool { return s.ID == id })
}

// settle adds a question that is settled.
func (m *ingressMessage) settle(s ingressSettled) {
	if m.Detail == nil {
		m.Detail = &ingressDetail{}
	}
	m.Detail.Settled = append(m.Detail.Settled, s)
}

// MarshalJSON gives an agent's own detail as it came.
func (d *ingressDetail) MarshalJSON() ([]byte, error) {
	if d.raw != nil {
		return d.raw, nil
	}
	type plain ingressDetail
	return json.Marshal((*plain)(d))
}

// ingressSettled is a question that has its answer. ID is its approval_id or tool_call_id,
// which are one.
type ingressSettled struct {
	ID         string `json:"id"`
	Status     string `json:"status"`
	OptionID   string `json:"option_id,omitempty"`
	DecidedBy  string `json:"decided_by,omitempty"`
	DecidedVia string `json:"decided_via,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

// question is the id of the question the message asks, "" for any other message.
func (m *ingressMessage) question() string {
	if m.Type == ingressApproval || m.Type == ingressToolRequest {
		return m.ToolCallID
	}
	return ""
}

// ingressUsage is a Run's use of tokens: the sums over its models.
type ingressUsage struct {
	Tokens       int64 `json:"tokens"`
	InputTokens  int64 `json:"input_tokens,omitempty"`
	OutputTokens int64 `json:"output_tokens,omitempty"`
}

func ingressUsageOf(usage []agui.TokenUsage) *ingressUsage {
	var sum ingressUsage
	for _, u := range usage {
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

func count(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// summaryLength bounds a summary, in characters.
const summaryLength = 300

// summary is what a question is about on one short line, in characters that show as what
// they are: no line breaks, no control or formatting characters (ANSI, bidi).
func summary(title string, args []byte) string {
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
