package bridge

import (
	"context"
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/inbox"
	"aqueduct/bridge/tools"
	"aqueduct/store"
)

// A ToolCall that we run is shown in its Turn's chat: TOOL_CALL_START, ARGS and END when it begins, TOOL_CALL_RESULT when
// it has ended. Where the Turn is driven on the replica that runs the call, the events are in the commits that keep the
// call's row, so they cost no commit and neither can be without the other. A call that runs elsewhere, or in a moment in
// which its Session's goroutine is busy, is shown from its row by catchUp.

const (
	// handOver is how long a call's commit waits for its Session's goroutine to add the events. That goroutine may be
	// waiting for the upstream, and this for the call: so the wait is short, and the row is then kept alone.
	handOver = 20 * time.Millisecond
	// firstWords is how long the first call of an upstream waits for what was said before it.
	firstWords = 20 * time.Millisecond
	// readerYields is how often the reader of an upstream is given way to.
	readerYields = 3
	// shownResult bounds a result in the chat, in bytes: it is in every join of the thread from then on. The agent gets
	// the whole of it.
	shownResult = 64 << 10
)

// toolKeeping is a Keeping on its way to the Session's goroutine, which answers at once.
type toolKeeping struct {
	tools.Keeping
	answer chan toolAnswer // capacity 1
}

// toolAnswer is where the Keeping went: into the log's next commit, at a place among the moves; or nowhere (ok is false).
type toolAnswer struct {
	entry eventlog.Submitted
	place int
	ok    bool
}

// keepToolCall keeps a call with its events if its Turn is driven here, and else its row alone (tools.Keeper).
func (s *Sessions) keepToolCall(ctx context.Context, k tools.Keeping) (tools.Kept, error) {
	if answer, ok := s.handOver(ctx, k); ok {
		lost, err := answer.entry.Wait(ctx)
		return tools.Kept{Lost: slices.Contains(lost, answer.place), Shown: true}, err
	}
	lost, err := s.cfg.Log.Keep(ctx, k.Call.SessionID, append([]store.Move{k.Move}, k.Trace...), nil)
	return tools.Kept{Lost: slices.Contains(lost, 0)}, err
}

// handOver gives a Keeping to the goroutine that drives the Session, if one does.
func (s *Sessions) handOver(ctx context.Context, k tools.Keeping) (toolAnswer, bool) {
	s.mu.Lock()
	a := s.active[k.Call.SessionID]
	s.mu.Unlock()
	if a == nil {
		return toolAnswer{}, false
	}
	req := &toolKeeping{Keeping: k, answer: make(chan toolAnswer, 1)}
	select {
	case a.calls <- req:
	default:
		patience := time.NewTimer(handOver)
		defer patience.Stop()
		select {
		case a.calls <- req:
		case <-a.gone:
			return toolAnswer{}, false
		case <-patience.C:
			return toolAnswer{}, false
		case <-ctx.Done():
			return toolAnswer{}, false
		}
	}
	answer := <-req.answer
	return answer, answer.ok
}

// shownCall is a tool call as the log of the Turn has it.
type shownCall struct {
	resulted bool
	byUs     bool // we started it: the Agent's own frames of it are left out
	ours     bool // we run it: its result is ours to tell
}

// noteCall notes an event of a tool call that is in the log.
func (t *turn) noteCall(ev agui.Event) {
	switch e := ev.(type) {
	case *agui.ToolCallStart:
		t.callNamed(e.ToolCallID)
	case *agui.ToolCallResult:
		t.callNamed(e.ToolCallID).resulted = true
	}
}

func (t *turn) callNamed(id string) *shownCall {
	c := t.calls[id]
	if c == nil {
		if t.calls == nil {
			t.calls = make(map[string]*shownCall)
		}
		c = &shownCall{}
		t.calls[id] = c
	}
	return c
}

