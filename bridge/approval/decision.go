package approval

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"aqueduct/agui"
	"aqueduct/internal/fault"
	"aqueduct/internal/schema"
	"aqueduct/store"
)

// Decision is an Answer read against its Question: what is settled, and what the agent
// and the transcript get.
//
// It is the one form that every surface's answer, every deadline and every end of an Agent takes before it is applied
// (apply.go). Status and Option are what the rows get, Payload what the Agent gets, Result what the transcript shows.
type Decision struct {
	Status       store.ApprovalStatus
	Option       Option // of a permission
	Payload      json.RawMessage
	Result       json.RawMessage // content of the TOOL_CALL_RESULT
	ErrorCode    string          // of a ToolCall that failed
	By           string
	Via          string
	Reason       string
	InTranscript bool // the client's own tool message is the result
	CardAnswered bool // it is that of the card
	// CancelledBy is the person who cancelled the Turn; "" for a Decision of no person's.
	CancelledBy string
	// Edited are the arguments as the decider wants them; nil as they were asked for.
	Edited json.RawMessage
	SHA256 string // of Edited, hex
}

// Surfaces an answer comes through, and what else settles a Question.
const (
	ViaChat    = "chat"
	ViaREST    = "rest"
	ViaMCP     = "mcp" // the person at an MCP client
	ViaExpiry  = "expiry"
	ViaCancel  = "cancel"            // its Turn was cancelled
	ViaAgent   = "agent"             // the Agent asks no more
	ViaGone    = "asker_gone"        // the Agent that asked is gone
	ViaRevoke  = "revoke"            // its approval was taken back before anything acted on it
	ViaPolicy  = "policy"            // a rule or a Grant decided it
	ViaRefused = "refused"           // it could not be asked
	ViaChanged = "arguments_changed" // the asker uses its id for another Question
)

// bySystem is the decider when no person is.
const bySystem = "system"

// ByPerson reports whether a person decided an Approval.
func ByPerson(a store.Approval) bool { return a.DecidedBy != "" && a.DecidedBy != bySystem }

// Codes of Unclear.
const (
	UnknownOption = "unknown_option"
	InvalidAnswer = "invalid_answer"
	NotApprover   = "not_approver" // another person has to decide
	FourEyes      = "four_eyes"    // who prompted may not approve
	AskerLost     = "asker_gone"   // the Agent that asked waits no more
	EditRefused   = "edit_not_allowed"
	PolicyBlocks  = "policy_blocks" // the policy in force blocks what was asked under another
)

// read is OptionIDs.Read. place returns the place of the option that an id of a page names.
func read(ctx context.Context, q Question, a Answer, place places) (Decision, error) {
	d := Decision{Reason: a.Reason, InTranscript: a.MessageID != "" && !q.Call.Carded, CardAnswered: a.MessageID != "" && q.Call.Carded}
	switch {
	case a.Cancelled:
		d.decline(store.ApprovalCancelled, agui.ResumeCancelled)
		return d, nil
	case q.ClientTool():
		return readToolResult(d, a)
	case q.Approval.Kind == store.ApprovalInput:
		return readInput(ctx, d, q, a)
	default:
		return readPermission(d, q, a, place)
	}
}

// Expired is the Decision that no person made. It chooses no option: an expiry must not read as a person's "no" (ExpiryOf).
func Expired() Decision {
	d := Decision{By: bySystem, Via: ViaExpiry}
	d.decline(store.ApprovalExpired, ReasonExpired)
	return d
}

// ReasonExpired is the Reason of a Delivery that no person decided, and the code of a ToolCall that ended so.
const ReasonExpired = "expired"

// CancelledBy is the Decision of a cancelled Turn: the Question is of no use any more. user is who cancelled, "" when
// no person did.
func CancelledBy(user string) Decision {
	d := Decision{By: bySystem, Via: ViaCancel, CancelledBy: user}
	if user != "" {
		d.By = user
	}
	d.decline(store.ApprovalCancelled, agui.ResumeCancelled)
	return d
}

// AskerGone is the Decision for an Agent that is gone: no answer is waited for.
func AskerGone() Decision {
	d := Decision{By: bySystem, Via: ViaGone, Reason: "The agent that asked is gone."}
	d.decline(store.ApprovalCancelled, CodeAskerGone)
	return d
}

// AskerGoneByRestart is AskerGone where a restart of the server ended the Agent's call.
func AskerGoneByRestart() Decision {
	d := AskerGone()
	d.Reason = "The server was restarted, and the agent that asked cannot be called again."
	return d
}

