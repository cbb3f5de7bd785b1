package llmproxy

import (
	"io"
	"net/http"
	"net/http/httptest"
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
		i := final(routeResponses, []byte(events))
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

// TestUsageOfTools: a response begins with the tools and the form that the agent asked for, and so with what that calls "usage". An
// agent that leaves before the upstream's own count is not counted by it.
func TestUsageOfTools(t *testing.T) {
	t.Parallel()
	const tools = `"tools":[{"type":"function","parameters":{"properties":{"usage":{"input_tokens":1,"output_tokens":0}}}}]`
	const delta = `data: {"type":"response.output_text.delta","delta":"word "}` + "\n\n"
	const counted = `"usage":{"input_tokens":300,"output_tokens":200}`
	stream := func(events ...string) *meter {
		m := &meter{route: routeResponses, took: true, asked: 400}
		for _, e := range events {
			m.stream([]byte(e))
		}
		return m
	}
	plain := func(part string, over error) *meter {
		m := &meter{route: routeResponses, took: true, asked: 400}
		a := &answer{meter: m, to: io.Discard, rc: http.NewResponseController(httptest.NewRecorder()), end: func(error) {}}
		_ = a.take([]byte(part), over)
		return m
	}
	created := "event: response.created\n" + `data: {"type":"response.created","response":{` + tools + `,"usage":null}}` + "\n\n"
	for name, c := range map[string]struct {
		m         *meter
		input     int64
		estimated bool
	}{
		"a stream that is left":  {stream(created, delta, delta), 100, true},
		"a whole stream":         {stream(created, delta, `data: {"type":"response.completed","response":{`+tools+","+counted+`}}`+"\n\n"), 300, false},
		"another order":          {stream(created, delta, `data: {"type":"response.completed","response":{`+counted+","+tools+`}}`+"\n\n"), 300, false},
		"an answer that is left": {plain(`{"output":[],`+tools, nil), 100, true},
		"a whole answer":         {plain(`{"output":[],`+tools+","+counted+"}", io.EOF), 300, false},
	} {
		if got := c.m.tokens(); got.Input != c.input || got.Estimated != c.estimated {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
