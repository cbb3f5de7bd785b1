package approval

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"aqueduct/agui"
	"aqueduct/internal/fault"
	"aqueduct/internal/schema"
	"aqueduct/internal/strictjson"
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
	ViaRefused = "refused"           // it could not be asked
	ViaChanged = "arguments_changed" // the asker uses its id for another Question
)

// bySystem is the decider when no person is.
const bySystem = "system"

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

// Read turns an Answer into a Decision. Only an option the Question offered counts, and
// only its kind decides what it does; whatever else comes is *fault.Error and changes nothing.
// An answer is checked against its schema outside of a transaction: see schema.Outside.
//
// It changes nothing and may be called as often as one likes: in the transaction that applies it, and before it, to
// find out whether a schema has to be checked first.
func Read(ctx context.Context, q Question, a Answer) (Decision, error) {
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
		return readPermission(d, q, a)
	}
}

// Expired is the Decision that no person made: the agent gets its reject option, or nothing.
// For instance an ACP agent whose question expires gets its own "reject_once", as if a person had chosen it, and goes
// on without the tool.
func Expired(q Question) Decision {
	d := Decision{By: bySystem, Via: ViaExpiry}
	d.decline(store.ApprovalExpired, "expired")
	if o, ok := first(q.Options(), RejectOnce); ok && !q.ClientTool() {
		d.Option, d.Payload = o, permissionPayload(o)
	}
	return d
}

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

// CodeAskerGone is the code of a ToolCall, and the reason of an Approval, whose Agent is gone.
const CodeAskerGone = "asker_gone"

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
	value := unwrapText(a.Payload)
	if len(value) == 0 || string(value) == "null" {
		return d, fault.New(InvalidAnswer, "the answer is empty")
	}
	if err := schema.Of(q.Approval.ResponseSchema).CheckIn(ctx, value); err != nil {
		return d, schema.Fault(err, InvalidAnswer)
	}
	d.Status, d.Payload, d.Result = store.ApprovalApproved, value, value
	return d, nil
}

// The order decides between contradictory answers: a cancel wins over a refusal, a refusal over an option. None of
// them can turn a no into a yes.
func readPermission(d Decision, q Question, a Answer) (Decision, error) {
	said, err := parsePermission(a.Payload)
	if err != nil {
		return d, err
	}
	if said.cancelled || said.refuses(q) {
		d.decline(store.ApprovalCancelled, agui.ResumeCancelled)
		return d, nil
	}
	o, err := said.choose(q)
	if err != nil {
		return d, err
	}
	d.Option, d.Payload = o, permissionPayload(o)
	d.Status, d.Result = store.ApprovalApproved, permissionResult("approved", o)
	if d.Edited = said.edited; !o.Allows() {
		d.Edited = nil
		d.Status, d.ErrorCode, d.Result = store.ApprovalRejected, "rejected", permissionResult("rejected", o)
	}
	return d, nil
}

// saidPermission is what the spellings of a permission's answer have in common.
// It names every option that the answer names, not the first: an answer with two is refused, since guessing could
// allow what was not meant.
type saidPermission struct {
	options   []string // every option it names
	approved  *bool
	cancelled bool
	edited    json.RawMessage
}

// parsePermission accepts {optionId}, {option_id}, {choice}, {approved}, an ACP outcome
// {outcome:{outcome,optionId}}, and a bare option string, as JSON or as text.
//
// The spellings are those of AG-UI 1.0's resume, of TDesign's cards, of CopilotKit's renderers, of ACP clients and of
// people with curl. Names are compared exactly, with case: an "OptionID" that a lenient reader would take is an error
// here.
func parsePermission(payload json.RawMessage) (saidPermission, error) {
	payload = unwrapText(payload)
	var bare string
	if json.Unmarshal(payload, &bare) == nil && bare != "" {
		return saidPermission{options: []string{bare}}, nil
	}
	var body struct {
		OptionID  string          `json:"optionId"`
		OptionID2 string          `json:"option_id"`
		Choice    string          `json:"choice"`
		Approved  *bool           `json:"approved"`
		Outcome   json.RawMessage `json:"outcome"`
		Edited    json.RawMessage `json:"editedArgs"`
		Edited2   json.RawMessage `json:"edited_args"`
	}
	if err := strictjson.Unmarshal(payload, &body); err != nil {
		return saidPermission{}, fault.New(InvalidAnswer, `expected {"optionId":…} or {"approved":true|false}`)
	}
	said := saidPermission{approved: body.Approved}
	if said.edited = body.Edited; len(said.edited) == 0 {
		said.edited = body.Edited2
	}
	if string(said.edited) == "null" { // a member that is not set; kept, it would count as an edit
		said.edited = nil
	}
	var outcome struct {
		Outcome  string `json:"outcome"`
		OptionID string `json:"optionId"`
	}
	if len(body.Outcome) > 0 {
		if strictjson.Unmarshal(body.Outcome, &outcome) != nil {
			return said, fault.New(InvalidAnswer, "outcome is not an ACP outcome")
		}
		said.cancelled = outcome.Outcome == "cancelled"
	}
	for _, id := range []string{body.OptionID, body.OptionID2, body.Choice, outcome.OptionID} {
		if id != "" {
			said.options = append(said.options, id)
		}
	}
	if len(said.options) == 0 && said.approved == nil && !said.cancelled {
		return said, fault.New(InvalidAnswer, `expected {"optionId":…} or {"approved":true|false}`)
	}
	return said, nil
}

