// This file makes the spans of a Turn out of its Records: one for the Turn, for each Run, for each call of the agent,
// of a model and of a tool; what happens at one moment (a dispatch, a verdict, a wait for a person) is an event on
// one of them. Names of attributes are those of OpenTelemetry's conventions for generative AI (gen_ai.*) where they
// have one, else aqueduct.*.
//
// No text of a user, an agent or a tool becomes a part of a span: what is exported leaves the installation. What they
// named (tools, models, codes) is exported only in the form of a name (name).

package otlp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	api "go.opentelemetry.io/otel/trace"

	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// span is one span before it is one of the SDK's.
type span struct {
	traceID, id, parent string       // hex
	state               string       // tracestate, of the Turn's alone
	kind                api.SpanKind // server: the Turn; client: a call of an agent or a model; internal: the rest
	byAgent             bool         // what the agent did: it stands under the call of the agent that is open
	name                string
	from, to            time.Time
	failed              string // why; "" is a span that did not fail
	attributes          []attribute.KeyValue
	events              []event
}

// event is something that happened at one moment of a span.
type event struct {
	at         time.Time
	name       string
	attributes []attribute.KeyValue
}

// turn is all that is on record of one Turn.
type turn struct {
	row     store.Turn
	runs    []store.Run
	records []store.Record // of the platform, oldest first
}

// mostSpans bounds the spans of one Turn: they are in memory, and in one request, together. What goes beyond it is
// left out and counted on the Turn's span.
const mostSpans = 5000

// builder makes the spans of one Turn. The ids of spans that went downstream are those of the Records; the others are
// derived, so that a Turn which is exported twice has the same spans.
type builder struct {
	turn    turn
	context trace.Context // the trace, and the Turn's own span in it
	end     time.Time     // of the Turn, as its row has it
	root    *span
	spans   []*span
	byID    map[string]*span // by the id of a tool call or of a model call
	calling *span            // the call of the agent that is open
	left    int              // spans beyond mostSpans
}

// spans are those of a Turn that has ended, the Turn's own first; none where its caller does not record.
//
// For example, with the kinds of the spans:
//
//	turn planner                    server
//	├─ run                          internal, one for each Run
//	├─ invoke planner               client, one for each call of the agent
//	│  ├─ chat/completions gpt-5    client, a call of a model
//	│  └─ execute_tool mail.send    internal, with its dispatch and its approval as events
func (t turn) spans() []*span {
	c, ok := trace.Parse(t.row.Traceparent, t.row.Tracestate)
	if !ok || !c.Sampled() {
		return nil
	}
	b := &builder{turn: t, context: c, end: t.row.EndedAt, byID: make(map[string]*span)}
	b.root = &span{
		traceID: c.TraceID, id: c.SpanID, state: c.State, kind: api.SpanKindServer, name: "turn " + t.row.AgentID, from: t.row.CreatedAt, to: b.end,
		attributes: []attribute.KeyValue{
			attribute.String("gen_ai.operation.name", "invoke_agent"), attribute.String("gen_ai.agent.id", t.row.AgentID),
			attribute.String("gen_ai.conversation.id", t.row.SessionID), attribute.String("aqueduct.turn.id", t.row.ID),
			attribute.String("aqueduct.turn.status", string(t.row.Status)),
		},
	}
	b.spans = []*span{b.root}
	for _, run := range t.runs {
		b.run(run)
	}
	for _, r := range t.records {
		b.record(r)
	}
	b.finish()
	return b.spans
}

// add adds a span under the Turn's, or under the call of the agent that made it. traceparent is how it was named
// downstream; "" derives an id from the name.
func (b *builder) add(traceparent, name string, s span) *span {
	s.traceID, s.parent = b.context.TraceID, b.root.id
	if b.calling != nil && s.byAgent {
		s.parent = b.calling.id
	}
	if c, ok := trace.Parse(traceparent, ""); ok && c.TraceID == s.traceID {
		s.id = c.SpanID
	} else {
		s.id = derived(b.turn.row.ID, name)
	}
	if len(b.spans) == mostSpans {
		b.left++
		return &s // is filled in like any, and not exported
	}
	b.spans = append(b.spans, &s)
	return &s
}

// derived is the id of a span that went nowhere.
func derived(turnID, name string) string {
	sum := sha256.Sum256([]byte(turnID + "\x00" + name))
	return hex.EncodeToString(sum[:8])
}

