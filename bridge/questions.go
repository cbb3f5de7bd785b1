package bridge

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/inbox"
	"aqueduct/store"
)

// endWithQuestions ends the open Run with what is open of the Questions its client can be shown at once: permissions
// and inputs as interrupts, or calls of tools it declared. The others wait for a later Run. With none it ends plainly.
func (t *turn) endWithQuestions(ctx context.Context, open []inbox.Question, moves []store.Move) error {
	t.quiet.Stop()
	if len(open) == 0 {
		return t.run.end(ctx, ending{moves: moves})
	}
	chosen, outcome := choose(open, t.profile)
	for _, q := range chosen {
		if q.Call.RunID != "" {
			continue // stands in an earlier Run
		}
		if err := t.run.emitCall(q); err != nil {
			return err
		}
		shown := store.ToolCallShown{ID: q.Call.ID, RunID: t.run.row.ID}
		moves = append(moves, shown)
		shown.Anyway = true
		moves = append(moves, shown)
	}
	if t.pump != nil {
		t.pump.pause(true)
	}
	lost, err := t.run.endWith(ctx, ending{outcome: outcome, moves: moves})
	if len(lost) > 0 { // settled while it was being shown: the next look passes it on
		t.s.more = true
	}
	return err
}

// choose picks what a Run ends with. A client that declared the tool gets a frontend tool
// call; a TDesign page shows one open Question only, or it answers for the wrong one.
func choose(open []inbox.Question, p Profile) (shown []inbox.Question, outcome *agui.Outcome) {
	if len(open) == 0 {
		return nil, nil
	}
	var asks, calls []inbox.Question
	for _, q := range open {
		if q.ClientTool() || p.declares(q.ShownName()) {
			calls = append(calls, q)
		} else {
			asks = append(asks, q)
		}
	}
	if p.Dialect == DialectTDesign {
		oldest := open[:1]
		if len(asks) > 0 {
			return asks[:1], interruptFor(asks[:1])
		}
		return oldest, interruptFor(oldest)
	}
	if len(asks) > 0 {
		return asks, interruptFor(asks)
	}
	return calls, pendingFor(calls)
}

func pendingFor(calls []inbox.Question) *agui.Outcome {
	o := &agui.Outcome{Type: agui.OutcomeSuccess}
	for _, q := range calls {
		o.PendingToolCallIDs = append(o.PendingToolCallIDs, q.Call.ID)
	}
	return o
}

func interruptFor(asks []inbox.Question) *agui.Outcome {
	o := &agui.Outcome{Type: agui.OutcomeInterrupt}
	for _, q := range asks {
		o.Interrupts = append(o.Interrupts, interruptOf(q))
	}
	return o
}

// interruptOf is a Question in AG-UI's words. The reasons are the conventions of its
// interrupts page.
func interruptOf(q inbox.Question) agui.Interrupt {
	i := agui.Interrupt{ID: q.Call.ID, Reason: "tool_call", Message: q.Approval.Title, ToolCallID: q.Call.ID}
	if !q.Call.ExpiresAt.IsZero() {
		i.ExpiresAt = q.Call.ExpiresAt.UTC().Format(time.RFC3339Nano)
	}
	if q.Approval.Kind == store.ApprovalInput {
		i.Reason, i.ResponseSchema = "input_required", q.Approval.ResponseSchema
	}
	return i
}

// emitCall shows a Question as a tool call, its arguments in one delta.
func (r *run) emitCall(q inbox.Question) error {
	for _, ev := range callEvents(q, r.assistant) {
		if err := r.emit(ev); err != nil {
			return err
		}
	}
	return nil
}

func callEvents(q inbox.Question, parent string) []agui.Event {
	return []agui.Event{
		&agui.ToolCallStart{ToolCallID: q.Call.ID, ToolCallName: q.ShownName(), ParentMessageID: parent},
		&agui.ToolCallArgs{ToolCallID: q.Call.ID, Delta: string(shownArgs(q))},
		&agui.ToolCallEnd{ToolCallID: q.Call.ID},
	}
}

// emitResult tells how a Question was settled.
func (r *run) emitResult(q inbox.Question) error {
	return r.emit(&agui.ToolCallResult{
		MessageID: newID(), ToolCallID: q.Call.ID, Role: "tool", Content: agui.Text(r.resultText(q)),
	})
}