// refuses reports whether a plain refusal was meant for a Question that offers no way to reject: that is its
// cancelling, because it must be possible to say no to anything.
func (s saidPermission) refuses(q Question) bool {
	options := q.Options()
	if _, offered := first(options, RejectOnce, RejectAlways); offered || s.approved != nil && *s.approved {
		return false
	}
	for _, id := range s.options {
		if _, named := find(q.Call.ID, options, id); named || !plainRefusal(id) {
			return false
		}
	}
	return s.approved != nil || len(s.options) > 0
}

// plainRefusal are the words that mean no where no such option was offered.
func plainRefusal(word string) bool {
	switch strings.ToLower(word) {
	case "reject", "deny", "no", RejectOnce, RejectAlways:
		return true
	}
	return false
}

// choose finds the one offered option that was meant.
func (s saidPermission) choose(q Question) (Option, error) {
	options := q.Options()
	if len(s.options) == 0 {
		kinds := []string{RejectOnce, RejectAlways}
		if *s.approved {
			kinds = []string{AllowOnce, AllowAlways}
		}
		if o, ok := first(options, kinds...); ok {
			return o, nil
		}
		return Option{}, fault.New(UnknownOption, "no option of that kind was offered")
	}
	var o Option
	for i, id := range s.options {
		named, ok := find(q.Call.ID, options, id)
		if !ok {
			return Option{}, fault.New(UnknownOption, fmt.Sprintf("%q is not an option of this question", id))
		}
		if i > 0 && named.ID != o.ID {
			return Option{}, fault.New(InvalidAnswer, "the answer names two options")
		}
		o = named
	}
	if s.approved != nil && *s.approved != o.Allows() {
		return Option{}, fault.New(InvalidAnswer, "approved contradicts the option")
	}
	return o, nil
}

// find takes an option's own id or the form <questionId>:<n> that TDesign pages get,
// which cannot be mistaken for another Question's.
// TDesign pages may answer an older card of the same chat, and agents number their options alike; the longer form is
// refused by any other Question.
func find(questionID string, options []Option, id string) (Option, bool) {
	for _, o := range options {
		if o.ID == id {
			return o, true
		}
	}
	if rest, ok := strings.CutPrefix(id, questionID); ok && namesOption(rest) {
		_, rest, _ = strings.Cut(rest, ":")
		if n, err := strconv.Atoi(rest); err == nil && n >= 0 && n < len(options) {
			return options[n], true
		}
	}
	return Option{}, false
}

// OptionNames reports whether the answer's option has the form <questionId>:<n>.
func OptionNames(a Answer, questionID string) bool {
	said, err := parsePermission(a.Payload)
	if err != nil || len(said.options) == 0 {
		return false
	}
	rest, ok := strings.CutPrefix(said.options[0], questionID)
	return ok && namesOption(rest)
}

// namesOption reports whether what stands behind a Question's id makes it the name of an option, by the card's id or its own.
func namesOption(rest string) bool {
	return strings.HasPrefix(strings.TrimPrefix(rest, cardSuffix), ":")
}

// first is the first offered option of the first of the kinds that has one: the order of kinds is a preference.
func first(options []Option, kinds ...string) (Option, bool) {
	for _, kind := range kinds {
		for _, o := range options {
			if o.Kind == kind {
				return o, true
			}
		}
	}
	return Option{}, false
}

// Choosing is the agent's answer when the first option of the first kind that was
// offered is chosen; false when none of the kinds was.
func Choosing(options []Option, kinds ...string) (json.RawMessage, bool) {
	o, ok := first(options, kinds...)
	return permissionPayload(o), ok
}

// permissionPayload is what the Agent gets for a chosen option. The kept decision has it too, and optionIn reads it
// back.
func permissionPayload(o Option) json.RawMessage {
	return mustJSON(struct {
		OptionID string `json:"optionId"`
		Approved bool   `json:"approved"`
		Kind     string `json:"kind"`
	}{o.ID, o.Allows(), o.Kind})
}

func permissionResult(status string, o Option) json.RawMessage {
	return mustJSON(struct {
		Status   string `json:"status"`
		OptionID string `json:"optionId"`
		Kind     string `json:"kind"`
	}{status, o.ID, o.Kind})
}

// optionIn is the option that a permissionPayload names, by id and kind. The answer to an input may hold anything under
// these names, so what is no text is left out.
func optionIn(payload json.RawMessage) Option {
	var chosen struct {
		OptionID string `json:"optionId"`
		Kind     string `json:"kind"`
	}
	_ = json.Unmarshal(payload, &chosen)
	return Option{ID: chosen.OptionID, Kind: chosen.Kind}
}

// unwrapText opens a JSON string that itself holds JSON: tool messages and TDesign send
// their results so.
// A text that only looks like JSON stays a text.
func unwrapText(payload json.RawMessage) json.RawMessage {
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
