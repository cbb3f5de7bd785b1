package server

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"aqueduct/acpgateway/wire"
	"aqueduct/bridge/livefeed"
	"aqueduct/server/answer"
	"aqueduct/server/channel"
	"aqueduct/store"
)

// frameParts are the Go types of the schemas that frames of sockets are made of.
func frameParts() map[string]reflect.Type {
	detail, _ := reflect.TypeFor[channel.Message]().FieldByName("Detail")
	return map[string]reflect.Type{
		"IngressDetail":       detail.Type.Elem(),
		"PermissionQuestion":  reflect.TypeFor[requestJSON](),
		"PermissionExecution": reflect.TypeFor[executionJSON](),
		"AcpOffers":           reflect.TypeFor[wire.Offers](),
		"AcpInit":             reflect.TypeFor[wire.Init](),
		"AcpWorkspace":        reflect.TypeFor[wire.Workspace](),
		"AcpSandboxInstance":  reflect.TypeFor[wire.SandboxInstance](),
	}
}

// sentFrames and takenFrames are the Go types of frames: those of one direction, by their schema. What every frame of a socket
// has beside is in heads.
func sentFrames() map[string]reflect.Type {
	return map[string]reflect.Type{
		"PermissionStatusFrame.data": reflect.TypeFor[statusJSON](),
		"PermissionErrorFrame.data":  reflect.TypeFor[failureJSON](),

		"AcpRegisterAckFrame":            reflect.TypeFor[wire.RegisterAck](),
		"AcpOpenFrame":                   reflect.TypeFor[wire.Open](),
		"AcpCloseFrame":                  reflect.TypeFor[wire.Close](),
		"AcpPromptSendFrame":             reflect.TypeFor[wire.PromptSend](),
		"AcpSessionCancelFrame":          reflect.TypeFor[wire.SessionCancel](),
		"AcpSessionSetModeFrame":         reflect.TypeFor[wire.SessionSetMode](),
		"AcpSessionSetModelFrame":        reflect.TypeFor[wire.SessionSetModel](),
		"AcpSessionSetConfigOptionFrame": reflect.TypeFor[wire.SessionSetConfigOption](),
		"AcpSessionPermissionFrame":      reflect.TypeFor[wire.SessionPermission](),
		"AcpSessionElicitationFrame":     reflect.TypeFor[wire.SessionElicitation](),
		"AcpSandboxControlFrame":         reflect.TypeFor[wire.SandboxControl](),
		"AcpAckFrame":                    reflect.TypeFor[wire.Ack](),
	}
}

func takenFrames() map[string]reflect.Type {
	return map[string]reflect.Type{
		"IngressHelloFrame":            reflect.TypeFor[channel.HelloFrame](),
		"IngressAgentInvokeFrame":      reflect.TypeFor[channel.TaskPrompt](),
		"IngressToolResultFrame":       reflect.TypeFor[channel.ToolResultFrame](),
		"IngressApprovalDecisionFrame": reflect.TypeFor[answer.NamedDecision](),
		"IngressCancelRunFrame":        reflect.TypeFor[struct{}](),
		"IngressReplayRunFrame":        reflect.TypeFor[channel.ReplayFrame](),

		"PermissionResponseFrame.data": reflect.TypeFor[permissionResponse](),

		"AcpRegisterAgentFrame":        reflect.TypeFor[wire.RegisterAgent](),
		"AcpHeartbeatFrame":            reflect.TypeFor[wire.Heartbeat](),
		"AcpOpenedFrame":               reflect.TypeFor[wire.Opened](),
		"AcpClosedFrame":               reflect.TypeFor[wire.Closed](),
		"AcpExitFrame":                 reflect.TypeFor[wire.Exit](),
		"AcpUpdateFrame":               reflect.TypeFor[wire.ACPUpdate](),
		"AcpProxyUpdateFrame":          reflect.TypeFor[wire.ProxyUpdate](),
		"AcpPromptResultFrame":         reflect.TypeFor[wire.PromptResult](),
		"AcpSessionControlResultFrame": reflect.TypeFor[wire.SessionControlResult](),
		"AcpSandboxControlResultFrame": reflect.TypeFor[wire.SandboxControlResult](),
		"AcpSandboxInventoryFrame":     reflect.TypeFor[wire.SandboxInventory](),
		"AcpWorkspaceInventoryFrame":   reflect.TypeFor[wire.WorkspaceInventory](),
		"AcpBranchCreatedFrame":        reflect.TypeFor[wire.BranchCreated](),

		"AcpTextSignal":                  reflect.TypeFor[wire.Text](),
		"AcpInitStepSignal":              reflect.TypeFor[wire.InitStep](),
		"AcpInitResultSignal":            reflect.TypeFor[wire.InitResult](),
		"AcpInstanceStatusSignal":        reflect.TypeFor[wire.InstanceStatus](),
		"AcpTransportConnectedSignal":    reflect.TypeFor[wire.TransportConnected](),
		"AcpTransportDisconnectedSignal": reflect.TypeFor[wire.TransportDisconnected](),
		"AcpPermissionRequestSignal":     reflect.TypeFor[wire.PermissionRequest](),
		"AcpPermissionCancelledSignal":   reflect.TypeFor[wire.PermissionCancelled](),
		"AcpAgentNotificationSignal":     reflect.TypeFor[wire.AgentNotification](),
		"AcpElicitationRequestSignal":    reflect.TypeFor[wire.ElicitationRequest](),
	}
}

