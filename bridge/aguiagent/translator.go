// This file turns the events of the agent into Outputs. An event goes this way: decoded, what 1.0 does not know is
// set apart (apart.go), what is between two calls of the agent's model is left out (goesOn), the grammar makes it
// legal, and it is shown under our ids (names.go). The end of the run and a MESSAGES_SNAPSHOT have files of their
// own.

package aguiagent

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/internal/fault"
)

// Translator turns the events of one run of the agent into Outputs. The agent's stream passes a grammar of its own
// first: chunks become start, content and end there, and what is open is closed, so that the rest need not know about
// either. One goroutine uses it, and it is for one run: the next call of the agent has a new one.
type Translator struct {
	names    names
	runID    string            // our id of the agent's run, under which the grammar has it
	grammar  agui.Grammar      // of the agent's stream
	fold     *agui.Fold        // the conversation under the agent's ids: what it was sent, and what it has added
	shown    *agui.Fold        // what this run has added, under ours
	given    map[string]string // texts of the history, by the agent's ids
	tools    map[string]bool   // of the client, by name: a call of one is for the page
	voices   map[string]bool   // messages that the agent sends as another's
	typed    map[string]bool   // what has an encrypted value of a named kind, by our ids
	pending  calls             // those without a result, by which it is known what the run waits for
	repeated map[string]bool   // calls of an earlier run that this one shows again
	paused   *agui.RunFinished // a RUN_FINISHED that may not have been the end (goesOn)
	usage    []agui.TokenUsage // of such
	asks     interrupts        // what it may ask
	ended    bool

	admitted []agui.Event // those of one call of Translate; kept for its memory
}

// newTranslator makes a Translator for a run that is given the history, under the agent's ids, and the tools of the client.
func newTranslator(n names, runID string, history []agui.Message, tools []agui.Tool) *Translator {
	t := &Translator{
		names: n, runID: runID, fold: agui.NewFold(history), shown: agui.NewFold(nil), given: make(map[string]string, len(history)),
		tools: make(map[string]bool, len(tools)), repeated: make(map[string]bool), voices: make(map[string]bool), typed: make(map[string]bool),
	}
	t.asks = interrupts{names: &t.names, fold: t.fold, pending: &t.pending, tools: t.tools}
	for _, tool := range tools {
		t.tools[tool.Name] = true
	}
	for i := range history {
		t.given[history[i].ID] = history[i].Content.String()
	}
	t.pending.unanswered(history)
	// Some agents show the result of a tool that was approved before their RUN_STARTED, so the run begins with the call.
	_, _ = t.grammar.Admit(nil, &agui.RunStarted{ThreadID: runID, RunID: runID}) // the first event of a log is always legal
	return t
}

// Ended reports whether the run has had its last event: what the agent sends after it means nothing here.
func (t *Translator) Ended() bool { return t.ended }

// doneText is how streams of OpenAI's API end. Some adapters send it behind the last event.
var doneText = []byte("[DONE]")

// Translate appends what the data of one SSE event means. An error is of the stream, and the Translator must not be used
// after it.
//
// An event of a type that is not known, which a later version of AG-UI may have, becomes RAW: every client takes that, and
// clients before 1.0 end at a type that they do not know.
func (t *Translator) Translate(dst []bridge.Output, data []byte) ([]bridge.Output, error) {
	if bytes.Equal(data, doneText) {
		return t.End(dst), nil
	}
	data = bytes.Clone(data) // what is decoded refers to it
	ev, err := agui.Decode(data)
	if unknown, ok := errors.AsType[*agui.UnknownTypeError](err); ok {
		ev, err = &agui.Raw{Event: data, Source: "agui:" + unknown.Type}, nil
	}
	if err != nil {
		return dst, err
	}
	dst = setApart(dst, ev)
	if t.goesOn(ev) {
		return dst, nil
	}
	if t.admitted, err = t.grammar.Admit(t.admitted[:0], ev); err != nil {
		return dst, err
	}
	for _, ev := range t.admitted {
		dst = t.admit(dst, ev)
	}
	return dst, nil
}

// goesOn reports whether an event is between two calls of the agent's model, and means nothing here. Some agents send
// RUN_FINISHED for each call of the model, also when they are about to run the tools that it called and to go on, with or
// without another RUN_STARTED. So a RUN_FINISHED behind calls of the agent's own tools that have no result is the end only
// where the stream ends. The ids are those of the agent's own runs, which may differ from each other: they are not compared.
func (t *Translator) goesOn(ev agui.Event) bool {
	switch e := ev.(type) {
	case *agui.RunStarted:
		return true // the engine has begun its own
	case *agui.RunFinished:
		e.ThreadID, e.RunID = t.runID, t.runID
		plain := e.Outcome == nil || e.Outcome.Type == agui.OutcomeSuccess && len(e.Outcome.PendingToolCallIDs) == 0
		if plain && slices.ContainsFunc(t.pending.open, t.asks.isOwn) {
			t.paused, t.usage = e, t.counted(e.Usage)
			return true
		}
	}
	return false
}

