package approval

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode"

	"aqueduct/policy"
	"aqueduct/store"
)

// PermissionTool is the tool name every permission is shown under. It is reserved.
const PermissionTool = "request_permission"

// BudgetTool is the name under which people are asked to add to a budget. It is reserved, and no standing answer is given to it:
// one would lift a limit for ever.
const BudgetTool = "budget.extend"

// ApprovedPrefix begins the UpstreamID of a client's tool call that follows an approved one: in the chat the permission
// stands under the first's id, and what the client is to run needs one of its own.
const ApprovedPrefix = "approved:"

// SteerPrefix begins the UpstreamID of a Question about a change of the agent's mode or configuration that a person asked
// for. The request that asks acts on the answer, and it is delivered to no Agent.
const SteerPrefix = "steer:"

// Option is one way to answer a permission, as the agent offered it.
type Option struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	Kind  string `json:"kind"`
	// Always is which calls the Grant of an allow_always covers.
	Always policy.Always `json:"always,omitempty"`
}

// The kinds of Options. The kind decides what an option does, never its label.
const (
	AllowOnce    = "allow_once"
	AllowAlways  = "allow_always"
	RejectOnce   = "reject_once"
	RejectAlways = "reject_always"
	// Unspecified is of an option whose kind the agent did not give and that its name does not show. Only a person who
	// may approve can choose it, by its name.
	Unspecified = "unspecified"
)

// Allows reports whether choosing the option lets the agent go on.
func (o Option) Allows() bool {
	return o.Kind == AllowOnce || o.Kind == AllowAlways || o.Kind == Unspecified
}

// KnownKind reports whether kind is one of the four.
func KnownKind(kind string) bool {
	switch kind {
	case AllowOnce, AllowAlways, RejectOnce, RejectAlways:
		return true
	}
	return false
}

// KindOf is the kind of an option: the one it was offered with, else the one that its id or name has.
//
// Some agents give their options no kind. Taking one of them for an approval by mistake would let something run, so a
// word of both sides makes it Unspecified, which only a person can choose.
func KindOf(kind, id, label string) string {
	if KnownKind(kind) {
		return kind
	}
	words := make(map[string]bool)
	for _, text := range []string{id, label} {
		for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' }) {
			words[word] = true
		}
	}
	has := func(list ...string) bool {
		return slices.ContainsFunc(list, func(w string) bool { return words[w] })
	}
	always := has("always", "never", "forever", "session")
	no := has("reject", "deny", "no", "decline", "refuse", "cancel", "disallow", "never")
	yes := has("allow", "yes", "approve", "accept", "ok", "permit", "grant", "proceed", "continue")
	switch {
	case yes && (no || has("don't", "not")): // "don't allow", or "yes, and don't ask again"
		return Unspecified
	case no && always:
		return RejectAlways
	case no:
		return RejectOnce
	case always:
		return AllowAlways
	case yes:
		return AllowOnce
	}
	return Unspecified
}

// DefaultOptions are offered when an agent asks for a permission and offers none.
func DefaultOptions() []Option {
	return []Option{{ID: AllowOnce, Label: "Allow once", Kind: AllowOnce}, {ID: RejectOnce, Label: "Reject", Kind: RejectOnce}}
}

// StandingOptions are offered for calls that we see to: we can keep a standing answer.
func StandingOptions() []Option {
	return []Option{
		{ID: AllowOnce, Label: "Allow once", Kind: AllowOnce}, {ID: AllowAlways, Label: "Always allow this", Kind: AllowAlways},
		{ID: RejectOnce, Label: "Reject", Kind: RejectOnce},
	}
}

// Question is one as kept: its ToolCall, and its Approval unless it is a client tool.
//
// Four things are Questions: an Agent's permission (ToolCall of kind question, with an Approval), an Agent's request
// for input (the same, Approval of kind input), a call of a client's tool (no Approval), and a call that Aqueduct
// executes and a person must approve (ToolCall of kind server_tool or client_tool, with an Approval and a hash of its
// arguments).
type Question struct {
	Call     store.ToolCall
	Approval store.Approval
}

