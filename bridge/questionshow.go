package bridge

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/redact"
	"aqueduct/store"
)

// How a Question, and a call that we execute, looks in AG-UI.

// choose picks what a Run ends with. A client that declared the tool gets a frontend tool
// call; a TDesign page shows one open Question only, or it answers for the wrong one.
// AG-UI 1.0 shows what is open as interrupts; clients before it know only tool calls that are pending. Interrupts and
// pending calls cannot stand in one outcome, so what a person must decide goes first.
func choose(open []approval.Question, p Profile) (shown []approval.Question, outcome *agui.Outcome) {
	if len(open) == 0 {
		return nil, nil
	}
	var asks, calls []approval.Question
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

// asAsked reports whether a Run that ends with these Questions has no outcome on the wire. That holds if the agent asked all
// of them by CUSTOM on_interrupt, and its own run had none. The official client library refuses to send
// forwardedProps.command.resume while it holds interrupts of an outcome. The metadata of RUN_FINISHED has the interrupts.
func asAsked(asks []approval.Question, dialect string) bool {
	return dialect != DialectTDesign && len(asks) > 0 && !slices.ContainsFunc(asks, func(q approval.Question) bool { return !q.OnInterrupt() })
}

// asAskedMetadata returns the metadata of such a RUN_FINISHED.
func asAskedMetadata(outcome *agui.Outcome) json.RawMessage {
	var end struct {
		Outcome struct {
			Interrupts json.RawMessage `json:"interrupts"`
		} `json:"outcome"`
	}
	_ = json.Unmarshal((&agui.RunFinished{Outcome: outcome}).AppendJSON(nil), &end) // of our own writing
	return mustJSON(map[string]any{"aqueduct": end.Outcome})
}

// pendingFor is the outcome for calls that the client's page executes: it sends their results with its next request.
func pendingFor(calls []approval.Question) *agui.Outcome {
	o := &agui.Outcome{Type: agui.OutcomeSuccess}
	for _, q := range calls {
		o.PendingToolCallIDs = append(o.PendingToolCallIDs, q.CardID())
	}
	return o
}

// interruptFor is the outcome for what a person must decide.
func interruptFor(asks []approval.Question) *agui.Outcome {
	o := &agui.Outcome{Type: agui.OutcomeInterrupt}
	for _, q := range asks {
		o.Interrupts = append(o.Interrupts, interruptOf(q))
	}
	return o
}

// interruptOf is a Question in AG-UI's words. The reasons are the conventions of its
// interrupts page.
// The metadata shows the arguments again, masked and cut as the inbox has them, for clients that show an interrupt
// without looking for its tool call. A Question for input has the schema of its answer.
func interruptOf(q approval.Question) agui.Interrupt {
	i := agui.Interrupt{ID: q.Call.ID, Reason: "tool_call", Message: q.Approval.Title, ToolCallID: q.CardID()}
	if !q.Call.ExpiresAt.IsZero() {
		i.ExpiresAt = q.Call.ExpiresAt.UTC().Format(time.RFC3339Nano)
	}
	i.ResponseSchema = q.Approval.ResponseSchema
	if q.Approval.Kind == store.ApprovalInput {
		i.Reason = "input_required"
	}
	if shown := approval.ShownOf(q.Approval); len(q.Approval.Args) > 0 || len(shown.Warnings) > 0 {
		i.Metadata = mustJSON(shown)
	}
	return i
}

// callEvents show a Question as a tool call of the message that stands before it.
// The arguments come in one delta. A page that executes tools parses them at the end of the call, and one that shows a
// card needs all of them.
func callEvents(q approval.Question, parent string) []agui.Event {
	return []agui.Event{
		&agui.ToolCallStart{ToolCallID: q.CardID(), ToolCallName: q.ShownName(), ParentMessageID: parent},
		&agui.ToolCallArgs{ToolCallID: q.CardID(), Delta: string(shownArgs(q))},
		&agui.ToolCallEnd{ToolCallID: q.CardID()},
	}
}

// resultText is a result as tool messages carry it: text that is JSON, or plain text that a client tool gave. Of a call
// that we execute it is the tool's own, also where a person approved it; of an approved one whose Turn ends first, that it
// was approved.
func resultText(q approval.Question, filter *redact.Filter) string {
	var text string
	if q.RunsHere() && (q.NeverAsked() || q.Call.Status.Terminal()) || q.ClientTool() && len(q.Call.Result) == 0 {
		return callResult(q.Call, filter)
	}
	if q.ClientTool() && json.Unmarshal(q.Call.Result, &text) == nil {
		return text
	}
	return string(approval.ResultContent(q))
}

// shownArgs is what a person sees before deciding (DESIGN's one form for permissions).
func shownArgs(q approval.Question) json.RawMessage {
	if q.ClientTool() {
		return q.Call.Args
	}
	a := q.Approval
	if a.Kind == store.ApprovalPermission {
		return mustJSON(struct {
			Tool  string          `json:"tool"`
			Title string          `json:"title"`
			Args  json.RawMessage `json:"args"`
			approval.Shown
			SHA256    string          `json:"args_sha256"`
			Risk      string          `json:"risk,omitempty"`
			Options   json.RawMessage `json:"options"`
			MayEdit   bool            `json:"may_edit,omitempty"`
			Schema    json.RawMessage `json:"response_schema,omitempty"`
			ExpiresAt string          `json:"expires_at"`
		}{a.Tool, a.Title, a.Args, approval.ShownOf(a), a.ArgsSHA256, a.Risk, a.Options, a.MayEdit, a.ResponseSchema, a.ExpiresAt.UTC().Format(time.RFC3339)})
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

// setIfAbsent adds a member that the Agent's own arguments do not have: what the Agent named counts.
func setIfAbsent(m map[string]json.RawMessage, key string, v json.RawMessage) {
	if m[key] == nil {
		m[key] = v
	}
}

// shownResult bounds a result in the chat, in bytes: it is in every join of the thread from then on. The agent gets the
// whole of it.
const shownResult = 64 << 10

// callResult is what the chat shows of the end of a call that we ran, or did not: {"status", "error"} for one that
// failed, the tool's own result for one that succeeded, cut if it is long.
func callResult(call store.ToolCall, filter *redact.Filter) string {
	type failed struct {
		Status string          `json:"status"`
		Error  json.RawMessage `json:"error,omitempty"`
	}
	switch {
	case call.Status == store.ToolSucceeded && len(call.Result) == 0:
		return "null"
	case call.Status == store.ToolSucceeded:
		return cutResult(call, filter)
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

// cutResult brings a result under the bound. It stays JSON, which some pages demand of a result, and is marked as cut.
// Secrets go first: half of one would not be recognised any more.
func cutResult(call store.ToolCall, filter *redact.Filter) string {
	result := string(call.Result)
	if len(result) <= shownResult {
		return result
	}
	whole := (&agui.ToolCallResult{MessageID: call.ID, ToolCallID: call.ID, Role: agui.RoleTool, Content: agui.Text(result)}).AppendJSON(nil)
	if ev, err := agui.Decode(filter.JSON(whole)); err == nil {
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
