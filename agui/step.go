package agui

// StepStarted begins a named step of the run.
type StepStarted struct {
	Sub
	StepName string
}

// StepFinished ends a named step of the run.
type StepFinished struct {
	Sub
	StepName string
}

// EventType is STEP_STARTED.
func (*StepStarted) EventType() Type { return TypeStepStarted }

// EventType is STEP_FINISHED.
func (*StepFinished) EventType() Type { return TypeStepFinished }

// AppendJSON implements [Event].
func (e *StepStarted) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "stepName", e.StepName)
	return e.appendTail(dst)
}

// AppendJSON implements [Event].
func (e *StepFinished) AppendJSON(dst []byte) []byte {
	dst = appendMember(open(dst, e.EventType()), "stepName", e.StepName)
	return e.appendTail(dst)
}

func (e *StepStarted) member(key, raw []byte) error {
	if string(key) == "stepName" {
		return decodeString(&e.StepName, raw)
	}
	return e.Sub.member(key, raw)
}

func (e *StepFinished) member(key, raw []byte) error {
	if string(key) == "stepName" {
		return decodeString(&e.StepName, raw)
	}
	return e.Sub.member(key, raw)
}
