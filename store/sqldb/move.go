// This file has the SQL of each kind of Move, and the check of a Move against its state machine (store/machine.go).

package sqldb

import (
	"fmt"
	"slices"

	"aqueduct/store"
)

// Statement is one change of a Batch, ready to run.
type Statement struct {
	SQL  string
	Args []any
	CAS  bool // a compare-and-set: no row touched means it was lost
}

// moveStatement is the SQL of a Move. A move that its machine forbids is an error of the
// program and is reported as ErrData: repeating it cannot help, and only its Session may suffer.
func moveStatement(m store.Move) (Statement, error) {
	switch m := m.(type) {
	case store.TurnMove:
		return turnMoves.statement(&m)
	case store.RunMove:
		return runMoves.statement(&m)
	case store.RunStateChanges:
		return runStateChanges(m), nil
	case store.ToolCallMove:
		return toolCallMoves.statement(&m)
	case store.ToolCallShown:
		return toolCallShown(m), nil
	case store.ToolCallInTranscript:
		return toolCallInTranscript(m), nil
	case store.ToolCallDelivered:
		return toolCallDelivered(m), nil
	case store.ApprovalMove:
		return approvalMove(m)
	case store.InsertRun:
		return insertRun(m.Run), nil
	case store.InsertToolCall:
		return toolCallInserts.statement(&m), nil
	case store.TakeToolCall:
		return toolCallTakes.statement(&m), nil
	case store.RecordOf:
		return recordsOf.statement(&m), nil
	case store.InsertApproval:
		return insertApproval(m.Approval), nil
	case store.InsertOutbox:
		return insertOutbox(m.Item), nil
	case store.InsertCommand:
		return insertCommand(m.Command), nil
	case store.UpsertMessage:
		return upsertMessage(m.Message), nil
	case store.InsertPart:
		return insertPart(m.Part), nil
	case store.InsertContext:
		return insertContext(m.Entry), nil
	case store.KeepSealed:
		return keepSealed(m.Sealed), nil
	case store.MoveMessage:
		return moveMessage(m), nil
	case store.ReplaceMessages:
		return replaceMessages(m), nil
	case store.SessionMove:
		return sessionMoves.statement(&m)
	case store.CommandDone:
		return commandDone(m), nil
	}
	return Statement{}, fmt.Errorf("%w: no SQL for a move of type %T", store.ErrData, m)
}

// status is a state of one of the machines.
type status[S any] interface {
	~string
	CanBecome(S) bool
}

// legal checks a move against its machine. No To leaves the status as it is; no From
// is "whatever it is" and is only for that.
func legal[S status[S]](move string, from []S, to S) error {
	if to == "" {
		return nil
	}
	if len(from) == 0 {
		return illegal(move, S(""), to)
	}
	for _, f := range from {
		if !f.CanBecome(to) {
			return illegal(move, f, to)
		}
	}
	return nil
}

// illegal is the error of a move that no machine has.
func illegal[S ~string](move string, from, to S) error {
	return fmt.Errorf("%w: %s from %q to %q is not in the machine", store.ErrData, move, from, to)
}

// only is a set of one status, or empty for the zero one.
func only[S ~string](s S) []S {
	if s == "" {
		return nil
	}
	return []S{s}
}

// padded fills the placeholders of a status IN (...), one for every state of the
// machine, so that each kind of move is one prepared statement. No states mean all.
func padded[S ~string](from, all []S) []any {
	args := make([]any, len(all))
	for i := range all {
		switch {
		case len(from) == 0:
			args[i] = string(all[i])
		default:
			args[i] = string(from[min(i, len(from)-1)])
		}
	}
	return args
}

// LockedFirst lists, sorted, the Sessions a Batch must hold before its other rows.
// A request locks the Session first and its rows afterwards; a Batch that moved a
// ToolCall first and the Session at the end could wait for it in a circle.
func LockedFirst(moves []store.Move) []string {
	var ids []string
	for _, m := range moves {
		if s, ok := m.(store.SessionMove); ok {
			ids = append(ids, s.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
