package server

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/registry"
	"aqueduct/bridge/tools"
	records "aqueduct/bridge/trace"
	"aqueduct/bridge/trace/reader"
	"aqueduct/internal/safetext"
	"aqueduct/policy"
	"aqueduct/server/answer"
	"aqueduct/server/channel"
	"aqueduct/server/problem"
	"aqueduct/store"
)

// schemaTypes are the Go types that handlers encode or decode, by the name of their schema in openapi.json.
func schemaTypes() map[string]reflect.Type {
	all := map[string]reflect.Type{
		"Agent":           reflect.TypeFor[agentJSON](),
		"Attachment":      reflect.TypeFor[attachmentJSON](),
		"ContextEntry":    reflect.TypeFor[contextJSON](),
		"AppendedMessage": reflect.TypeFor[appendedJSON](),
		"RunTree":         reflect.TypeFor[treeJSON](),
		"InboxEvent":      reflect.TypeFor[inboxEventJSON](),
		"InboxGone":       reflect.TypeFor[inboxGoneJSON](),
		"InboxSynced":     reflect.TypeFor[inboxSyncedJSON](),
		"InboxPolicy":     reflect.TypeFor[inboxPolicyJSON](),
		"Approval":        reflect.TypeFor[answer.Approval](),
		"SettledApproval": reflect.TypeFor[answer.Settled](),
		"Decision":        reflect.TypeFor[answer.Decision](),
		"ToolCall":        reflect.TypeFor[proxiedJSON](),
		"Problem":         reflect.TypeFor[problem.Problem](),
		"Delegation":      reflect.TypeFor[delegationJSON](),
		"Grant":           reflect.TypeFor[grantJSON](),
		"GrantTemplate":   reflect.TypeFor[templateJSON](),
		"Run":             reflect.TypeFor[runJSON](),
		"Share":           reflect.TypeFor[shareJSON](),
		"Thread":          reflect.TypeFor[threadDetailJSON](),
		"Tool":            reflect.TypeFor[toolJSON](),
		"Credential":      reflect.TypeFor[tokenJSON](),
		"ServiceAccount":  reflect.TypeFor[serviceAccountJSON](),
		"Rate":            reflect.TypeFor[rateJSON](),
		"Proxy":           reflect.TypeFor[proxyJSON](),
		"ThreadControl":   reflect.TypeFor[controlsJSON](),
		"SandboxResult":   reflect.TypeFor[sandboxJSON](),
		"TraceEvent":      reflect.TypeFor[sessionEntryJSON](),
	}
	maps.Copy(all, frameParts())
	return all
}

// bodies are the Go types of schemas that stand unnamed at their operation: the request's under its method and path, a
// response's with its status behind that.
func bodies() map[string]reflect.Type {
	return map[string]reflect.Type{
		"POST /v1/agents/register":                    reflect.TypeFor[registry.Registration](),
		"POST /v1/agents/register 200":                reflect.TypeFor[okJSON](),
		"POST /v1/runs":                               reflect.TypeFor[channel.TaskPrompt](),
		"POST /v1/runs 202":                           reflect.TypeFor[channel.Enqueued](),
		"GET /v1/runs/{id} 200":                       reflect.TypeFor[channel.RunStatus](),
		"GET /v1/context 200":                         reflect.TypeFor[contextListJSON](),
		"POST /v1/context":                            reflect.TypeFor[contextBody](),
		"GET /v1/sessions/{id}/messages 200":          reflect.TypeFor[transcriptJSON](),
		"POST /v1/sessions/{id}/messages":             reflect.TypeFor[appendBody](),
		"GET /api/limits 200":                         reflect.TypeFor[limitsJSON](),
		"GET /api/audit 200 entries":                  reflect.TypeFor[auditJSON](),
		"GET /api/delegations 200":                    reflect.TypeFor[delegationsJSON](),
		"GET /api/grants 200":                         reflect.TypeFor[grantsJSON](),
		"GET /api/session 200":                        reflect.TypeFor[whoJSON](),
		"PATCH /api/threads/{id}":                     reflect.TypeFor[threadBody](),
		"POST /api/admin/acp-proxy/register":          reflect.TypeFor[registerBody](),
		"POST /api/approvals/decisions":               reflect.TypeFor[batchBody](),
		"POST /api/approvals/decisions 200 decisions": reflect.TypeFor[batchedJSON](),
		"POST /api/approvals/{id}/delegate":           reflect.TypeFor[delegateBody](),
		"POST /api/delegations":                       reflect.TypeFor[delegationBody](),
		"POST /api/grants":                            reflect.TypeFor[grantBody](),
		"POST /api/proxies/{id}/control":              reflect.TypeFor[sandboxBody](),
		"POST /api/proxies/{id}/prune":                reflect.TypeFor[pruneBody](),
		"POST /api/service_accounts":                  reflect.TypeFor[serviceAccountBody](),
		"POST /api/session":                           reflect.TypeFor[signInBody](),
		"POST /api/threads/{id}/control":              reflect.TypeFor[controlBody](),
		"POST /api/threads/{id}/shares":               reflect.TypeFor[shareBody](),
		"POST /api/tickets":                           reflect.TypeFor[ticketBody](),
		"POST /api/tickets 201":                       reflect.TypeFor[ticketJSON](),
		"POST /api/tokens":                            reflect.TypeFor[issueBody](),
		"POST /api/tool_calls/{id}/result":            reflect.TypeFor[answer.ToolResult](),
		"POST /api/tool_calls/{id}/result 200":        reflect.TypeFor[answer.ToolCall](),
		"GET /api/agui/capabilities 200":              reflect.TypeFor[capabilitiesJSON](),
		"POST /v1/tools/{name}:invoke":                reflect.TypeFor[invokeBody](),
	}
}