// resultText is a result as tool messages carry it: text that is JSON, or plain text that
// a client tool gave. Of a call that we run it is the tool's own, also where a person approved it; of an approved one
// whose Turn ends first, that it was approved.
func (r *run) resultText(q inbox.Question) string {
	var text string
	if q.RunsHere() && (q.NeverAsked() || q.Call.Status.Terminal()) || q.ClientTool() && len(q.Call.Result) == 0 {
		return r.callResult(q.Call)
	}
	if q.ClientTool() && json.Unmarshal(q.Call.Result, &text) == nil {
		return text
	}
	return string(inbox.Told(q))
}

// shownArgs is what a person sees before deciding (DESIGN's one form for permissions).
func shownArgs(q inbox.Question) json.RawMessage {
	if q.ClientTool() {
		return q.Call.Args
	}
	a := q.Approval
	if a.Kind == store.ApprovalPermission {
		return mustJSON(struct {
			Tool      string          `json:"tool"`
			Title     string          `json:"title"`
			Args      json.RawMessage `json:"args"`
			SHA256    string          `json:"args_sha256"`
			Risk      string          `json:"risk,omitempty"`
			Options   json.RawMessage `json:"options"`
			ExpiresAt string          `json:"expires_at"`
		}{a.Tool, a.Title, a.Args, a.ArgsSHA256, a.Risk, a.Options, a.ExpiresAt.UTC().Format(time.RFC3339)})
	}
	args := map[string]json.RawMessage{}
	_ = json.Unmarshal(a.Args, &args) // arguments that are no object are shown by the title alone
	if args == nil {
		args = map[string]json.RawMessage{}
	}
	setIfAbsent(args, "title", mustJSON(a.Title))
	if len(a.ResponseSchema) > 0 {
		setIfAbsent(args, "response_schema", a.ResponseSchema)
	}
	return mustJSON(args)
}

func setIfAbsent(m map[string]json.RawMessage, key string, v json.RawMessage) {
	if m[key] == nil {
		m[key] = v
	}
}

// questions are all of this Turn, oldest first, and the calls of tools that nobody was asked about.
func (t *turn) questions(ctx context.Context) (all []inbox.Question, err error) {
	err = patiently(ctx, func() (err error) {
		all, err = questionsOf(ctx, t.s.m.cfg.Store, t.row.ID)
		return err
	})
	t.called, t.waits = len(all) > 0, slices.Clone(all)
	if err == nil {
		t.asks.seen(all)
	}
	for _, q := range all {
		if q.Call.Kind == store.KindServer {
			t.know(q.Call)
		}
	}
	return all, err
}

// open are those that still wait.
func (t *turn) open(ctx context.Context) ([]inbox.Question, error) {
	all, err := t.questions(ctx)
	return slices.DeleteFunc(all, func(q inbox.Question) bool { return !q.Open() }), err
}

// questionsOf reads a Turn's Questions, and its other ToolCalls, in two looks, however many there are.
func questionsOf(ctx context.Context, r store.Reader, turnID string) (all []inbox.Question, err error) {
	calls, err := r.ToolCallsOfTurn(ctx, store.System(), turnID)
	if err != nil || len(calls) == 0 {
		return nil, err
	}
	slices.SortStableFunc(calls, func(a, b store.ToolCall) int { return a.CreatedAt.Compare(b.CreatedAt) })
	approvals := make(map[string]store.Approval)
	page := store.Page{Limit: store.MaxPageLimit}
	for {
		some, err := r.Approvals(ctx, store.System(), store.ApprovalFilter{TurnID: turnID}, page)
		if err != nil {
			return nil, err
		}
		for _, a := range some {
			approvals[a.ID] = a
		}
		if len(some) < page.Size() {
			break
		}
		page.After = some[len(some)-1].ID
	}
	for _, call := range calls {
		q := inbox.Question{Call: call, Approval: approvals[call.ID]}
		if call.Kind == store.KindQuestion && q.Approval.ID == "" {
			return nil, store.ErrNotFound
		}
		all = append(all, q)
	}
	return all, nil
}
