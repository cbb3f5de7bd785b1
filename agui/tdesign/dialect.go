package tdesign

import (
	"bytes"
	"encoding/json"
	"maps"

	"aqueduct/agui"
)

// dialect follows one stream. What TDesign shows depends on what it was shown
// before, so it begins with a run's first event and sees every one after it.
type dialect struct {
	threadID, runID string
	text            text
	thinking        thinking
	calls           map[string]*call
	names           map[string]string // of all calls, those of earlier runs too
	activities      activities
	state           states
	shown           bool // the bubble of this run has content

	dst     []byte // the frames being appended
	last    []byte // the latest of them, not appended yet
	pending bool
}

// New is the dialect of a TDesign Chat page. stateBefore is the thread's state
// before the run the stream begins with, names those of tool calls of earlier runs
// whose results may come now, by id; nil when there are none.
func New(stateBefore json.RawMessage, names map[string]string) agui.Dialect {
	d := &dialect{names: make(map[string]string)}
	maps.Copy(d.names, names)
	d.state.begin(stateBefore)
	d.reset()
	return d
}

// reset: RUN_STARTED makes TDesign forget tool calls, thoughts and activities,
// but not the state, which belongs to the page.
func (d *dialect) reset() {
	d.text = text{skipped: make(map[string]bool)}
	d.thinking = thinking{}
	d.calls = make(map[string]*call)
	d.activities = activities{byID: make(map[string]*activity), last: make(map[string]string)}
	d.shown = false
}

// AppendFrames implements [agui.Dialect].
func (d *dialect) AppendFrames(dst []byte, id int64, event []byte) []byte {
	if d.text.continuedBy(event) {
		return agui.AppendFrame(dst, id, event)
	}
	d.dst, d.pending = dst, false
	if ev, err := agui.Decode(event); err == nil {
		d.translate(ev, event)
	} else {
		d.pass(event) // not ours to judge; TDesign ignores what it does not know
	}
	if d.pending {
		d.dst = agui.AppendFrame(d.dst, id, d.last)
	}
	dst, d.dst = d.dst, nil
	return dst
}

// pass sends the bytes of the log.
func (d *dialect) pass(event []byte) {
	d.flush()
	d.last = append(d.last[:0], event...)
	d.pending = true
}

// send sends an event of our own.
func (d *dialect) send(ev agui.Event) {
	d.flush()
	d.last = ev.AppendJSON(d.last[:0])
	d.pending = true
}

// sendJSON sends an event AG-UI 1.0 has no type for.
func (d *dialect) sendJSON(event string) { d.pass([]byte(event)) }

// flush appends the latest frame, without an id since another one follows.
func (d *dialect) flush() {
	if d.pending {
		d.dst = agui.AppendFrame(d.dst, 0, d.last)
	}
}

func (d *dialect) translate(ev agui.Event, event []byte) {
	switch e := ev.(type) {
	case *agui.TextMessageStart:
		d.textStart(e, event)
	case *agui.TextMessageContent:
		d.textContent(e, event)
	case *agui.TextMessageEnd:
		d.textEnd(e, event)
	case *agui.ReasoningStart:
		d.thinkingStart()
	case *agui.ReasoningMessageStart:
		d.thoughtStart()
	case *agui.ReasoningMessageContent:
		d.thoughtContent(e.Delta)
	case *agui.ReasoningMessageEnd:
		d.thoughtEnd()
	case *agui.ReasoningEnd:
		d.closeThinking()
	case *agui.ToolCallStart:
		d.callStart(e, event)
	case *agui.ToolCallArgs:
		d.callArgs(e, event)
	case *agui.ToolCallEnd:
		d.callEnd(e, event)
	case *agui.ToolCallResult:
		d.callResult(e)
	default:
		d.translateElse(ev, event)
	}
}

func (d *dialect) translateElse(ev agui.Event, event []byte) {
	switch e := ev.(type) {
	case *agui.RunStarted:
		d.runStarted(e, event)
	case *agui.RunFinished:
		d.runFinished(e, event)
	case *agui.RunError:
		d.runError(e, event)
	case *agui.StateSnapshot:
		d.stateSnapshot(e)
	case *agui.StateDelta:
		d.stateDelta(e)
	case *agui.ActivitySnapshot:
		d.activitySnapshot(e, event)
	case *agui.ActivityDelta:
		d.activityDelta(e, event)
	case *agui.MessagesSnapshot, *agui.ReasoningEncryptedValue,
		*agui.SubagentStarted, *agui.SubagentFinished, *agui.SubagentError,
		*agui.TextMessageChunk, *agui.ToolCallChunk, *agui.ReasoningMessageChunk:
		// A standard message snapshot does nothing in TDesign, one with content
		// arrays breaks the bubble; subagents it does not know; chunks a log has
		// none of.
	default:
		d.pass(event)
	}
}

func (d *dialect) runStarted(e *agui.RunStarted, event []byte) {
	d.reset()
	d.threadID, d.runID = e.ThreadID, e.RunID
	if e.Input == nil {
		d.pass(event)
		return
	}
	bare := *e
	bare.Input = nil // the page has its own messages
	d.send(&bare)
}

// runFinished: a result whose status says that it waits for input makes the page
// of TDesign's own travel example crash.
func (d *dialect) runFinished(e *agui.RunFinished, event []byte) {
	d.closeAll()
	if !bytes.Contains(e.Result, []byte("waiting_for_user_input")) {
		d.pass(event)
		return
	}
	bare := *e
	bare.Result = nil
	d.send(&bare)
}

// runError: TDesign writes an error over the first block of the bubble and
// treats every later answer of the page as failed too. A user who already has
// half an answer keeps it: the error follows as a text, and the run finishes,
// with the error as its result for the page's onComplete.
func (d *dialect) runError(e *agui.RunError, event []byte) {
	d.closeAll()
	if !d.shown {
		d.pass(event)
		return
	}
	id := d.runID + ":error"
	d.send(&agui.TextMessageStart{MessageID: id, Role: agui.RoleAssistant})
	d.send(&agui.TextMessageContent{MessageID: id, Delta: e.Message})
	d.send(&agui.TextMessageEnd{MessageID: id})
	result := append([]byte(`{"error":{"message":`), agui.AppendString(nil, e.Message)...)
	result = append(agui.AppendString(append(result, `,"code":`...), e.Code), "}}"...)
	d.send(&agui.RunFinished{ThreadID: d.threadID, RunID: d.runID, Result: result, Usage: e.Usage})
}

// closeAll ends what a bubble would otherwise show as going on for ever.
func (d *dialect) closeAll() {
	d.closeThinking()
	d.closeText()
	d.closeActivities()
}
