package translate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"aqueduct/acpgateway/translate"
	"aqueduct/agui"
)

// TestSessionStateBecomesState: a proxy's view of the session has the modes that only
// session/new's answer named.
func TestSessionStateBecomesState(t *testing.T) {
	t.Parallel()
	tr := translate.New(translate.Config{})
	outs := tr.Update(nil, json.RawMessage(`{"sessionUpdate":"session_state","content":{"type":"session_state","currentModeId":"ask","modes":{"currentModeId":"ask","availableModes":[]},"models":{"currentModelId":"m"}}}`))
	got := string(outs[0].Event.(*agui.StateDelta).Delta)
	for _, want := range []string{`"modes":{"currentModeId":"ask","availableModes":[]}`, `"models":{"currentModelId":"m"}`, `"modeId":"ask"`, `"modelId":"m"`} {
		if len(outs) != 1 || !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
}

// TestTerminalOutputOfAResultIsItsEnd: what a result keeps of it is bounded.
func TestTerminalOutputOfAResultIsItsEnd(t *testing.T) {
	t.Parallel()
	j, tr := newJudge(t), translate.New(translate.Config{})
	j.begin()
	data := strings.Repeat("ä", 40<<10)
	for range 4 {
		j.outs(feed(tr, call("c", `,"kind":"execute","_meta":{"terminal_output":{"terminal_id":"x","data":"`+data+`"}}`)))
	}
	outs := feed(tr, call("c", `,"status":"completed"`))
	j.outs(outs)
	text := outs[len(outs)-1].Event.(*agui.ToolCallResult).Content.Text
	if len(text) > 64<<10 || !strings.HasSuffix(data, text) {
		t.Errorf("%d bytes", len(text))
	}
	for i := range 100 {
		j.outs(feed(tr, call("d", fmt.Sprintf(`,"_meta":{"terminal_info":{"terminal_id":"%d"}}`, i))))
	}
	j.finish()
}

// TestDeepRawValues: deeper than any client reads is left out.
func TestDeepRawValues(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	outs := feed(translate.New(translate.Config{}), `{"sessionUpdate":"notice","deep":`+deep+`}`)
	if value := string(outs[0].Event.(*agui.Custom).Value); !strings.Contains(value, `"(too deep)"`) || strings.Count(value, "[") > 40 {
		t.Error(value)
	}
}

// TestManyPieces: the list of what a call shows is bounded too.
func TestManyPieces(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`{"type":"diff","path":"p","newText":"x"},`, 99) + `{"type":"diff"}`
	outs := feed(translate.New(translate.Config{}), call("c", `,"content":[`+many+`]`))
	if content := string(outs[1].Event.(*agui.ActivitySnapshot).Content); strings.Count(content, `"diff"`) != 64 || !strings.Contains(content, `{"type":"cut"}`) {
		t.Error(content)
	}
}

// TestArgumentsAreAnObject: whatever an agent gives.
func TestArgumentsAreAnObject(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{`"ls"`: `{"input":"ls"}`, `["a"]`: `{"input":["a"]}`, `{ "a": 1 }`: `{"a":1}`, `{}`: `{}`, `""`: `{}`, `null`: `{}`} {
		outs := feed(translate.New(translate.Config{}), call("c", `,"status":"completed","rawInput":`+in))
		if got := outs[1].Event.(*agui.ToolCallArgs).Delta; got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}

// TestContentKeepsItsMessage: an image within a message names it.
func TestContentKeepsItsMessage(t *testing.T) {
	t.Parallel()
	outs := feed(translate.New(translate.Config{}),
		`{"sessionUpdate":"agent_message_chunk","messageId":"UP","content":{"type":"text","text":"see"}}`,
		`{"sessionUpdate":"agent_message_chunk","messageId":"UP","content":{"type":"image","data":"QQ==","mimeType":"image/png"}}`)
	id := outs[0].Event.(*agui.TextMessageStart).MessageID
	want := `{"role":"assistant","messageId":"` + id + `","content":{"type":"image","data":"QQ==","mimeType":"image/png"}}`
	if got := string(outs[2].Event.(*agui.Custom).Value); got != want {
		t.Error(got)
	}
}

// TestInitStepsEnd: with the script, whatever they say of themselves.
func TestInitStepsEnd(t *testing.T) {
	t.Parallel()
	tr := translate.New(translate.Config{})
	var outs []translate.Out
	for _, s := range []string{`{"type":"init_step","stage":"a","status":"running"}`, `{"type":"init_step","stage":"a","status":"running"}`, `{"type":"init_result","ok":true}`} {
		outs = tr.ProxyUpdate(outs, json.RawMessage(s))
	}
	if got := outline(t, outs); got != "start(init:a) finish(init:a) add/acp" {
		t.Error(got)
	}
}
