// This file turns the log's events into what a TDesign Chat page draws correctly. The page reads an
// AG-UI from before 1.0 with additions of its own, and applies events in ways that differ from the
// official client; each rule here names the difference that it is for.

package tdesign

import (
	"bytes"
	"encoding/json"
	"maps"

	"aqueduct/agui"
)

// dialect follows one stream. What TDesign shows depends on what it was shown
// before, so it begins with a run's first event and sees every one after it.
// Each part knows one kind of block of a page; the dialect knows which of them may be open at once.
// Its owner is the goroutine that serves the stream; the parts write to frames that it passes them,
// and hold no pointer to it.
type dialect struct {
	threadID, runID string
	text            text
	thinking        thinking
	calls           calls
	activities      activities
	state           states
	shown           bool // the bubble of this run has content
	out             frames
}

// New is the dialect of a TDesign Chat page. stateBefore is the thread's state
// before the run the stream begins with, names those of tool calls of earlier runs
// whose results may come now, by id; nil when there are none. optionID names the options of Questions; nil leaves them.
func New(stateBefore json.RawMessage, names map[string]string, optionID OptionID) agui.Dialect {
	d := &dialect{calls: calls{optionID: optionID, names: make(map[string]string)}}
	maps.Copy(d.calls.names, names)
	d.state.begin(stateBefore)
	d.reset()
	return d
}

// reset: RUN_STARTED makes TDesign forget tool calls, thoughts and activities,
// but not the state, which belongs to the page.
func (d *dialect) reset() {
	d.text = text{skipped: make(map[string]bool)}
	d.thinking = thinking{}
	d.calls.byID = make(map[string]*call)
	d.activities = activities{byID: make(map[string]*activity), last: make(map[string]string)}
	d.shown = false
}

// AppendFrames implements [agui.Dialect]. Deltas of the open text, the bulk of a stream, are
// recognised by their bytes and passed undecoded.
func (d *dialect) AppendFrames(dst []byte, id int64, event []byte) []byte {
	if d.text.continuedBy(event) {
		return agui.AppendFrame(dst, id, event)
	}
	d.out.begin(dst)
	if ev, err := agui.Decode(event); err == nil {
		d.translate(ev, event)
	} else {
		d.out.pass(event) // TDesign ignores what it does not know
	}
	return d.out.end(id)
}

// event is the bytes of ev, for those events that pass as they are.
func (d *dialect) translate(ev agui.Event, event []byte) {
	out := &d.out
	switch e := ev.(type) {
	case *agui.TextMessageStart:
		d.textStart(e, event)
	case *agui.TextMessageContent:
		d.textContent(e, event)
	case *agui.TextMessageEnd:
		d.text.end(out, e.MessageID, event)
	case *agui.ReasoningStart:
		d.thinkingStart(e)
	case *agui.ReasoningMessageStart:
		d.thoughtStart()
	case *agui.ReasoningMessageContent:
		d.thoughtContent(e.Delta)
	case *agui.ReasoningMessageEnd:
		d.thinking.endMessage(out)
	case *agui.ReasoningEnd:
		d.thinking.end(out)
	case *agui.ToolCallStart:
		d.callStart(e, event)
	case *agui.ToolCallArgs:
		d.calls.appendArgs(out, e, event)
	case *agui.ToolCallEnd:
		d.calls.end(out, e, event)
	case *agui.ToolCallResult:
		d.calls.result(out, e)
	case *agui.RunStarted:
		d.runStarted(e, event)
	case *agui.RunFinished:
		d.runFinished(e, event)
	case *agui.RunError:
		d.runError(e, event)
	case *agui.StateSnapshot:
		d.state.snapshot(out, e)
	case *agui.StateDelta:
		d.state.delta(out, e)
	case *agui.ActivitySnapshot:
		d.shown = d.activities.snapshot(out, e, event) || d.shown
	case *agui.ActivityDelta:
		d.activities.delta(out, e, event)
	case *agui.MessagesSnapshot, *agui.ReasoningEncryptedValue,
		*agui.SubagentStarted, *agui.SubagentFinished, *agui.SubagentError,
		*agui.TextMessageChunk, *agui.ToolCallChunk, *agui.ReasoningMessageChunk:
		// Left out: a standard message snapshot does nothing in TDesign, and one with content arrays breaks the bubble.
		// It does not know subagents. Chunks do not occur in a log.
	case *agui.Custom:
		d.thinking.end(out) // a custom block would be drawn inside of it
		if e.Name == agui.MessageChanged {
			d.calls.amend(out, e.Value)
		}
		out.pass(event)
	default:
		d.thinking.end(out) // a custom block would be drawn inside of it
		out.pass(event)
	}
}