// Open reports whether the Question still waits.
func (q Question) Open() bool {
	return q.Call.Status == store.ToolWaitingApproval || q.Call.Status == store.ToolWaitingClient
}

// ClientTool reports whether a frontend, not a person, is asked.
func (q Question) ClientTool() bool { return q.Call.Kind == store.KindClient && q.Approval.ID == "" }

// ShownName is the tool name the Question is shown under: every permission under one.
func (q Question) ShownName() string {
	if q.Approval.Kind == store.ApprovalPermission {
		return PermissionTool
	}
	return q.Call.Name
}

// IsToolCall reports whether the Question is about a ToolCall that Aqueduct executes: its Agent learns of
// the call's end, and not of the answer.
func (q Question) IsToolCall() bool { return q.Call.ArgsSHA256 != "" }

// SurvivesTurn reports whether the Question is of use when its Turn is over: what became of a
// ToolCall whose runner died has to be known to all that wait for it.
// Such a Question asks what became of a call: done, failed, or try again. The answer matters to the tool's system as
// well.
// A relayed Question does not: its child ends with the Turn.
func (q Question) SurvivesTurn() bool {
	_, relayed := q.Relayed()
	return q.IsToolCall() && q.Call.Kind == store.KindQuestion && !relayed
}

// NeverAsked reports whether it is no Question but the call of a server tool that runs, or is refused, without a person
// being asked.
func (q Question) NeverAsked() bool { return q.Call.Kind == store.KindServer && q.Approval.ID == "" }

// RunsHere reports whether we run the call, so that what the transcript shows of it is the tool's own result.
func (q Question) RunsHere() bool {
	return q.Call.Kind == store.KindServer && (q.Approval.ID == "" || q.Approval.Status == store.ApprovalApproved)
}

// Concluded reports whether there is a result for the transcript: the Question is settled, and what was to be run for it
// has ended.
func (q Question) Concluded() bool { return !q.Open() && (!q.RunsHere() || q.Call.Status.Terminal()) }

// Options are those this Question offered.
func (q Question) Options() []Option {
	var options []Option
	if json.Unmarshal(q.Approval.Options, &options) != nil {
		return nil
	}
	return options
}

// Load reads a Question. store.ErrNotFound when there is none in the Scope.
func Load(ctx context.Context, r store.Reader, in store.Scope, id string) (Question, error) {
	call, err := r.ToolCall(ctx, in, id)
	if err != nil {
		return Question{}, err
	}
	return Of(ctx, r, in, call)
}

// Of is the Question that a ToolCall is, or would be: one that no person was asked about has no
// Approval.
func Of(ctx context.Context, r store.Reader, in store.Scope, call store.ToolCall) (q Question, err error) {
	q.Call = call
	if call.Kind != store.KindQuestion && !q.IsToolCall() {
		return q, nil
	}
	q.Approval, err = r.Approval(ctx, in, call.ID)
	if errors.Is(err, store.ErrNotFound) && call.Kind != store.KindQuestion {
		err = nil
	}
	return q, err
}

// OnInterrupt reports whether an AG-UI agent asked by CUSTOM on_interrupt. Its clients answer by forwardedProps.command.resume.
func (q Question) OnInterrupt() bool { return len(q.Call.Event) > 0 }

// cardSuffix makes the id of a card of the id of its Question.
const cardSuffix = ".ask"

// CardID is the id under which a Question is a tool call in the chat. That is the Question's own, unless the Agent has shown the
// call that the Question is about under it.
func (q Question) CardID() string {
	if q.Call.Carded {
		return q.Call.ID + cardSuffix
	}
	return q.Call.ID
}

// QuestionOf is the id of the Question that a tool call of the chat may be the card of (Question.CardID).
func QuestionOf(toolCallID string) string { return strings.TrimSuffix(toolCallID, cardSuffix) }
