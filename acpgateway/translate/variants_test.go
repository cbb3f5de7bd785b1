package translate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"aqueduct/acpgateway/translate"
	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
)

// outline is what a translation gave, one word each: event types, names of CUSTOM events
// and steps, paths of state patches.
func outline(t testing.TB, outs []translate.Out) string {
	t.Helper()
	var words []string
	for _, o := range outs {
		switch e := o.Event.(type) {
		case nil:
			words = append(words, strings.Fields(describe(o))[0])
		case *agui.Custom:
			words = append(words, e.Name)
		case *agui.StepStarted:
			words = append(words, "start("+e.StepName+")")
		case *agui.StepFinished:
			words = append(words, "finish("+e.StepName+")")
		case *agui.StateDelta:
			var ops []struct{ Op, Path string }
			if err := json.Unmarshal(e.Delta, &ops); err != nil {
				t.Fatal(err)
			}
			for _, o := range ops {
				words = append(words, o.Op+o.Path)
			}
		default:
			words = append(words, string(e.EventType()))
		}
	}
	return strings.Join(words, " ")
}

// TestEveryVariant names what each variant of session/update becomes.
func TestEveryVariant(t *testing.T) {
	t.Parallel()
	const spoken = "TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT"
	cases := map[string][]struct{ update, want string }{
		wire.UserMessageChunk: {{`"content":{"type":"text","text":"hi"}`, ""}},
		wire.AgentMessageChunk: {
			{`"content":{"type":"text","text":"hi"}`, spoken},
			{`"messageId":7,"content":{"type":"text","text":"hi"}`, spoken},
			{`"content":{"type":"text","text":""}`, ""},
			{`"content":{"type":"image","data":"QQ==","mimeType":"image/png"}`, "acp.content"},
			{`"content":{"type":"resource_link","uri":"file:///a","name":"a"}`, "acp.content"},
			{`"content":{"type":"hologram"}`, "acp.content"},
			{`"content":"bare"`, "acp.content"},
		},
		wire.AgentThoughtChunk: {{`"content":{"type":"text","text":"hm"}`, "REASONING_START REASONING_MESSAGE_START REASONING_MESSAGE_CONTENT"}},
		wire.ToolCallNew: {
			{`"toolCallId":"c","title":"t","rawInput":{}`, "TOOL_CALL_START ACTIVITY_SNAPSHOT"},
			{`"toolCallId":"c","status":"in_progress","rawInput":{"a":1}`, "TOOL_CALL_START ACTIVITY_SNAPSHOT"},
			{`"title":"without an id"`, "acp.tool_call"},
		},
		wire.ToolCallUpdate: {
			{`"toolCallId":"c","status":"failed"`, "TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END ACTIVITY_SNAPSHOT TOOL_CALL_RESULT"},
		},
		wire.PlanWhole: {{`"entries":[{"content":"a"}]`, "ACTIVITY_SNAPSHOT add/acp"}, {`"entries":"none"`, "ACTIVITY_SNAPSHOT add/acp"}},
		wire.PlanUpdate: {
			{`"plan":{"type":"items","planId":"p","entries":[{"content":"a"}]}`, "ACTIVITY_SNAPSHOT add/acp"},
			{`"plan":{"type":"markdown","planId":"p","content":"# a"}`, "acp.plan_update"},
		},
		wire.PlanRemoved:            {{`"planId":"p"`, "ACTIVITY_SNAPSHOT add/acp"}},
		wire.AvailableCommands:      {{`"availableCommands":[]`, "add/acp"}, {`"availableCommands":7`, "acp.available_commands_update"}},
		wire.CurrentMode:            {{`"currentModeId":"plan"`, "add/acp"}, {`"modeId":"plan"`, "add/acp"}},
		wire.ConfigOptions:          {{`"configOptions":[{"id":"mode","currentValue":"auto"}]`, "add/acp"}},
		wire.SessionInfo:            {{`"title":"t"`, "add/acp"}, {`"title":null`, "add/acp"}},
		wire.Usage:                  {{`"used":1,"size":2`, "add/acp"}},
		wire.Notice:                 {{`"severity":"info","title":"n"`, "acp.notice"}},
		wire.CompactionUpdate:       {{`"compactionId":"k","status":"in_progress"`, "acp.compaction_update"}},
		wire.CompactionSummaryChunk: {{`"compactionId":"k","content":{"type":"text","text":"s"}`, "acp.compaction_summary_chunk"}},
		wire.SubagentUpdate:         {{`"subagentId":"a"`, "acp.subagent_update"}},
		wire.SessionMessage:         {{`"message":{}`, "acp.session_message"}},
		wire.SessionMessageChunk:    {{`"message":{}`, "acp.session_message_chunk"}},
		wire.SessionCreated:         {{`"content":{"type":"session_created","sessionId":"s"}`, "add/acp"}, {`"content":{"type":"session_created"}`, ""}},
		wire.SessionState:           {{`"content":{"type":"session_state","inFlight":1,"currentModeId":"m"}`, "add/acp"}},
		"state_update":              {{`"state":"idle"`, "acp.state_update"}}, // of ACP 2
		"":                          {{`"x":1`, "acp.update"}},
	}
	for _, variant := range wire.Variants() {
		if len(cases[variant]) == 0 {
			t.Errorf("%s is not in the table", variant)
		}
	}
	for variant, list := range cases {
		for _, c := range list {
			update := `{"sessionUpdate":"` + variant + `",` + c.update + `}`
			tr := translate.New(translate.Config{Namespace: "n"})
			if got := outline(t, tr.Update(nil, json.RawMessage(update))); got != c.want {
				t.Errorf("%s\ngot  %s\nwant %s", update, got, c.want)
			}
		}
	}
}

