package aguiagent

import (
	"strings"
	"testing"

	"aqueduct/bridge"
)

// TestS66AGUIAgent: an agent that speaks AG-UI sends no CUSTOM event and shows no tool under a name of the server's, streamed, in
// chunks or in a snapshot.
func TestS66AGUIAgent(t *testing.T) {
	t.Parallel()
	for what, events := range map[string][]string{
		"an event":        {`{"type":"CUSTOM","name":"acp.permission_declined","value":1}`},
		"another event":   {`{"type":"CUSTOM","name":"aqueduct.permission_declined","value":1}`},
		"a tool":          {`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"budget.extend"}`},
		"a chunk":         {`{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"aqueduct.run","delta":"{}"}`},
		"a snapshot":      {`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"aqueduct.run","arguments":"{}"}}]}]}`},
		"a later message": {`{"type":"TEXT_MESSAGE_START","messageId":"m"}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}`, `{"type":"TEXT_MESSAGE_END","messageId":"m"}`, `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","content":"x","toolCalls":[{"id":"c","type":"function","function":{"name":"aqueduct.run","arguments":"{}"}}]}]}`},
	} {
		tr := newTranslator(newNames("turn", "run"), "run", nil, nil)
		var out []bridge.Output
		for _, ev := range events {
			var err error
			if out, err = tr.Translate(out, []byte(ev)); err != nil {
				t.Fatal(err)
			}
		}
		text := ""
		for _, o := range out {
			if o.Event != nil {
				text += string(o.Event.AppendJSON(nil))
			}
			if o.Amended != nil && o.Amended.ToolCalls != nil {
				for _, c := range *o.Amended.ToolCalls {
					text += `"` + c.Function.Name + `"`
				}
			}
		}
		if !strings.Contains(text, `"agent.`) || strings.Contains(text, `"aqueduct.run"`) {
			t.Errorf("%s: %s", what, text)
		}
	}
}