// newBlock ends what is open: TDesign draws whatever comes inside an open thinking block in that block, so a tool's card
// would be invisible, and a text would leave the block "thinking" for ever.
func (d *dialect) newBlock() {
	d.thinking.end(&d.out)
	d.text.close(&d.out)
	d.shown = true
}

func (d *dialect) textStart(e *agui.TextMessageStart, event []byte) {
	if e.Role != "" && e.Role != agui.RoleAssistant {
		d.text.skipped[e.MessageID] = true // it would be drawn as the assistant's
		return
	}
	d.newBlock()
	d.text.become(e.MessageID)
	d.out.pass(event)
}

// textContent sends a delta. A delta of another message than the open one begins a new block, since
// TDesign appends it to the last block whatever id it names.
func (d *dialect) textContent(e *agui.TextMessageContent, event []byte) {
	if d.text.skipped[e.MessageID] || e.Delta == "" {
		return
	}
	if d.text.open != e.MessageID {
		d.newBlock()
		d.text.become(e.MessageID)
		d.out.send(&agui.TextMessageStart{MessageID: e.MessageID, Role: agui.RoleAssistant})
	}
	d.out.pass(event)
}

// thinkingStart opens the block, unless it is open: TDesign has one, and spans that overlap share
// it.
func (d *dialect) thinkingStart(e *agui.ReasoningStart) {
	if !d.thinking.open {
		d.newBlock()
		d.thinking.start(&d.out, e)
	}
}

// thoughtStart begins a thought, and the block around it when the agent has sent none.
func (d *dialect) thoughtStart() {
	d.thinkingStart(new(agui.ReasoningStart))
	d.thinking.startMessage(&d.out)
}

// thoughtContent sends a delta of a thought, which it begins if nothing has.
func (d *dialect) thoughtContent(delta string) {
	if !d.thinking.message {
		d.thoughtStart()
	}
	d.thinking.content(&d.out, delta)
}

// callStart shows a call once. An agent may open one again, to go on with its arguments or, called a second time
// for the same Turn, to repeat it: a second start would draw a second card.
func (d *dialect) callStart(e *agui.ToolCallStart, event []byte) {
	if d.calls.byID[e.ToolCallID] != nil {
		return
	}
	d.newBlock()
	d.calls.start(e.ToolCallID, e.ToolCallName)
	d.out.pass(event)
}

// runStarted begins a bubble.
func (d *dialect) runStarted(e *agui.RunStarted, event []byte) {
	d.reset()
	d.threadID, d.runID = e.ThreadID, e.RunID
	if e.Input == nil {
		d.out.pass(event)
		return
	}
	bare := *e
	bare.Input = nil // the page has its own messages
	d.out.send(&bare)
}

// runFinished: a result whose status is that it waits for input makes the page
// of TDesign's own travel example crash.
// The result is removed and the run finishes as usual; questions are shown by their tool calls.
func (d *dialect) runFinished(e *agui.RunFinished, event []byte) {
	d.closeAll()
	if !bytes.Contains(e.Result, []byte("waiting_for_user_input")) {
		d.out.pass(event)
		return
	}
	bare := *e
	bare.Result = nil
	d.out.send(&bare)
}

// runError: TDesign writes an error over the first block of the bubble and
// treats every later answer of the page as failed too. A user who already has
// half an answer keeps it: the error follows as a text, and the run finishes,
// with the error as its result for the page's onComplete.
func (d *dialect) runError(e *agui.RunError, event []byte) {
	d.closeAll()
	if !d.shown {
		d.out.pass(event)
		return
	}
	id := d.runID + ":error"
	d.out.send(&agui.TextMessageStart{MessageID: id, Role: agui.RoleAssistant})
	d.out.send(&agui.TextMessageContent{MessageID: id, Delta: e.Message})
	d.out.send(&agui.TextMessageEnd{MessageID: id})
	result := append([]byte(`{"error":{"message":`), agui.AppendString(nil, e.Message)...)
	result = append(agui.AppendString(append(result, `,"code":`...), e.Code), "}}"...)
	d.out.send(&agui.RunFinished{ThreadID: d.threadID, RunID: d.runID, Result: result, Usage: e.Usage})
}

// closeAll ends what a bubble would otherwise show as going on for ever.
func (d *dialect) closeAll() {
	d.thinking.end(&d.out)
	d.text.close(&d.out)
	d.activities.close(&d.out)
}