// run adds a Run: the slice of the log that a client sees as one.
func (b *builder) run(run store.Run) {
	if run.StartedAt.IsZero() {
		return
	}
	s := b.add("", "run "+run.ID, span{kind: api.SpanKindInternal, name: "run", from: run.StartedAt, to: run.EndedAt, attributes: []attribute.KeyValue{
		attribute.String("aqueduct.run.id", run.ID), attribute.String("aqueduct.run.status", string(run.Status)),
		attribute.Int64("aqueduct.run.first_seq", run.FirstSeq), attribute.Int64("aqueduct.run.last_seq", run.LastSeq),
	}})
	s.failed = name(run.ErrorCode, otherCode)
}

// What stands for a code or a name that is a text.
const (
	otherCode = "other"
	otherName = "_other"

	longestName = 256
)

// name is a name or a code that an agent may have chosen; one that is a text is no part of what is exported.
func name(of, instead string) string {
	letter := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.:/@+-", r)
	}
	if len(of) > longestName || strings.ContainsFunc(of, func(r rune) bool { return !letter(r) }) {
		return instead
	}
	return of
}

// read reads the payload of a Record; one of a later form gives what it has.
func read[T any](r store.Record) (payload T) {
	_ = json.Unmarshal(r.Payload, &payload)
	return payload
}

// record adds what a Record is about.
func (b *builder) record(r store.Record) {
	switch r.Type {
	case trace.RunStarted:
		b.root.parent, b.root.from = read[trace.Started](r).ParentSpan, earlier(b.root.from, r.TS)
	case trace.RunDone, trace.RunFailed:
		end := read[trace.TurnEnd](r)
		b.root.failed = name(end.Code, otherCode)
		b.root.attributes = append(b.root.attributes, attribute.Int64("aqueduct.turn.paused_ms", end.PausedMS))
	case trace.AgentInvokeStarted:
		b.invoked(r)
	case trace.AgentInvokeDone:
		b.invokeEnded(r)
	case trace.LLMCallStarted, trace.LLMCallDone:
		b.model(r)
	case trace.ToolCallCreated, trace.ToolDispatched, trace.ToolResult, trace.PolicyDecision:
		b.tool(r)
	case trace.ApprovalCreated, trace.ApprovalDecision:
		b.approval(r)
	case trace.AgentCalledChild:
		called := read[trace.CalledChild](r)
		b.root.events = append(b.root.events, event{r.TS, r.Type, []attribute.KeyValue{
			attribute.String("gen_ai.agent.id", called.AgentID), attribute.String("aqueduct.turn.id", called.RunID),
		}})
	}
}

// invoked begins a call of the agent. A Turn has one at a time; what is on record until it ends was done in it.
func (b *builder) invoked(r store.Record) {
	call := read[trace.Invoked](r)
	b.calling = b.add(call.Traceparent, "invoke "+r.ID, span{kind: api.SpanKindClient, name: "invoke " + call.AgentID, from: r.TS, attributes: []attribute.KeyValue{
		attribute.String("gen_ai.agent.id", call.AgentID), attribute.String("aqueduct.invoke.reason", call.Reason),
	}})
}

// invokeEnded ends it.
func (b *builder) invokeEnded(r store.Record) {
	if b.calling == nil {
		return
	}
	end := read[trace.InvokeEnded](r)
	b.calling.to = r.TS
	b.calling.attributes = append(b.calling.attributes, attribute.String("aqueduct.invoke.status", end.Status))
	if end.Status == trace.InvokeFailed {
		b.calling.failed = name(end.Code, otherCode)
	}
	b.calling = nil
}

// model adds a call of a model.
func (b *builder) model(r store.Record) {
	if r.Type == trace.LLMCallStarted {
		call := read[trace.ModelStarted](r)
		call.Model = name(call.Model, otherName)
		b.byID[call.RequestID] = b.add(call.Traceparent, "model "+call.RequestID, span{kind: api.SpanKindClient, byAgent: true, name: call.Route + " " + call.Model, from: r.TS, attributes: []attribute.KeyValue{
			attribute.String("gen_ai.operation.name", operation(call.Route)), attribute.String("gen_ai.request.model", call.Model), attribute.String("aqueduct.model_call.id", call.RequestID),
		}})
		return
	}
	end := read[trace.ModelEnded](r)
	s := b.byID[end.RequestID]
	if s == nil {
		return
	}
	s.to = r.TS
	s.attributes = append(s.attributes,
		attribute.Int64("gen_ai.usage.input_tokens", end.Tokens.Input), attribute.Int64("gen_ai.usage.output_tokens", end.Tokens.Output),
		attribute.String("aqueduct.model_call.upstream", end.Upstream), attribute.String("aqueduct.model_call.status", end.Status),
	)
	if end.FirstTokenMS > 0 {
		s.events = append(s.events, event{at: s.from.Add(time.Duration(end.FirstTokenMS) * time.Millisecond), name: "first_token"})
	}
	if end.Error != nil {
		s.failed = name(end.Error.Code, otherCode)
	}
}