// repeats reports whether an event of the Agent's own is about a call that we show: one that it has us run and shows by
// frames of its own too, under the id that both give it (tools.CallID). One that the Agent began to show goes on; the
// result of any is ours.
func (t *turn) repeats(ev agui.Event) bool {
	switch e := ev.(type) {
	case *agui.ToolCallStart:
		return t.calls[e.ToolCallID] != nil && t.calls[e.ToolCallID].ours
	case *agui.ToolCallArgs:
		return t.calls[e.ToolCallID] != nil && t.calls[e.ToolCallID].byUs
	case *agui.ToolCallEnd:
		return t.calls[e.ToolCallID] != nil && t.calls[e.ToolCallID].byUs
	case *agui.ToolCallResult:
		return t.calls[e.ToolCallID] != nil && t.calls[e.ToolCallID].ours
	}
	return false
}

// know takes from its row that a call is ours, so that the Agent's own frames of it are left out.
func (t *turn) know(call store.ToolCall) {
	if c := t.calls[call.ID]; c != nil {
		c.ours = true
	} else if call.RunID != "" && call.ArgsSHA256 != "" {
		*t.callNamed(call.ID) = shownCall{resulted: call.Told, byUs: true, ours: true}
		t.answeredAs(call.ID)
	}
}

// keepCall puts what a call's runner has kept into the log's next commit, with the events that show it. Without an answer
// of ours the runner keeps the row alone.
func (t *turn) keepCall(ctx context.Context, k *toolKeeping) (err error) {
	answer := toolAnswer{}
	defer func() { k.answer <- answer }()
	if k.Call.TurnID != t.row.ID || t.row.Status.Terminal() {
		return nil
	}
	if err := t.readAhead(ctx); err != nil || t.row.Status.Terminal() || t.ahead != nil {
		return err
	}
	if k.Asked && !t.isShown(k.Call) { // settled before it was shown: catchUp shows it as what was asked
		return nil
	}
	var moves []store.Move
	if t.run == nil {
		var ok bool
		if moves, ok, err = t.furtherRun(ctx); err != nil || !ok {
			return err
		}
	}
	started := t.isShown(k.Call)
	err = t.showCall(k.Call)
	if err == nil && k.Call.Status.Terminal() && !t.calls[k.Call.ID].resulted {
		err = t.run.emitResult(inbox.Question{Call: k.Call})
	}
	if err != nil {
		return t.failOr(ctx, err, moves...)
	}
	move := k.Move
	switch m := move.(type) {
	case store.TakeToolCall:
		m.ToolCall.RunID = t.run.row.ID
		move = m
	case store.ToolCallMove:
		if m.Told = true; !started {
			m.RunID = t.run.row.ID
		}
		move = m
	}
	answer.place = len(moves)
	entry := t.marked(eventlog.Entry{Events: t.run.events, N: t.run.n, Moves: append(append(moves, move), k.Trace...)})
	answer.entry, err = t.s.log.Submit(ctx, entry)
	t.run.handed()
	if answer.ok = err == nil; !answer.ok {
		return err
	}
	if t.run.bytes > t.s.m.cfg.Limits.RunBytes {
		return t.fail(ctx, runTooLarge())
	}
	t.listenOn()
	return nil
}

// readAhead takes what the upstream has said by now: what an Agent says before it calls a tool is before the call. The
// words and the call come by two connections. The reader of the words has been woken first, but it may have to run yet; and
// the first words come with the answer's headers, which take longer to read than a call does.
func (t *turn) readAhead(ctx context.Context) error {
	for yields := 0; yields < readerYields; yields++ {
		b, ok := t.nextBatch(ctx)
		for n := 0; ok && n < pumpDepth; n++ {
			if err := t.take(ctx, b); err != nil || t.row.Status.Terminal() || t.ahead != nil {
				return err
			}
			b, ok = t.nextBatch(ctx)
		}
		if ok {
			return t.take(ctx, b)
		}
		runtime.Gosched()
	}
	return nil
}

// nextBatch is one that is there. For the first words of an upstream it waits, once.
func (t *turn) nextBatch(ctx context.Context) (batch, bool) {
	select {
	case b := <-t.frames():
		return b, true
	default:
	}
	if t.pump == nil || t.pump.spoke {
		return batch{}, false
	}
	t.pump.spoke = true
	patience := time.NewTimer(firstWords)
	defer patience.Stop()
	select {
	case b := <-t.pump.frames:
		return b, true
	case <-patience.C:
	case <-ctx.Done():
	}
	return batch{}, false
}