// counted are the counts of this run with more of them, as far as they are kept.
func (t *Translator) counted(more []agui.TokenUsage) []agui.TokenUsage {
	return append(t.usage, more[:min(len(more), bridge.MostUsage-len(t.usage))]...)
}

// End appends what the end of the stream means: the end of the run, where a RUN_FINISHED left that open; nothing else.
func (t *Translator) End(dst []bridge.Output) []bridge.Output {
	if t.paused == nil || t.ended {
		return dst
	}
	t.paused.Usage = nil
	admitted, err := t.grammar.Admit(nil, t.paused)
	if err != nil {
		return dst
	}
	for _, ev := range admitted {
		dst = t.admit(dst, ev)
	}
	return dst
}

// admit takes one legal event that is no chunk.
func (t *Translator) admit(dst []bridge.Output, ev agui.Event) []bridge.Output {
	switch e := ev.(type) {
	case *agui.RunFinished:
		return t.finished(dst, e)
	case *agui.RunError:
		return t.failed(dst, e)
	case *agui.MessagesSnapshot:
		return t.snapshot(dst, e)
	}
	if t.repeats(ev) {
		return dst
	}
	if t.otherVoice(ev) {
		return append(dst, raw(ev.EventType(), ev.AppendJSON(nil)))
	}
	return t.show(dst, ev)
}

// show takes one event that clients are shown.
func (t *Translator) show(dst []bridge.Output, ev agui.Event) []bridge.Output {
	if e, ok := ev.(*agui.ToolCallResult); ok && !t.pending.mine[e.ToolCallID] && !t.pending.isGiven(e.ToolCallID) {
		t.names.newCall(e.ToolCallID) // of a call that was not shown; one of that id in the history has its result
	}
	t.asks.note(ev)
	t.pending.note(ev)
	t.fold.Apply(ev)
	named := t.names.event(ev)
	if e, ok := named.(*agui.ReasoningEncryptedValue); ok {
		t.keepType(e)
	}
	t.shown.Apply(named)
	return append(dst, bridge.Output{Event: named})
}

// repeats reports whether an event shows a call again that the run was given with the history and that has no result: some
// agents begin with it when they go on after an approval. Any other call under a known id is a new one.
func (t *Translator) repeats(ev agui.Event) bool {
	switch e := ev.(type) {
	case *agui.ToolCallStart:
		call, known := t.fold.Call(e.ToolCallID)
		again := known && t.pending.isGiven(e.ToolCallID) && ownTool(call.Function.Name) == e.ToolCallName
		t.repeated[e.ToolCallID] = again
		return again
	case *agui.ToolCallArgs:
		return t.repeated[e.ToolCallID]
	case *agui.ToolCallEnd:
		return t.repeated[e.ToolCallID]
	}
	return false
}

// failed is RUN_ERROR. The agent's code and message reach the user, so both have defaults.
func (t *Translator) failed(dst []bridge.Output, e *agui.RunError) []bridge.Output {
	t.ended = true
	code, message := e.Code, e.Message
	if code == "" {
		code = CodeError
	}
	if message == "" {
		message = "The agent reported an error."
	}
	return append(dst, bridge.Output{End: &bridge.End{Usage: t.counted(e.Usage), Failure: fault.New(code, message)}})
}

// keepType keeps the kind of an encrypted value with it. A new value without a kind has none, whatever the one before had.
func (t *Translator) keepType(e *agui.ReasoningEncryptedValue) {
	of := e.Subtype + ":" + e.EntityID
	switch {
	case e.EncryptedValueType != "":
		kind, _ := json.Marshal(e.EncryptedValueType) // a string always encodes
		e.Metadata = withMember(e.Metadata, kindKey, kind)
	case t.typed[of]:
		e.Metadata = withMember(e.Metadata, kindKey, json.RawMessage("null"))
	}
	t.typed[of] = e.EncryptedValueType != ""
}

// otherVoice reports whether an event is of a message that the agent sends as the user's or the operator's. These two write
// to the thread themselves; what an agent sends for them is no message.
func (t *Translator) otherVoice(ev agui.Event) bool {
	switch e := ev.(type) {
	case *agui.TextMessageStart:
		t.voices[e.MessageID] = e.Role != "" && e.Role != agui.RoleAssistant
		return t.voices[e.MessageID]
	case *agui.TextMessageContent:
		return t.voices[e.MessageID]
	case *agui.TextMessageEnd:
		return t.voices[e.MessageID]
	}
	return false
}
