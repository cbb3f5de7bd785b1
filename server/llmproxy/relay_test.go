package llmproxy

import (
	"strings"
	"testing"
)

// TestFinal: only the event that ends an answer is taken for it. An agent can have the words for it sent back to it, in a
// text, in the tools that it declared, behind another field; a call that ended with them would not be counted further.
func TestFinal(t *testing.T) {
	t.Parallel()
	const delta = `data: {"choices":[{"delta":{"content":"x"}}]}`
	for events, want := range map[string]string{
		delta + "\n\ndata: [DONE]\n\n":                                            "data: [DONE]\n\n",
		delta + "\r\n\r\ndata: [DONE]\r\n\r\n":                                    "data: [DONE]\r\n\r\n",
		"data:[DONE]\n\n: bye\n\n":                                                "data:[DONE]\n\n: bye\n\n",
		delta + "\n\ndata: [DONE]":                                                "data: [DONE]",
		delta + "\n\n":                                                            "",
		`data: {"choices":[{"delta":{"content":"[DONE]"}}]}` + "\n\n":             "",
		`data: {"choices":[{"delta":{"content":"\ndata: [DONE]\n\n"}}]}` + "\n\n": "",
		": data: [DONE]\n\n":                                                      "",
		`data: {"type":"response.created","tools":[{"enum":["response.completed"]}]}` + "\n\n":    "",
		`data: {"type":"x"}` + "\n\nevent: y\n" + `data: {"type": "response.completed"}` + "\n\n": "event: y\n" + `data: {"type": "response.completed"}` + "\n\n",
		`data: {"type":"response.incomplete","response":{}}` + "\n\n":                             `data: {"type":"response.incomplete","response":{}}` + "\n\n",
		"": "",
	} {
		i := final([]byte(events))
		if got := events[i:]; got != want {
			t.Errorf("%q ends with %q, want %q", events, got, want)
		}
	}
}

// TestPlainEnd: what is held back of an answer that is no stream is what makes it whole, and no more.
func TestPlainEnd(t *testing.T) {
	t.Parallel()
	a := &answer{meter: &meter{}}
	got := ""
	for _, step := range []struct{ part, held string }{
		{"  ", ""}, {`{"a":1`, "1"}, {"}", "}"}, {"\n", "}\n"}, {" \n", "}\n \n"}, {strings.Repeat(" ", readBytes), ""}, {"x", "x"},
	} {
		got += string(a.plain([]byte(step.part)))
		if string(a.held) != step.held {
			t.Errorf("behind %.10q %q is held", step.part, a.held)
		}
	}
	if want := "  {\"a\":1}\n \n" + strings.Repeat(" ", readBytes); got != want {
		t.Errorf("%q passed", got)
	}
}
