// This file names the rules that a stream can break. The names are part of errors and logs and stay
// as they are.

package agui

import "strconv"

// Rule names what a [GrammarError] found broken.
type Rule string

// The rules a stream obeys: those AG-UI 1.0's client enforces ("Event ordering"), and the ones
// announced for the next version.
const (
	RuleFirstEvent   Rule = "first_event"     // a run begins with RUN_STARTED
	RuleRunOpen      Rule = "run_open"        // RUN_STARTED inside a run
	RuleRunFinished  Rule = "run_finished"    // an event after RUN_FINISHED
	RuleRunFailed    Rule = "run_failed"      // an event after RUN_ERROR
	RuleRunID        Rule = "run_id"          // RUN_FINISHED of another run or thread
	RuleThreadID     Rule = "thread_id"       // a later run of another thread
	RuleStillOpen    Rule = "still_open"      // RUN_FINISHED with something open
	RuleOutcome      Rule = "outcome"         // an outcome that the protocol does not allow
	RuleInterruptID  Rule = "interrupt_id"    // two interrupts of one id
	RuleAlreadyOpen  Rule = "already_open"    // a start of what is open
	RuleNotOpen      Rule = "not_open"        // content or end of what is not
	RuleStepOwner    Rule = "step_owner"      // a step finished by another agent
	RuleOwner        Rule = "owner"           // tagged unlike its opener or parent
	RuleSubagentUsed Rule = "subagent_used"   // a subagent's id used again
	RuleSubagentGone Rule = "subagent_gone"   // the end of a subagent not active
	RuleParent       Rule = "subagent_orphan" // a parent that was never started
	RuleChunkUnnamed Rule = "chunk_unnamed"   // a first chunk without its ids
	RuleChunkChanged Rule = "chunk_changed"   // a chunk that contradicts its opener
	RuleChunkEnded   Rule = "chunk_ended"     // an explicit event for a chunk's item
	RuleChunkWhose   Rule = "chunk_whose"     // a chunk that fits several lanes
	RuleTooMany      Rule = "too_many_open"   // more open at once than we follow
)

// GrammarError reports which rule an event breaks.
type GrammarError struct {
	Rule Rule
	Type Type
	ID   string // the message, call, step, subagent or run it is about
}

// Error implements error.
func (e *GrammarError) Error() string {
	return "agui: " + string(e.Type) + " " + strconv.Quote(e.ID) + " breaks rule " + string(e.Rule)
}

func broken(rule Rule, ev Event, id string) error {
	return &GrammarError{Rule: rule, Type: ev.EventType(), ID: id}
}
