package wire_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"aqueduct/acpgateway/wire"
)

// TestWrongTypesLoseOnlyThemselves: one bad member, and the others are still read.
func TestWrongTypesLoseOnlyThemselves(t *testing.T) {
	t.Parallel()
	u := wire.ReadUpdate(json.RawMessage(`{"sessionUpdate":"tool_call","toolCallId":"c","title":7,"kind":null,"status":["x"],"name":"n",
		"content":[1,{"type":"diff","path":"p","oldText":3,"newText":"b"},{"type":"content","content":"no"}],
		"locations":[{"path":"q","line":"one"},"no",{"path":"r","line":2}],"rawInput":null,"rawOutput":[1],"_meta":"no"}`))
	c := u.ToolCall()
	line := int64(2)
	if c.ID != "c" || c.Title != "" || c.Kind != "" || c.Status != "" || c.Name != "n" || c.RawInput != nil || string(c.RawOutput) != "[1]" {
		t.Errorf("%+v", c)
	}
	if want := []wire.Location{{Path: "q"}, {Path: "r", Line: &line}}; !reflect.DeepEqual(c.Locations, want) {
		t.Errorf("locations %+v", c.Locations)
	}
	if len(c.Content) != 2 || c.Content[0].Path != "p" || c.Content[0].OldText != nil || c.Content[0].NewText != "b" {
		t.Errorf("content %+v", c.Content)
	}
}

// TestMergeAbsentIsUnchangedListsReplace: ACP, "Updating" of tool calls.
func TestMergeAbsentIsUnchangedListsReplace(t *testing.T) {
	t.Parallel()
	read := func(s string) wire.ToolCall { return wire.ReadToolCall(json.RawMessage(s)) }
	c := read(`{"toolCallId":"c","title":"a","kind":"edit","status":"pending","locations":[{"path":"p"}],"content":[{"type":"terminal","terminalId":"t"}],"rawInput":{"x":1}}`)
	c.Merge(read(`{"toolCallId":"c","title":null,"status":"completed","locations":[],"rawInput":{},"rawOutput":"o"}`))
	if c.Title != "a" || c.Kind != "edit" || c.Status != "completed" || len(c.Locations) != 0 || len(c.Content) != 1 ||
		string(c.RawInput) != `{"x":1}` || string(c.RawOutput) != `"o"` {
		t.Errorf("%+v", c)
	}
}

func TestUpdateThatIsNoObject(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{``, `null`, `7`, `"x"`, `[]`, `{"sessionUpdate":3}`, `{"sessionUpdate":`} {
		u := wire.ReadUpdate(json.RawMessage(raw))
		if u.Variant != "" || string(u.Raw) != raw {
			t.Errorf("%q: %+v", raw, u)
		}
		if c := u.ToolCall(); c.ID != "" {
			t.Errorf("%q: %+v", raw, c)
		}
		u.Plan()
		u.Session()
	}
}

func TestSessionView(t *testing.T) {
	t.Parallel()
	read := func(s string) wire.SessionView { return wire.ReadSession(json.RawMessage(s)) }
	v := read(`{"modes":{"currentModeId":"plan"},"models":{"currentModelId":"m"},"configOptions":[7,{"id":"a","category":"mode","currentValue":"auto"},{"id":"model","currentValue":true}]}`)
	if v.ModeID != "auto" || v.ModelID != "m" || len(v.Settings.List) != 2 {
		t.Errorf("%+v", v)
	}
	for in, want := range map[string]string{`{"modeId":"x"}`: "x", `{"currentModeId":"y","modeId":"x"}`: "y", `{"modeId":1}`: ""} {
		if got := read(in).ModeID; got != want {
			t.Errorf("%s: %q", in, got)
		}
	}
	v = read(`{"title":null,"used":"many","size":5,"cost":3}`)
	if v.Title == nil || *v.Title != "" || v.UpdatedAt != nil || v.Used != nil || string(v.Size) != "5" || v.Cost != nil {
		t.Errorf("%+v", v)
	}
}

func TestPermissionInBothForms(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{"request_id":4,"session_id":"s","tool_call":{"toolCallId":"c"},"options":[{"optionId":"o","name":"n","kind":"allow_once"},{"name":"no id"},3]}`,
		`{"request_id":"4","sessionId":"s","toolCall":{"toolCallId":"c"},"options":[{"optionId":"o","name":"n","kind":"allow_once"}]}`,
	} {
		p := wire.ReadPermission(json.RawMessage(raw))
		if p.RequestID.String() != "4" || p.SessionID != "s" || p.ToolCall.ID != "c" || len(p.Options) != 1 || p.Options[0].ID != "o" {
			t.Errorf("%s: %+v", raw, p)
		}
	}
	if p := wire.ReadPermission(json.RawMessage(`[]`)); p.RequestID != "" {
		t.Errorf("%+v", p)
	}
}

// TestToolNameInMeta: _meta.toolName, or under a vendor's key; name wins.
func TestToolNameInMeta(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"_meta":{"claudeCode":{"toolName":"Write"}}}`:              "Write",
		`{"_meta":{"toolName":"Read","z":{"toolName":"Write"}}}`:     "Read",
		`{"name":"n","_meta":{"toolName":"Read"}}`:                   "n",
		`{"_meta":{"b":{"toolName":"B"},"a":{"toolName":"A"}}}`:      "A",
		`{"_meta":{"a":{"toolName":4},"b":7,"c":{"other":"thing"}}}`: "",
	} {
		if got := wire.ReadToolCall(json.RawMessage(raw)).Name; got != want {
			t.Errorf("%s: %q", raw, got)
		}
	}
}

func TestBlocksAsAPromptWantsThem(t *testing.T) {
	t.Parallel()
	for want, b := range map[string]wire.Block{
		`{"type":"text","text":""}`:                             {Type: wire.BlockText},
		`{"type":"image","data":"QQ==","mimeType":"image/png"}`: {Type: wire.BlockImage, Data: "QQ==", MimeType: "image/png"},
		`{"type":"resource","resource":{"uri":"u","text":"t"}}`: {Type: wire.BlockResource, Resource: &wire.Resource{URI: "u", Text: "t"}},
	} {
		got, err := json.Marshal(b)
		if err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
		var back wire.Block
		if err := json.Unmarshal(got, &back); err != nil || back.Type != b.Type || back.Words() != b.Words() || back.Data != b.Data {
			t.Errorf("%s reads as %+v, %v", got, back, err)
		}
	}
}