// operation is a route of OpenAI's API in the words of OpenTelemetry.
func operation(route string) string {
	switch route {
	case "embeddings":
		return "embeddings"
	case "responses":
		return "generate_content"
	}
	return "chat"
}

// tool adds a call of a tool. Its span is the one that it was given when it ran, or one of its own where it never did.
func (b *builder) tool(r store.Record) {
	call := read[trace.Call](r)
	s := b.byID[call.ToolCallID]
	switch {
	case r.Type == trace.ToolCallCreated:
		call.ToolName = name(call.ToolName, otherName)
		b.byID[call.ToolCallID] = b.add("", "tool "+call.ToolCallID, span{kind: api.SpanKindInternal, byAgent: true, name: "execute_tool " + call.ToolName, from: r.TS, attributes: []attribute.KeyValue{
			attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", call.ToolName), attribute.String("gen_ai.tool.call.id", call.ToolCallID),
			attribute.String("aqueduct.tool.kind", string(call.Kind)),
		}})
	case s == nil: // of a call that this Turn does not have, or of a permission that an agent asked for by itself
	case r.Type == trace.ToolDispatched:
		if c, ok := trace.Parse(read[trace.Dispatch](r).Traceparent, ""); ok && c.TraceID == s.traceID {
			s.id = c.SpanID
		}
		s.events = append(s.events, event{at: r.TS, name: r.Type})
	case r.Type == trace.ToolResult:
		result := read[trace.Result](r)
		s.to = r.TS
		s.attributes = append(s.attributes, attribute.String("aqueduct.tool.status", string(result.Status)))
		s.failed = name(codeOf(result.Error), otherCode)
	case r.Type == trace.PolicyDecision:
		verdict := read[struct{ Verdict, Rule string }](r)
		s.events = append(s.events, event{r.TS, r.Type, []attribute.KeyValue{attribute.String("aqueduct.policy.verdict", verdict.Verdict), attribute.String("aqueduct.policy.rule", verdict.Rule)}})
	}
}

// codeOf is the code of an error {code, message}; "" for none.
func codeOf(raw []byte) string {
	var of struct{ Code string }
	_ = json.Unmarshal(raw, &of)
	return of.Code
}

// approval adds the wait for a person to the tool call that it is about. A permission of the agent's own stands on its call,
// or on the Turn where none is open.
func (b *builder) approval(r store.Record) {
	asked := read[trace.Decided](r)
	on := b.byID[asked.ToolCallID]
	switch {
	case on != nil:
	case b.calling != nil:
		on = b.calling
	default:
		on = b.root
	}
	attributes := []attribute.KeyValue{
		attribute.String("aqueduct.approval.id", asked.ApprovalID), attribute.String("gen_ai.tool.name", name(asked.ToolName, otherName)), attribute.String("aqueduct.approval.kind", asked.Kind),
	}
	if r.Type == trace.ApprovalDecision {
		attributes = append(attributes, attribute.String("aqueduct.approval.status", asked.Status), attribute.String("aqueduct.approval.via", asked.Via), attribute.Int64("aqueduct.approval.waited_ms", asked.WaitedMS))
	}
	on.events = append(on.events, event{r.TS, r.Type, attributes})
}

// finish ends what has no end on record: it ended with the Turn at the latest. Times of two replicas may differ, and no
// span ends before it began. What ended with the Turn may have been noted a moment later, and the Turn's span holds all
// that was under way in it.
func (b *builder) finish() {
	for _, s := range b.spans {
		if s.to.IsZero() {
			s.to = b.end
			s.attributes = append(s.attributes, attribute.Bool("aqueduct.unfinished", true))
		}
		if s.to.Before(s.from) {
			s.to = s.from
		}
		if s.to.After(b.root.to) {
			b.root.to = s.to
		}
	}
	if b.left > 0 {
		b.root.attributes = append(b.root.attributes, attribute.Int("aqueduct.spans_left_out", b.left))
	}
}

// earlier is the earlier of two times that are set.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
