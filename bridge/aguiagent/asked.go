package aguiagent

import "strings"

// asked is what a run of the agent waits for, as the id under which the engine keeps the Question (Request.UpstreamID):
// with the run, since an agent may use an id again in the next one, and since a call that answers names the run that asked.
// The engine hands it back with the answer, also after a restart, so nothing else has to be kept of the agent.
type asked struct {
	runID string
	kind  askedKind
	id    string // of the interrupt, or of the tool call
}

type askedKind string

const (
	askedByInterrupt askedKind = "interrupt" // is answered by an entry of resume
	askedByCall      askedKind = "call"      // of a client's tool: is answered by a tool message
	// askedByCustom marks a question asked by CUSTOM on_interrupt. It is answered by an entry of resume and by
	// forwardedProps.command.resume.
	askedByCustom askedKind = "custom"
)

// String is runID/kind/id.
func (a asked) String() string { return a.runID + "/" + string(a.kind) + "/" + a.id }

// parseAsked reads what String wrote. A run's id is ours and has no slash.
func parseAsked(text string) asked {
	runID, rest, _ := strings.Cut(text, "/")
	kind, id, _ := strings.Cut(rest, "/")
	return asked{runID, askedKind(kind), id}
}