// frameEnums are the values of the enums in the schemas of frames.
func frameEnums(all map[string][]string) map[string][]string {
	decided := slices.Clone(all["TracePayloads.approval_decision.status"])
	states := func(all ...store.TurnStatus) (out []string) {
		for _, s := range all {
			out = append(out, channel.WireState(s))
		}
		return out
	}
	return map[string][]string{
		"IngressAgentInvokeFrame.mode":          linksOf(),
		"IngressApprovalDecisionFrame.decision": ruleOf[answer.Decision]("decision"),
		"IngressStateFrame.state":               states(store.AllTurnStatuses()...),
		"IngressApprovalRequiredFrame.kind":     all["Approval.kind"], "IngressApprovalRequiredFrame.warnings": slices.Clone(all["Approval.warnings"]),
		"PermissionQuestion.kind": all["Approval.kind"], "PermissionQuestion.warnings": slices.Clone(all["Approval.warnings"]),
		"PermissionStatusFrame.data.state":           append(states(store.TurnQueued, store.TurnRunning, store.TurnPausedApproval, store.TurnPausedTool), stateIdle),
		"PermissionExecutionResultFrame.data.status": append(texts(store.ToolSucceeded, store.ToolFailed, store.ToolTimeout), string(store.ApprovalApproved)),
		"PermissionDeniedFrame.data.status":          append(without(decided, string(store.ApprovalApproved)), statusGone),
		"ClientApprovalOpenedFrame.kind":             all["Approval.kind"],
		"ClientApprovalSettledFrame.kind":            all["Approval.kind"], "ClientApprovalSettledFrame.status": decided,
		"AcpSessionPermissionFrame.outcome": {wire.OutcomeSelected, wire.OutcomeCancelled},
		"AcpSessionElicitationFrame.action": {wire.ElicitAccept, wire.ElicitDecline, wire.ElicitCancel},
		"AcpSandboxControlFrame.action":     ruleOf[sandboxBody]("action"),
	}
}

// linksOf are the links that an agent_invoke may name.
func linksOf() []string {
	mode, _ := reflect.TypeFor[channel.TaskPrompt]().FieldByName("Mode") // of a struct that is embedded
	_, list, _ := strings.Cut(mode.Tag.Get("validate"), "oneof=")
	return strings.Fields(list)
}

func without(all []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == one })
}

// isHead reports whether a member is one that frames have beside those of their Go type: it is read and written apart.
func isHead(member string) bool {
	return member == "seq" || membersOf(reflect.TypeFor[channel.Envelope]())[member].of != nil
}

// frame is the schema of a frame, or of a member of one, without what it has beside its Go type, and without what is required
// though the rules of the type do not have it.
func (d apiDoc) frame(t *testing.T, name string, typ reflect.Type) documented {
	t.Helper()
	name, member, _ := strings.Cut(name, ".")
	s := d.whole(d.Components.Schemas[name])
	if member != "" {
		s = d.whole(s.Properties[member])
	}
	if s.Properties == nil {
		t.Errorf("%s: there is no such schema", name)
	}
	members := membersOf(typ)
	s.Properties, s.Required = maps.Clone(s.Properties), slices.Clone(s.Required)
	apart := func(name string) bool { return members[name].of == nil && isHead(name) }
	maps.DeleteFunc(s.Properties, func(name string, _ documented) bool { return apart(name) })
	s.Required = slices.DeleteFunc(s.Required, func(one string) bool { return apart(one) || name == "PermissionResponseFrame" && one == "execution_id" })
	return s
}

// TestOpenAPIFrames: the members of each frame are those of the Go type that is read or written.
func TestOpenAPIFrames(t *testing.T) {
	t.Parallel()
	doc := readDoc(t)
	for name, typ := range sentFrames() {
		doc.compare(t, name, doc.frame(t, name, typ), typ)
	}
	for name, typ := range takenFrames() {
		doc.compare(t, "taken "+name, doc.frame(t, name, typ), typ) // as of a request
	}
	// One Go type has the members of all frames that channels are sent.
	all := documented{Properties: make(map[string]documented)}
	for i, ref := range doc.Components.Schemas["IngressOutFrame"].OneOf {
		s := doc.whole(ref)
		maps.Copy(all.Properties, s.Properties)
		if i == 0 {
			all.Required = slices.Clone(s.Required)
		}
		all.Required = slices.DeleteFunc(all.Required, func(name string) bool { return !slices.Contains(s.Required, name) })
	}
	doc.compare(t, "IngressOutFrame", all, reflect.TypeFor[channel.Message]())
	for _, ref := range doc.Components.Schemas["IngressInFrame"].OneOf {
		for name := range membersOf(reflect.TypeFor[channel.Envelope]()) {
			if s := doc.whole(ref); s.Properties[name].Type == nil && name != "type" {
				t.Errorf("%s has no %s", ref.Ref, name)
			}
		}
	}
}

