package agui_test

import (
	"encoding/json"
	"strings"
	"testing"

	"aqueduct/agui"
)

func TestFrame(t *testing.T) {
	t.Parallel()
	if got := string(agui.AppendFrame([]byte("x"), 7, []byte(`{"a":1}`))); got != "xid: 7\ndata: {\"a\":1}\n\n" {
		t.Errorf("%q", got)
	}
	if got := string(agui.AppendFrame(nil, 0, []byte(`{}`))); got != "data: {}\n\n" {
		t.Errorf("%q", got)
	}
}

func TestV1IsTheLog(t *testing.T) {
	t.Parallel()
	d := agui.NewV1()
	for _, forms := range wire() {
		for _, event := range forms {
			if got := string(d.AppendFrames(nil, 3, []byte(event))); got != "id: 3\ndata: "+event+"\n\n" {
				t.Errorf("%q", got)
			}
		}
	}
}

// TestV0 are the rows of the compatibility table that client 0.0.59 throws on.
func TestV0(t *testing.T) {
	t.Parallel()
	finish := func(rest string) string {
		return `{"type":"RUN_FINISHED","threadId":"t","runId":"r"` + rest + `}`
	}
	started := func(input string) string {
		return `{"type":"RUN_STARTED","threadId":"t","runId":"r","input":` + input + `}`
	}
	result := func(content string) string {
		return `{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":` + content + `,"role":"tool"}`
	}
	for name, c := range map[string][2]string{
		"outcome cancelled":    {finish(`,"outcome":{"type":"cancelled"}`), finish("")},
		"outcome unknown":      {finish(`,"outcome":{"type":"paused"}`), finish("")},
		"pendingToolCallIds":   {finish(`,"outcome":{"type":"success","pendingToolCallIds":["c"]}`), finish("")},
		"interrupt stays":      {finish(`,"outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"x"}]}`), finish(`,"outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"x"}]}`)},
		"result of text parts": {result(`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`), result(`"ab"`)},
		"result of media":      {result(`[{"type":"image","source":{"type":"url","value":"/u"}}]`), result(`"[{\"type\":\"image\",\"source\":{\"type\":\"url\",\"value\":\"/u\"}}]"`)},
		"input without lists":  {started(`{"threadId":"t","runId":"r","messages":[]}`), started(`{"threadId":"t","runId":"r","messages":[],"tools":[],"context":[]}`)},
		"messages with parts": {
			`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"t","role":"tool","content":[{"type":"text","text":"x"}],"toolCallId":"c"},{"id":"u","role":"user","content":[{"type":"text","text":"x"},{"type":"odd"},{"type":"image","source":{"type":"file","value":"h"}}]}]}`,
			`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"t","role":"tool","content":"x","toolCallId":"c"},{"id":"u","role":"user","content":[{"type":"text","text":"x"}]}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := string(agui.NewV0().AppendFrames(nil, 9, []byte(c[0]))); got != "id: 9\ndata: "+c[1]+"\n\n" {
				t.Errorf("got  %s\nwant %s", got, c[1])
			}
		})
	}
}

func TestV0LeavesTheRestAlone(t *testing.T) {
	t.Parallel()
	d := agui.NewV0()
	for typ, forms := range wire() {
		switch typ {
		case agui.TypeRunStarted, agui.TypeToolCallResult, agui.TypeMessagesSnapshot:
			continue
		}
		for _, event := range forms {
			if got := string(d.AppendFrames(nil, 0, []byte(event))); got != "data: "+event+"\n\n" {
				t.Errorf("%s became %s", event, got)
			}
		}
	}
	for _, odd := range []string{`{"type":"RUN_FINISHED","outcome":{`, `not json`} {
		if got := string(d.AppendFrames(nil, 0, []byte(odd))); got != "data: "+odd+"\n\n" {
			t.Errorf("%q", got)
		}
	}
}

func TestV0DoesNotAllocateForText(t *testing.T) {
	d := agui.NewV0()
	event := []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"d"}`)
	buf := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() { buf = d.AppendFrames(buf[:0], 1, event) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if !json.Valid(event) || !strings.HasSuffix(string(buf), "\n\n") {
		t.Error("not a frame")
	}
}
