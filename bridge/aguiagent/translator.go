// This file turns the events of the agent into Outputs. An event goes this way: decoded, what 1.0 does not know is
// set apart (apart.go), what is between two calls of the agent's model is left out (goesOn), the grammar makes it
// legal, characters that two deltas share are joined, and it is shown under our ids (names.go). The end of the run and a MESSAGES_SNAPSHOT have files of their
// own.

package aguiagent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/internal/fault"
)

// Translator turns the events of one run of the agent into Outputs. The agent's stream passes a grammar of its own
// first: chunks become start, content and end there, and what is open is closed, so that the rest need not know about
// either. One goroutine uses it, and it is for one run: the next call of the agent has a new one.
type Translator struct {
	// KeepRaw forwards the events of the agent's own upstream: RAW, and the rawEvent of any event. Some frameworks send each
	// of their events a second time in them, with the whole conversation.
	KeepRaw bool

	names    names
	runID    string              // our id of the agent's run, under which the grammar has it
	grammar  agui.Grammar        // of the agent's stream
	uses     uses                // the calls of the run, some of which have one id
	past     past                // the input of the run
	shown    *agui.Fold          // what this run has added, under our ids
	results  map[string][]string // messages of this run, by the call that they answer; our ids
	tools    map[string]bool     // of the client, by name: the page runs a call of one
	voices   map[string]bool     // messages that the agent sends as another's
	typed    map[string]bool     // the items that have an encrypted value of a named kind, by our ids
	pending  calls               // calls without a result; they decide what the run waits for
	repeated map[string]bool     // calls of an earlier run that this one shows again
	paused   *agui.RunFinished   // a RUN_FINISHED that may not have been the end (goesOn)
	usage    []agui.TokenUsage   // of such
	asks     interrupts          // the questions that the run may ask
	ended    bool

	halves agui.Halves // joins characters that the agent cut in two

	admitted, whole []agui.Event // those of one call of Translate; kept for their memory
}

