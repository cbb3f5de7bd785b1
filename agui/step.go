// This file has the events of steps: named phases of a run that a page may show.

package agui

// StepStarted begins a named step of the run.
type StepStarted struct {
	Sub
	StepName string `agui:"stepName,required"`
}

// StepFinished ends a named step of the run.
type StepFinished struct {
	Sub
	StepName string `agui:"stepName,required"`
}

// EventType is STEP_STARTED.
func (*StepStarted) EventType() Type { return TypeStepStarted }

// AppendJSON implements [Event].
func (e *StepStarted) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }

// EventType is STEP_FINISHED.
func (*StepFinished) EventType() Type { return TypeStepFinished }

// AppendJSON implements [Event].
func (e *StepFinished) AppendJSON(dst []byte) []byte { return appendEvent(dst, e) }