// isShown reports whether the log has the start of a call: in an earlier Run, or in this process's memory of the Turn.
func (t *turn) isShown(call store.ToolCall) bool { return call.RunID != "" || t.calls[call.ID] != nil }

// showCall puts the start of a call that we run into the open Run, unless the log has it. A text that the Agent is still
// writing ends before it, so that what it goes on with stands behind the call.
func (t *turn) showCall(call store.ToolCall) error {
	if !t.isShown(call) {
		if err := t.closeText(); err != nil {
			return err
		}
		t.callNamed(call.ID).byUs = true
		for _, ev := range []agui.Event{
			&agui.ToolCallStart{ToolCallID: call.ID, ToolCallName: shownTool(call.Name), ParentMessageID: t.run.assistant},
			&agui.ToolCallArgs{ToolCallID: call.ID, Delta: string(compact(call.Args))},
			&agui.ToolCallEnd{ToolCallID: call.ID},
		} {
			if err := t.run.emit(ev); err != nil {
				return err
			}
		}
	}
	t.callNamed(call.ID).ours = true
	t.answeredAs(call.ID)
	return nil
}

// answeredAs has frames left out in which the Agent shows the call under the id that we answered it with.
func (t *turn) answeredAs(id string) {
	*t.callNamed(ToolCallID(t.row.ID, id)) = shownCall{resulted: true, byUs: true, ours: true}
}

// shownTool keeps the name of the permission card for permissions.
func shownTool(name string) string {
	if name == inbox.PermissionTool {
		return "tool." + name
	}
	return name
}

// closeText ends the text message that is open. What its Agent adds to it goes on under an id of its own (carry).
func (t *turn) closeText() error {
	open := t.run.text
	if open == nil {
		return nil
	}
	if err := t.run.emit(&agui.TextMessageEnd{Sub: open.Sub, MessageID: open.MessageID}); err != nil {
		return err
	}
	t.carry.over([]agui.Event{open})
	return nil
}

// callResult is what the chat shows of the end of a call that we ran, or did not: {"status", "error"} for one that
// failed, the tool's own result for one that succeeded, cut if it is long.
func (r *run) callResult(call store.ToolCall) string {
	type failed struct {
		Status string          `json:"status"`
		Error  json.RawMessage `json:"error,omitempty"`
	}
	switch {
	case call.Status == store.ToolSucceeded && len(call.Result) == 0:
		return "null"
	case call.Status == store.ToolSucceeded:
		return r.cutResult(call)
	}
	if call.Status.Terminal() && len(call.Error) == 0 {
		call.Error = mustJSON(map[string]string{"code": call.ErrorCode})
	}
	switch {
	case call.Status == store.ToolBlocked:
		return string(mustJSON(failed{"refused", call.Error}))
	case call.Status.Terminal():
		return string(mustJSON(failed{"failed", call.Error}))
	}
	return string(mustJSON(failed{Status: strings.ToLower(string(call.Status))})) // its Turn ends before it does
}

// cutResult brings a result under the bound. It stays JSON, which some pages demand of a result, and says that it is cut.
// Secrets go first: half of one would not be recognised any more.
func (r *run) cutResult(call store.ToolCall) string {
	result := string(call.Result)
	if len(result) <= shownResult {
		return result
	}
	whole := (&agui.ToolCallResult{MessageID: call.ID, ToolCallID: call.ID, Role: "tool", Content: agui.Text(result)}).AppendJSON(nil)
	if ev, err := agui.Decode(r.t.s.m.cfg.Filter.JSON(whole)); err == nil {
		result = ev.(*agui.ToolCallResult).Content.String()
	}
	beginning := head(result, shownResult)
	return string(mustJSON(struct {
		Cut       bool   `json:"cut"`
		Bytes     int    `json:"bytes"`
		Shown     int    `json:"shown"`
		Beginning string `json:"beginning"`
	}{true, len(result), len(beginning), beginning}))
}

// emitSettled tells that a call was approved, before the tool has a result: that may take long.
func (t *turn) emitSettled(q inbox.Question) error {
	return t.run.emit(&agui.Custom{Name: "question_settled", Value: mustJSON(settledNote(q))})
}
