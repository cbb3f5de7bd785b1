// This file knows the runs of a log: one after the other, all of one thread, and what may come
// between them.

package agui

import "strconv"

// phase is how far the current run has come.
type phase uint8

const (
	fresh phase = iota
	running
	finished
	failed
)

// lifecycle is which run of a log is going on, and how the last one ended. After RUN_ERROR a client
// accepts only a new run; after RUN_FINISHED it accepts a RUN_ERROR as well, which Admit refuses to
// write: a run of a log has one end.
type lifecycle struct {
	phase           phase
	threadID, runID string
}

// allows is what may come at all, runs being what they are.
func (l *lifecycle) allows(ev Event) error {
	t := ev.EventType()
	switch {
	case l.phase == fresh && t != TypeRunStarted && t != TypeRunError:
		return broken(RuleFirstEvent, ev, "")
	case l.phase == running && t == TypeRunStarted:
		return broken(RuleRunOpen, ev, l.runID)
	case l.phase == finished && t != TypeRunStarted && t != TypeRunError:
		return broken(RuleRunFinished, ev, l.runID)
	case l.phase == failed && t != TypeRunStarted:
		return broken(RuleRunFailed, ev, l.runID)
	}
	return nil
}

// start begins a run. All runs of a log are of one thread.
func (l *lifecycle) start(e *RunStarted) error {
	if l.threadID != "" && e.ThreadID != l.threadID {
		return broken(RuleThreadID, e, e.ThreadID)
	}
	l.threadID, l.runID, l.phase = e.ThreadID, e.RunID, running
	return nil
}

// checkFinish verifies that a RUN_FINISHED is of the run that goes on, and that its outcome is one.
func (l *lifecycle) checkFinish(e *RunFinished) error {
	if e.RunID != l.runID || e.ThreadID != l.threadID {
		return broken(RuleRunID, e, e.RunID)
	}
	return checkOutcome(e)
}

// checkOutcome refuses what an official client refuses: an interrupt without interrupts or with two
// of one id, a result of a cancelled run, and outcomes that 1.0 does not define.
func checkOutcome(e *RunFinished) error {
	if e.Outcome == nil {
		return nil
	}
	switch o := e.Outcome; {
	case o.Type == OutcomeSuccess:
	case o.Type == OutcomeCancelled && len(e.Result) == 0:
	case o.Type == OutcomeInterrupt && len(o.Interrupts) > 0:
		seen := make(map[string]bool, len(o.Interrupts))
		for _, in := range o.Interrupts {
			if seen[in.ID] {
				return broken(RuleInterruptID, e, in.ID)
			}
			seen[in.ID] = true
		}
	default:
		return broken(RuleOutcome, e, o.Type)
	}
	return nil
}

// withIDs is the event with the ids an adapter forgot.
func (l *lifecycle) withIDs(e *RunFinished) *RunFinished {
	if e.RunID != "" && e.ThreadID != "" {
		return e
	}
	full := *e
	if full.RunID == "" {
		full.RunID = l.runID
	}
	if full.ThreadID == "" {
		full.ThreadID = l.threadID
	}
	return &full
}

// thinkingIDs are the ids given to reasoning that came without: the retired THINKING_* events have none.
// Span and thought have ids of their own. An event without an id means the last one that was given.
type thinkingIDs struct {
	given         int // in this run
	thought, span string
}

// name returns the event with an id. Ids contain the run's, so that thoughts of two runs do not become one message.
func (t *thinkingIDs) name(ev Event, runID string) Event {
	switch e := ev.(type) {
	case *ReasoningStart:
		if e.MessageID == "" {
			t.span = t.next(runID)
			return &ReasoningStart{Sub: e.Sub, MessageID: t.span}
		}
	case *ReasoningEnd:
		if e.MessageID == "" {
			return &ReasoningEnd{Sub: e.Sub, MessageID: t.span}
		}
	case *ReasoningMessageStart:
		if e.MessageID == "" {
			t.thought = t.next(runID)
			return &ReasoningMessageStart{Sub: e.Sub, MessageID: t.thought}
		}
	case *ReasoningMessageContent:
		if e.MessageID == "" {
			return &ReasoningMessageContent{Sub: e.Sub, MessageID: t.thought, Delta: e.Delta}
		}
	case *ReasoningMessageEnd:
		if e.MessageID == "" {
			return &ReasoningMessageEnd{Sub: e.Sub, MessageID: t.thought}
		}
	}
	return ev
}

// next is a new id; runs have different ids, so no two thoughts of a thread share one.
func (t *thinkingIDs) next(runID string) string {
	t.given++
	return runID + ":thinking:" + strconv.Itoa(t.given)
}