// TestOpenAPIHints: the frames of /ws/client have the members that are documented, and no others.
func TestOpenAPIHints(t *testing.T) {
	t.Parallel()
	doc, at, raw := readDoc(t), time.UnixMilli(1), []byte(`{}`)
	whole := store.Approval{ID: "a", SessionID: "s", Kind: store.ApprovalInput, Status: store.ApprovalExpired, Tool: "t", Title: "t", Risk: "r"}
	for name, frames := range map[string][][]byte{
		"ClientPromptUpdateFrame":       {livefeed.PromptUpdate("r", "p", "s", raw)},
		"ClientEventAddedFrame":         {livefeed.EventAdded(livefeed.Event{ID: "e", RunID: "r", Source: "acp", Type: "t", Payload: raw, Timestamp: at})},
		"ClientInitStepFrame":           {livefeed.InitStep("r", raw)},
		"ClientThreadChangedFrame":      {livefeed.ThreadChanged(store.Session{ID: "r", ExternalID: "t", AgentID: "a", Title: "t", UpdatedAt: at}), livefeed.ThreadChanged(store.Session{ID: "r"})},
		"ClientApprovalOpenedFrame":     {livefeed.ApprovalChanged(store.ApprovalChange{Approval: whole, Thread: "t"})},
		"ClientApprovalSettledFrame":    {livefeed.ApprovalChanged(store.ApprovalChange{Approval: whole, Thread: "t", Settled: true})},
		"ClientWorkspaceInventoryFrame": {livefeed.WorkspaceInventory("p", "i", "t", []byte(`[]`))},
		"ClientSandboxInventoryFrame":   {livefeed.SandboxInventory("p", "i", "t", []byte(`[]`))},
	} {
		members := make(map[string]json.RawMessage)
		for _, frame := range frames {
			if err := json.Unmarshal(frame, &members); err != nil {
				t.Error(err)
			}
		}
		got, want := slices.Sorted(maps.Keys(members)), slices.Sorted(maps.Keys(doc.whole(doc.Components.Schemas[name]).Properties))
		if !slices.Equal(got, want) {
			t.Errorf("%s has %v, and is documented with %v", name, got, want)
		}
	}
}

// TestOpenAPIDiscriminators: each type names a schema that has it, and those of /ws/agent are the types' own; each schema of a union
// is named.
func TestOpenAPIDiscriminators(t *testing.T) {
	t.Parallel()
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				OneOf         []documented
				Discriminator struct{ Mapping map[string]string }
			}
		}
	}
	if err := json.Unmarshal(openapiJSON, &doc); err != nil {
		t.Fatal(err)
	}
	types, schemas := sentFrames(), readDoc(t)
	maps.Copy(types, takenFrames())
	for union, s := range doc.Components.Schemas {
		named := make(map[string]bool)
		for kind, ref := range s.Discriminator.Mapping {
			named[ref] = true
			name := strings.TrimPrefix(ref, "#/components/schemas/")
			if got := schemas.whole(schemas.Components.Schemas[name]).Properties["type"].Const; got != kind {
				t.Errorf("%s: %s names %s, whose type is %v", union, kind, name, got)
			}
			if typ := types[name]; typ != nil {
				switch f := reflect.New(typ).Interface().(type) {
				case wire.Frame:
					kind = strings.TrimPrefix(f.Type(), kind)
				case wire.Signal:
					kind = strings.TrimPrefix(f.Kind(), kind)
				default:
					continue
				}
				if kind != "" {
					t.Errorf("%s: %s is of another type", union, name)
				}
			}
		}
		for _, one := range s.OneOf {
			if len(named) > 0 && !named[one.Ref] {
				t.Errorf("%s: no type names %s", union, one.Ref)
			}
		}
	}
}

// TestOpenAPIFramesOfAgents: the frames and signals that the proxies and gateways of the contract send fit.
func TestOpenAPIFramesOfAgents(t *testing.T) {
	t.Parallel()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(openapiJSON))
	compiler := jsonschema.NewCompiler()
	if err == nil {
		err = compiler.AddResource("openapi.json", doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	for file, unions := range map[string][]string{"frames": {"AcpInFrame", "AcpOutFrame"}, "signals": {"AcpSignal"}} {
		lines, err := os.ReadFile("../acpgateway/wire/testdata/" + file + ".ndjson")
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(lines) {
			frame, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
			fits := slices.ContainsFunc(unions, func(union string) bool {
				return err == nil && compiler.MustCompile("openapi.json#/components/schemas/"+union).Validate(frame) == nil
			})
			if !fits {
				t.Errorf("it fits none of %v: %s", unions, line)
			}
		}
	}
}