// TestEveryProxyUpdate names what each type of proxy_update becomes.
func TestEveryProxyUpdate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ content, want string }{
		{`{"type":"text","text":"[init] cloning"}`, "proxy.text"},
		{`{"type":"text","text":"[agent:stderr] log"}`, ""},
		{`{"type":"text","text":""}`, ""},
		{`{"type":"init_step","stage":"clone","status":"started"}`, "start(init:clone)"},
		{`{"type":"init_step","stage":"clone","status":"done"}`, "start(init:clone) finish(init:clone)"},
		{`{"type":"init_step","stage":"clone","status":"failed","message":"no network"}`, "start(init:clone) proxy.init_step finish(init:clone)"},
		{`{"type":"init_result","ok":true,"exitCode":0}`, "add/acp"},
		{`{"type":"sandbox_instance_status","instance_name":"i","provider":"p","runtime":null,"status":"running","last_seen_at":"x","last_error":null}`, "add/acp"},
		{`{"type":"transport_connected","instance_name":"i","at":"x"}`, "add/acp"},
		{`{"type":"transport_disconnected","instance_name":"i","code":null,"signal":"SIGKILL","at":"x","reason":"agent_exit"}`, "add/acp"},
		{`{"type":"permission_request","request_id":"1","tool_call":{"toolCallId":"c"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}`,
			"TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END ACTIVITY_SNAPSHOT ?"},
		{`{"type":"permission_cancelled","request_id":"1","session_id":"s"}`, "-"},
		{`{"type":"agent_notification","method":"_auth/status_update","params":{}}`, "proxy.agent_notification"},
		{`{"type":"session_update","update":{"sessionUpdate":"notice"}}`, "acp.notice"},
		{`{"type":"weather","sun":true}`, "proxy.weather"},
		{`{"type":"init_step","stage":7}`, "proxy.init_step"}, // of a wrong type: kept, not lost
		{`7`, "proxy.update"},
	} {
		tr := translate.New(translate.Config{Namespace: "n"})
		if got := outline(t, tr.ProxyUpdate(nil, json.RawMessage(c.content))); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.content, got, c.want)
		}
	}
}