// documented is what a schema of openapi.json has to agree with its Go type in.
type documented struct {
	Type       any
	Ref        string `json:"$ref"`
	Enum       []string
	Required   []string
	Properties map[string]documented
	Items      *documented
	AllOf      []documented
	OneOf      []documented
	Const      any

	Discriminator struct{ Mapping map[string]string }
}

// apiDoc is openapi.json.
type apiDoc struct {
	Components struct{ Schemas map[string]documented }
	Paths      map[string]map[string]operation
}

type operation struct {
	Parameters []struct {
		Name   string
		Schema documented
	}
	RequestBody content
	Responses   map[string]content
}

type content struct {
	Content map[string]struct{ Schema documented }
}

func readDoc(t *testing.T) apiDoc {
	t.Helper()
	var doc apiDoc
	if err := json.Unmarshal(openapiJSON, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// each calls f for every schema that stands at an operation; where is as in bodies, and for a parameter ends in ?name.
func (d apiDoc) each(f func(where string, schema documented)) {
	for path, operations := range d.Paths {
		for method, op := range operations {
			at := strings.ToUpper(method) + " " + path
			for _, p := range op.Parameters {
				f(at+" ?"+p.Name, p.Schema)
			}
			for _, c := range op.RequestBody.Content {
				f(at, c.Schema)
			}
			for status, r := range op.Responses {
				for _, c := range r.Content {
					f(at+" "+status, c.Schema)
				}
			}
		}
	}
}

// whole is a schema with what it refers to and what it is composed of.
func (d apiDoc) whole(s documented) documented {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return d.whole(d.Components.Schemas[name])
	}
	if len(s.AllOf) == 0 {
		return s
	}
	out := documented{Type: "object", Required: slices.Clone(s.Required), Properties: maps.Clone(s.Properties)}
	if out.Properties == nil {
		out.Properties = make(map[string]documented)
	}
	for _, part := range s.AllOf {
		part = d.whole(part)
		maps.Copy(out.Properties, part.Properties)
		out.Required = append(out.Required, part.Required...)
	}
	return out
}

// TestOpenAPISchemas: the members of each schema are those of the Go type that the handlers use; a required member is
// always encoded; and the JSON types are the same, at every depth that the schema describes.
func TestOpenAPISchemas(t *testing.T) {
	t.Parallel()
	doc := readDoc(t)
	for name, typ := range schemaTypes() {
		doc.compare(t, name, doc.Components.Schemas[name], typ)
	}
	for name, typ := range eventTypes() {
		doc.compare(t, name, doc.Components.Schemas[name], typ)
	}
	schemas := make(map[string]documented)
	doc.each(func(where string, schema documented) {
		schemas[where] = schema
		for name, p := range schema.Properties {
			if p.Items != nil {
				schemas[where+" "+name] = *p.Items
			}
		}
	})
	for where, typ := range bodies() {
		schema, ok := schemas[where]
		if !ok {
			t.Errorf("%s: there is no such schema", where)
		}
		doc.compare(t, where, schema, typ)
	}
}

func (d apiDoc) compare(t *testing.T, where string, schema documented, typ reflect.Type) {
	t.Helper()
	if schema = d.whole(schema); schema.Properties == nil {
		return // any object
	}
	members := membersOf(typ)
	// Where one schema serves two types.
	notAlways := map[string]bool{"Thread.questions": true, "TraceEvent.session_id": true, "Tool.source": true}
	for member, m := range members {
		p, ok := schema.Properties[member]
		p = d.whole(p)
		switch {
		case !ok && where+"."+member == "POST /api/proxies/{id}/control.env":
			continue // refused
		case !ok:
			t.Errorf("%s.%s is not documented", where, member)
			continue
		case m.kind != "" && p.Type != nil && !allows(p.Type, m.kind):
			t.Errorf("%s.%s is %s, and documented as %v", where, member, m.kind, p.Type)
		}
		of := m.of
		if of.Kind() == reflect.Slice && p.Items != nil {
			p, of = d.whole(*p.Items), of.Elem()
		}
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if m.kind != "" && of.Kind() == reflect.Struct && of != reflect.TypeFor[time.Time]() && of != typ { // a tree's children are like itself
			d.compare(t, where+"."+member, p, of)
		}
	}
	for member := range schema.Properties {
		if _, ok := members[member]; !ok && where+"."+member != "ToolCallResultEvent.toolCallName" { // which agui/tdesign adds
			t.Errorf("%s.%s is documented, and %s has no such member", where, member, typ)
		}
	}
	for name, m := range members {
		if sent(where) && !m.optional && !notAlways[where+"."+name] && !slices.Contains(schema.Required, name) {
			t.Errorf("%s.%s is always there, and not documented as required", where, name)
		}
	}
	for _, member := range schema.Required {
		if m, ok := members[member]; !ok || m.optional {
			t.Errorf("%s.%s is documented as required, and is not always there", where, member)
		}
	}
}

// sent reports whether a schema is of what the server sends: a component's name but for Decision's, or a response's status.
func sent(where string) bool {
	top, _, _ := strings.Cut(where, ".")
	if strings.Contains(top, " ") {
		return strings.Count(top, " ") > 1
	}
	return top != "Decision"
}

func allows(documented any, kind string) bool {
	if all, ok := documented.([]any); ok {
		return slices.ContainsFunc(all, func(one any) bool { return allows(one, kind) })
	}
	return documented == kind || documented == "number" && kind == "integer"
}

type member struct {
	kind     string // "" for any JSON
	of       reflect.Type
	optional bool
}

// membersOf are the JSON members of a struct, those of embedded structs included.
func membersOf(t reflect.Type) map[string]member {
	all := make(map[string]member)
	for f := range t.Fields() {
		if t.PkgPath() == reflect.TypeFor[agui.Message]().PkgPath() {
			maps.Copy(all, aguiMembers(t, f))
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			for name, m := range membersOf(f.Type) {
				all[name] = m
			}
		case !f.IsExported() || name == "-":
		default:
			all[name] = member{kind: jsonKind(f.Type), of: f.Type, optional: strings.Contains(options, "omit") || f.Tag.Get("validate") != "" && !strings.Contains(f.Tag.Get("validate"), "required")}
		}
	}
	return all
}

func jsonKind(t reflect.Type) string {
	if t == reflect.TypeFor[agui.Content]() {
		return "" // a text, or parts
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface:
		return ""
	case t == reflect.TypeFor[time.Time]():
		return "string"
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		return "array"
	case reflect.Struct, reflect.Map:
		return "object"
	default:
		return "integer"
	}
}

// enums calls f for each enum below a schema that stands there unnamed.
func (s documented) enums(where string, f func(where string, values []string)) {
	if s.Enum != nil {
		f(where, s.Enum)
	}
	if s.Items != nil {
		s.Items.enums(where, f)
	}
	for name, p := range s.Properties {
		p.enums(where+"."+name, f)
	}
	for _, part := range slices.Concat(s.AllOf, s.OneOf) {
		part.enums(where, f)
	}
}

// ruleOf is the list of oneof in the rule of a member, in a body or a query.
func ruleOf[T any](name string) []string {
	for f := range reflect.TypeFor[T]().Fields() {
		if f.Tag.Get("json") != name && f.Tag.Get("query") != name {
			continue
		}
		if _, list, ok := strings.Cut(f.Tag.Get("validate"), "oneof="); ok {
			return strings.Fields(list)
		}
	}
	return nil
}

// texts are constants of one type.
func texts[T ~string](all ...T) []string {
	out := make([]string, len(all))
	for i, one := range all {
		out[i] = string(one)
	}
	return out
}

// codes are those of the table, but for those that only ever end a stream.
func codes() (names []string) {
	for _, c := range problem.Codes() {
		if c.Status != 0 {
			names = append(names, c.Name)
		}
	}
	return names
}

// enumValues are the values of each enum in openapi.json, from the rules and the constants of the code.
func enumValues() map[string][]string {
	kinds := texts(store.ApprovalPermission, store.ApprovalInput)
	decided := texts(store.ApprovalApproved, store.ApprovalRejected, store.ApprovalExpired, store.ApprovalCancelled)
	toolKinds := []string{tools.WireServer, tools.WireClient}
	ended := texts(store.TurnDone, store.TurnFailed, store.TurnCancelled)
	owners := texts(store.ContextOfSession, store.ContextOfRun, store.ContextOfUser, store.ContextOfAgent)
	all := map[string][]string{
		"Approval.kind": kinds, "Approval.status": append(texts(store.ApprovalPending), decided...),
		"Approval.warnings": {
			safetext.WarnNumberPrecision, safetext.WarnNumberRange, safetext.WarnDuplicateKey, safetext.WarnBidi, safetext.WarnInvisible,
			safetext.WarnControl, safetext.WarnInvalidText, safetext.WarnCut, safetext.WarnLabel, safetext.WarnUnconfined,
		},
		"Problem.code":      codes(),
		"Decision.decision": ruleOf[answer.Decision]("decision"),
		"Proxy.status":      {"online", "offline"},
		"Run.status":        texts(store.RunReserved, store.RunRunning, store.RunFinished, store.RunInterrupted, store.RunCancelled, store.RunFailed),
		"Share.rights":      ruleOf[shareBody]("rights"),
		"InboxEvent.type":   {eventApprovalOpened, eventApprovalSettled}, "InboxGone.type": {eventApprovalGone}, "InboxSynced.type": {eventInboxSynced}, "InboxPolicy.type": {eventPolicyChanged},
		"Agent.status": texts(registry.Online, registry.Offline, registry.Failing, registry.Unknown), "Agent.protocol": {store.AgentHTTP, store.AgentAGUI, store.AgentACP},
		"Agent.warnings": {warnSharedWorkspaces},
		"Agent.source":   texts(store.AgentFromConfig, store.AgentFromProxy, store.AgentFromAPI),
		"Tool.kind":      toolKinds, "Tool.on_failure": texts(store.FailureReturns, store.FailureEndsRun), "Tool.source": {store.ToolFromFile, store.ToolFromAPI, store.ToolFromMCP},
		"ToolCall.status":                           {"succeeded", "pending", "failed"},
		"TraceEvent.source":                         texts(reader.SourceAGUI, store.SourceACP, store.SourcePlatform),
		"TracePayloads.agent_invoke_started.reason": {records.BecausePrompt, records.BecauseAnswers, records.BecauseSpoke},
		"TracePayloads.agent_invoke_done.status":    {records.InvokeDone, records.InvokeWaiting, records.InvokeFailed, records.InvokeCancelled},
		"TracePayloads.run_done.status":             ended, "TracePayloads.run_failed.status": ended,
		"TracePayloads.tool_call_created.kind": toolKinds, "TracePayloads.tool_dispatched.kind": toolKinds, "TracePayloads.tool_result.kind": toolKinds,
		"TracePayloads.llm_call_done.status":     texts(store.ModelDone, store.ModelFailed, store.ModelCut),
		"TracePayloads.tool_result.status":       texts(store.ToolSucceeded, store.ToolFailed, store.ToolTimeout, store.ToolBlocked),
		"TracePayloads.policy_decision.verdict":  {string(policy.Allow), "require_approval", string(policy.Block)}, // policy.Ask, as it is written
		"TracePayloads.approval_created.kind":    kinds,
		"TracePayloads.approval_decision.kind":   kinds,
		"TracePayloads.approval_decision.status": decided,
		"JSONPatch.op":                           {"add", "remove", "replace", "move", "copy", "test"}, // RFC 6902
		"MessagePart.source.type":                {agui.SourceData, agui.SourceURL, agui.SourceFile},
		"RunAgentInput.resume.status":            aguiRule[agui.ResumeEntry]("status"),
		"RunOutcome.type":                        {agui.OutcomeSuccess, agui.OutcomeInterrupt, agui.OutcomeCancelled},
		"SubagentFinishedEvent.outcome.type":     {agui.OutcomeSuccess, agui.SubagentSuspended},
		"Message.role":                           aguiRule[agui.Message]("role"),
		"MessageToolCall.type":                   aguiRule[agui.ToolCall]("type"),
		"ReasoningEncryptedValueEvent.subtype":   aguiRule[agui.ReasoningEncryptedValue]("subtype"),
		"ReasoningMessageStartEvent.role":        aguiRule[agui.ReasoningMessageStart]("role"),
		"TextMessageStartEvent.role":             aguiRule[agui.TextMessageStart]("role"),
		"ToolCallResultEvent.role":               aguiRule[agui.ToolCallResult]("role"),
		"ProxyToken.error.code":                  {"NOT_FOUND", "UNAUTHORIZED", "BAD_REQUEST", "FORBIDDEN", "RESERVED", "PROXY_KNOWN", "AGENT_TAKEN", "TOO_MANY_REQUESTS"},

		"Attachment.type":         {agui.PartImage, agui.PartAudio, agui.PartVideo, agui.PartDocument},
		"ContextEntry.owner_type": append(owners, string(store.ContextOfUpload)), "TracePayloads.context_written.owner_type": owners, "TracePayloads.context_deleted.owner_type": owners,
		"POST /v1/context.owner_type": ruleOf[contextBody]("owner_type"), "POST /v1/context ?owner_type": ruleOf[contextQuery]("owner_type"), "GET /v1/context ?owner_type": ruleOf[contextPage]("owner_type"),
		"GET /v1/context/{key} ?format":          ruleOf[contextView]("format"),
		"RunTree.status":                         texts(store.TurnQueued, store.TurnRunning, store.TurnPausedApproval, store.TurnPausedTool, store.TurnDone, store.TurnFailed, store.TurnCancelled),
		"GET /v1/sessions/{id}/messages ?format": ruleOf[transcriptQuery]("format"), "POST /v1/sessions/{id}/messages.message.role": ruleOf[appendedMessage]("role"),
		"POST /v1/agents/{id}:invoke ?on_leave": ruleOf[callQuery]("on_leave"),
		"GET /api/approvals ?kind":              ruleOf[approvalsQuery]("kind"), "GET /api/approvals ?status": ruleOf[approvalsQuery]("status"),
		"GET /api/threads/{id}/messages ?format":               ruleOf[messagesQuery]("format"),
		"GET /api/proxies/{id}/inventory 200.instances.state":  {"known", "unknown", "missing"},
		"GET /api/proxies/{id}/inventory 200.workspaces.state": {"known", "unknown", "missing"},
		"POST /api/proxies/{id}/control.action":                ruleOf[sandboxBody]("action"),
		"POST /api/threads/{id}/control.action":                ruleOf[controlBody]("action"),
		"POST /api/threads/{id}/shares.rights":                 ruleOf[shareBody]("rights"),
		"POST /api/tokens.type":                                ruleOf[issueBody]("type"),
		"POST /v1/ingress.type":                                {"agent_invoke", "tool_result", "approval_decision", "cancel_run", "replay_run"},
	}
	for _, route := range []string{"POST /api/agui/chat", "POST /api/agui/connect"} {
		for _, name := range []string{"on_leave", "on_busy", "dialect"} {
			all[route+" ?"+name] = ruleOf[chatQuery](name)
		}
	}
	maps.Copy(all, frameEnums(all))
	return all
}

// TestOpenAPIEnums: each enum has the values that the code takes or sends, and no others.
func TestOpenAPIEnums(t *testing.T) {
	t.Parallel()
	doc, want := readDoc(t), enumValues()
	compare := func(where string, values []string) {
		if expected, ok := want[where]; !ok {
			t.Errorf("%s: nothing in the code to compare %v with", where, values)
		} else if slices.Sort(expected); !slices.Equal(expected, slices.Sorted(slices.Values(values))) {
			t.Errorf("%s has %v, and the code %v", where, values, expected)
		}
		delete(want, where)
	}
	for name, schema := range doc.Components.Schemas {
		schema.enums(name, compare)
	}
	doc.each(func(where string, schema documented) { schema.enums(where, compare) })
	for where := range want {
		t.Errorf("%s has no enum any more", where)
	}
}
