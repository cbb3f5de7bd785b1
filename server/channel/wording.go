// This file puts Turns, questions and decisions into the words of the channel. The contract's clients
// match these words exactly, so they do not follow renames in the store.

package channel

import (
	"cmp"

	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// waiting is the state of a Turn that waits, with what it waits for.
// Approvals win over tools: a person has to act, while a client runs its tool by itself.
func waiting(questions []approval.Question) Message {
	d, state := &detail{}, stateWaitingTool
	for _, q := range questions {
		if q.ClientTool() {
			d.ToolCallIDs = append(d.ToolCallIDs, q.Call.ID)
		} else {
			d.ApprovalIDs = append(d.ApprovalIDs, q.Call.ID)
		}
	}
	if len(d.ToolCallIDs) > 0 {
		d.ToolCallID = d.ToolCallIDs[0]
	}
	if len(d.ApprovalIDs) > 0 {
		d.ApprovalID, d.ToolCallID, state = d.ApprovalIDs[0], "", stateWaitingApproval
	}
	return Message{Type: typeState, State: state, Detail: d}
}

// question is a Question in the words of the channel. What a person decides is shown without the
// arguments: they are in args_summary, made safe to show, and args_sha256 lets a client compare what
// it shows with what is executed.
func question(q approval.Question) Message {
	m := Message{
		Type: typeToolRequest, ToolCallID: q.Call.ID, ToolName: q.Call.Name, Args: q.Call.Args,
		DeadlineTS: millis(q.Call.ExpiresAt),
	}
	if q.ClientTool() {
		return m
	}
	a := q.Approval
	m.Type, m.ApprovalID, m.Args = typeApprovalRequired, q.Call.ID, nil
	m.ToolName = cmp.Or(a.Tool, q.Call.Name)
	m.Kind, m.Risk, m.Options, m.ResponseSchema = string(a.Kind), a.Risk, a.Options, a.ResponseSchema
	m.ArgsSummary, m.Shown, m.ArgsSHA256 = Summary(a.Title, a.Args), approval.ShownOf(a), a.ArgsSHA256
	return m
}

// WireState is a Turn's state in the words of this wire. The states of a Turn that waits have other names here than
// in the store; all others are the same.
func WireState(s store.TurnStatus) string {
	switch s {
	case store.TurnPausedApproval:
		return stateWaitingApproval
	case store.TurnPausedTool:
		return stateWaitingTool
	case store.TurnQueued, store.TurnRunning, store.TurnDone, store.TurnFailed, store.TurnCancelled:
	}
	return string(s)
}

// settledOf is how a question was settled.
// Who decided is given for approvals alone; a tool's result comes from the client itself.
func settledOf(q approval.Question) settledQuestion {
	s := settledQuestion{ID: q.Call.ID, Status: string(q.Call.Status)}
	if !q.ClientTool() {
		a := q.Approval
		s.Status, s.OptionID = string(a.Status), approval.ChosenOption(q)
		s.DecidedBy, s.DecidedVia, s.Reason = a.DecidedBy, a.DecidedVia, a.Reason
	}
	return s
}