// CodeAskerGone is the code of a ToolCall, and the reason of an Approval, whose Agent is gone.
const CodeAskerGone = "asker_gone"

// CodeWentOn is the code of a client's tool call that the user's next message left unanswered.
const CodeWentOn = "user_went_on"

// WentOn returns the Decision about a client's tool call that a user's next message leaves unanswered.
func WentOn(user string) Decision {
	d := Decision{By: user, Via: ViaChat, Status: store.ApprovalCancelled, ErrorCode: CodeWentOn, Reason: "The user went on without an answer."}
	d.Result = mustJSON(map[string]string{"status": CodeWentOn, "message": d.Reason})
	return d
}

// WithdrawnByAgent is the Decision of an Agent that no longer asks.
func WithdrawnByAgent() Decision {
	d := CancelledBy("")
	d.Via = ViaAgent
	return d
}

// NotNeeded is the Decision about a Question whose asker got what it asked for in another way. reason is how.
func NotNeeded(reason string) Decision {
	d := WithdrawnByAgent()
	d.Reason = reason
	return d
}

// decline makes a Decision one without a Payload: the Agent gets a cancelled resume, and the transcript the code.
func (d *Decision) decline(to store.ApprovalStatus, code string) {
	d.Status, d.ErrorCode, d.Result = to, code, object("status", code)
}

// ResumeStatus is the status of AG-UI's resume.
func (d Decision) ResumeStatus() string {
	if d.Payload == nil {
		return agui.ResumeCancelled
	}
	return agui.ResumeResolved
}

// readToolResult reads what a client made of its tool. A failure is an answer too: the Agent gets it as a resolved
// resume with an error in it, not as a cancel, so that it can go on with that knowledge.
func readToolResult(d Decision, a Answer) (Decision, error) {
	if a.Error != "" {
		d.Status, d.ErrorCode = store.ApprovalRejected, "client_tool_failed"
		d.Reason = cmp.Or(d.Reason, a.Error)
		d.Payload = object("error", a.Error)
		d.Result = d.Payload
		return d, nil
	}
	if len(a.Payload) == 0 {
		return d, fault.New(InvalidAnswer, "a tool result needs content")
	}
	d.Status = store.ApprovalApproved
	d.Payload = object("content", textOf(a.Payload))
	d.Result = a.Payload
	return d, nil
}

// readInput takes any JSON value that fits the schema the Agent asked with. With one that does not, the Question stays
// open for a better one.
func readInput(ctx context.Context, d Decision, q Question, a Answer) (Decision, error) {
	value, opened := a.Payload, Unwrapped(a.Payload)
	// A tool message can carry JSON only as text. Elsewhere, except in a command, a text that holds an object was meant as an
	// object. A text such as "42" was meant as text.
	if a.MessageID != "" || a.Command == nil && len(opened) > 0 && strings.ContainsRune("{[n", rune(opened[0])) {
		value, opened = opened, value
	}
	if len(value) == 0 || string(value) == "null" {
		return d, fault.New(InvalidAnswer, "the answer is empty")
	}
	form := schema.Of(q.Approval.ResponseSchema)
	err := form.CheckIn(ctx, value)
	if err != nil && !schema.Deferred(err) && !bytes.Equal(value, opened) {
		if other := form.CheckIn(ctx, opened); other == nil || schema.Deferred(other) {
			value, err = opened, other
		}
	}
	if err != nil {
		return d, schema.Fault(err, InvalidAnswer)
	}
	d.Status, d.Payload, d.Result = store.ApprovalApproved, value, value
	return d, nil
}

// Unwrapped opens a JSON string that itself holds JSON: tool messages and TDesign send their results so.
// A text that only looks like JSON stays a text.
func Unwrapped(payload json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(payload, &text) != nil {
		return payload
	}
	inner := bytes.TrimSpace([]byte(text))
	if len(inner) > 0 && json.Valid(inner) {
		return inner
	}
	return payload
}

// textOf is the text a tool result carries: the string itself, or the JSON.
func textOf(payload json.RawMessage) string {
	var text string
	if json.Unmarshal(payload, &text) == nil {
		return text
	}
	return string(payload)
}

func object(key, value string) json.RawMessage { return mustJSON(map[string]string{key: value}) }

// mustJSON encodes values that cannot fail to encode.
func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("approval: " + err.Error())
	}
	return raw
}