// newTranslator makes a Translator for a run that is given the history, under the agent's ids, and the tools of the client.
func newTranslator(n names, runID string, history []agui.Message, tools []agui.Tool) *Translator {
	t := &Translator{
		names: n, runID: runID, past: newPast(history), shown: agui.NewFold(nil), results: make(map[string][]string),
		tools: make(map[string]bool, len(tools)), repeated: make(map[string]bool), voices: make(map[string]bool), typed: make(map[string]bool),
	}
	t.asks = interrupts{names: &t.names, call: t.call, pending: &t.pending, tools: t.tools}
	for _, tool := range tools {
		t.tools[tool.Name], t.tools[n.functions.Own(tool.Name)] = true, true // an agent may know it by either
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

// RefusedError reports an event that was refused, and its type.
type RefusedError struct {
	Type  agui.Type // "" of one whose type cannot be read
	Cause error
}

// Error implements error.
func (e *RefusedError) Error() string { return "event " + string(e.Type) + ": " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Cause }

// Sentence names, for a person, the refused event and the reason. It contains no value of the event, because agents put
// secrets in values.
func (e *RefusedError) Sentence() string {
	why := "it breaks the order of events"
	if in, ok := errors.AsType[*agui.InputError](e.Cause); ok {
		why = strings.TrimPrefix(in.Error(), "agui: ")
	} else if rule, ok := errors.AsType[*agui.GrammarError](e.Cause); ok {
		why = "it breaks the rule " + string(rule.Rule)
	} else if _, ok := errors.AsType[*unknownEventError](e.Cause); ok {
		why = "this server has no rule for its ids"
	}
	return fmt.Sprintf("The agent sent an event that was refused: %s, %s.", cmp.Or(string(e.Type), "without a type"), why)
}

// Translate appends the outputs for the data of one SSE event. An error is a [*RefusedError], and the Translator must not be
// used after it.
func (t *Translator) Translate(dst []bridge.Output, data []byte) ([]bridge.Output, error) {
	if bytes.Equal(data, doneText) {
		return t.End(dst), nil
	}
	data = bytes.Clone(data) // what is decoded refers to it
	ev, err := decode(data)
	of, unknown := errors.AsType[*agui.UnknownTypeError](err)
	if unknown {
		ev, err = &agui.Raw{Event: data, Source: "agui:" + of.Type}, nil
	}
	if err != nil {
		return dst, &RefusedError{agui.TypeIn(data), err}
	}
	if ev.EventType() == agui.TypeRaw && !unknown && !t.KeepRaw {
		return dst, nil
	}
	if dst, err = t.take(dst, ev); err != nil {
		return dst, &RefusedError{ev.EventType(), err}
	}
	return dst, nil
}

// take appends the outputs for a decoded event.
func (t *Translator) take(dst []bridge.Output, ev agui.Event) (_ []bridge.Output, err error) {
	dst = setApart(dst, ev)
	t.uses.on(ev)
	if t.goesOn(ev) {
		return dst, nil
	}
	if t.admitted, err = t.grammar.Admit(t.admitted[:0], ev); err != nil {
		return dst, err
	}
	t.whole = t.whole[:0]
	for _, next := range t.admitted {
		if t.closedEarly(ev, next) {
			t.whole = append(t.whole, next)
			continue
		}
		if _, ok := next.(*agui.RunError); ok { // it ends every open item without an END
			t.whole = t.halves.Flush(t.whole)
		}
		t.whole = t.halves.Join(t.whole, next)
	}
	for _, ev := range t.whole {
		if dst, err = t.admit(dst, ev); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// closedEarly reports whether next is an END that the grammar inserted because ev came between. The message may continue
// after ev, with the other half of a character.
func (t *Translator) closedEarly(ev, next agui.Event) bool {
	switch ev.(type) {
	case *agui.RunFinished, *agui.RunError:
		return false
	}
	switch next.(type) {
	case *agui.TextMessageEnd, *agui.ReasoningMessageEnd, *agui.ToolCallEnd:
		return t.grammar.Open(next)
	}
	return false
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
		dst, _ = t.admit(dst, ev) // ends of what was admitted before
	}
	return dst
}

// admit takes one legal event that is no chunk.
func (t *Translator) admit(dst []bridge.Output, ev agui.Event) ([]bridge.Output, error) {
	switch e := ev.(type) {
	case *agui.RunFinished:
		return t.finished(dst, e), nil
	case *agui.RunError:
		return t.failed(dst, e), nil
	case *agui.MessagesSnapshot:
		return t.snapshot(dst, e)
	case *agui.ToolCallStart:
		another := t.past.isAnothers(e.ParentMessageID) || t.names.thoughts[e.ParentMessageID] || t.names.results[e.ParentMessageID]
		if another && !t.names.begun[e.ParentMessageID] {
			e.ParentMessageID = "" // clients make a message for such a call
		}
	}
	if t.repeats(ev) {
		return dst, nil
	}
	if t.otherVoice(ev) {
		return append(dst, raw(ev.EventType(), ev.AppendJSON(nil))), nil
	}
	return t.show(dst, ev)
}

// show takes one event that clients are shown.
func (t *Translator) show(dst []bridge.Output, ev agui.Event) ([]bridge.Output, error) {
	if e, ok := ev.(*agui.ToolCallResult); ok && !t.pending.mine[e.ToolCallID] && !t.pending.takesResult(e.ToolCallID) {
		t.names.newCall(e.ToolCallID) // of a call that was not shown; one of that id in the history is of an earlier turn
	}
	t.asks.note(ev)
	if !t.KeepRaw {
		agui.Shared(ev).RawEvent = nil
	}
	t.pending.note(ev)
	if err := t.names.event(ev); err != nil {
		return dst, err
	}
	if e, ok := ev.(*agui.ReasoningEncryptedValue); ok {
		t.keepType(e)
	}
	t.shown.Apply(ev)
	if e, ok := ev.(*agui.ToolCallResult); ok && !slices.Contains(t.results[e.ToolCallID], e.MessageID) {
		t.results[e.ToolCallID] = append(t.results[e.ToolCallID], e.MessageID)
	}
	return append(dst, bridge.Output{Event: ev}), nil
}

// call finds a call by its key: a call of this run, otherwise the newest call of that id in the agent's input.
func (t *Translator) call(key string) (agui.ToolCall, bool) {
	if t.pending.mine[key] {
		if call, ok := t.shown.Call(t.names.call(key)); ok {
			call.ID, call.Function.Name = key, ownTool(call.Function.Name)
			return call, true
		}
	}
	call, ok := t.past.calls[key]
	return call, ok
}

// repeats reports whether an event shows a call again that the run was given with the history and that has no result: some
// agents begin with it when they continue after an approval. Any other call under a known id is a new one. So is a call that
// was left without a result before the user's last message: servers such as Ollama name each first call call_0.
func (t *Translator) repeats(ev agui.Event) bool {
	switch e := ev.(type) {
	case *agui.ToolCallStart:
		call, known := t.past.calls[e.ToolCallID]
		again := known && t.pending.isGiven(e.ToolCallID) && t.pending.newest[e.ToolCallID] && ownTool(call.Function.Name) == e.ToolCallName
		t.repeated[e.ToolCallID] = again
		if again {
			delete(t.uses.of, e.ToolCallID)
		}
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
