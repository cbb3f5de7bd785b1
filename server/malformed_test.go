package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"aqueduct/bridge/httpagent"
)

// TestFrameThatCannotBeTakenIsNamed: the trace of a run that failed over a frame of its agent has the frame's position, type and
// member, and none of its values.
func TestFrameThatCannotBeTakenIsNamed(t *testing.T) {
	t.Parallel()
	const secret = "sk-frame-4711"
	tests := map[string]struct{ agent, script, want string }{
		"no id":       {"peer", aguiBegin + `{"type":"TOOL_CALL_RESULT","content":"` + secret + `"}`, `{"position":2,"type":"TOOL_CALL_RESULT","member":"/toolCallId","reason":"is required"}`},
		"wrong type":  {"peer", aguiBegin + `{"type":"TEXT_MESSAGE_CONTENT","messageId":{"x":"` + secret + `"},"delta":"x"}`, `{"position":2,"type":"TEXT_MESSAGE_CONTENT","member":"/messageId","reason":"must be a string"}`},
		"deep":        {"peer", `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant","content":"x"},{"id":"b","role":"` + secret + `"}]}`, `{"position":1,"type":"MESSAGES_SNAPSHOT","member":"/messages/1/role","reason":`},
		"order":       {"peer", aguiBegin + `{"type":"TEXT_MESSAGE_END","messageId":"` + secret + `"}`, `{"position":2,"type":"TEXT_MESSAGE_END","reason":"breaks rule not_open"}`},
		"not JSON":    {"peer", aguiBegin + `{"type":"TEXT`, `{"position":2,"reason":"not valid JSON"}`},
		"HTTP":        {"plain", "event: delta\ndata: {\"text\":\"x\"}\n\nevent: tool_result\ndata: {\"content\":\"" + secret + "\"}\n\n", `{"position":2,"type":"tool_result","member":"/id","reason":"id is missing"}`},
		"HTTP, type":  {"plain", "event: delta\ndata: {\"text\":{\"a\":\"" + secret + "\"}}\n\n", `{"position":1,"type":"delta","member":"/text","reason":"is of a wrong type"}`},
		"HTTP, words": {"plain", "event: delta\ndata: {\"text\n\n", `{"position":1,"type":"delta","reason":"not valid JSON"}`},
	}
	h, _ := withAGUIPeer(t, nil, func(_ int, in aguiInput) string {
		name, _ := in.Messages[0].Content.(string)
		return tests[name].script
	})
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			InputMessage struct{ Content string } `json:"input_message"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(tests[in.InputMessage.Content].script))
	}))
	t.Cleanup(plain.Close)
	cfg := atHome(t)
	cfg.ID, cfg.URL = "plain", plain.URL+"/agent"
	agent := httpagent.New(cfg)
	h.agents.Add("plain", agent)
	t.Cleanup(agent.Close)
	for name, test := range tests {
		thread := strings.NewReplacer(" ", "", ",", "").Replace(name)
		end := typed(h.open(h.request("POST", "/api/agui/chat?agent="+test.agent, inputBody(thread, "R"+thread, name))).rest(), "RUN_ERROR")
		if end.field("code") != "upstream_malformed" || strings.Contains(end.data, "position") {
			t.Errorf("%s ends with %s", name, end.data)
		}
		run := h.do("GET", "/api/threads/"+thread, "").body
		_, run, _ = strings.Cut(run, `"turnId":"`)
		run, _, _ = strings.Cut(run, `"`)
		trace := h.do("GET", "/v1/runs/"+run+"/events", "").body
		if !strings.Contains(trace, `"frame":`+test.want) || strings.Contains(trace, secret) {
			_, failed, _ := strings.Cut(trace, `"run_failed"`)
			t.Errorf("%s: the trace has %.400s", name, failed)
		}
	}
}

// TestTenStepsOfTDesignsPage: the whole stream of the example in TDesign's page about AG-UI, which leaves out the messageId of its
// results, is one Run that ends well, for every dialect.
func TestTenStepsOfTDesignsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../agui/testdata/travel/page.sse")
	if err != nil {
		t.Fatal(err)
	}
	h, _ := withAGUIPeer(t, nil, func(int, aguiInput) string { return strings.ReplaceAll(string(page), "data: ", "") })
	for dialect, want := range map[string]string{
		"tdesign":  "STATE_SNAPSHOT",
		"agui-1.0": "STATE_DELTA", "agui-0.x": "STATE_DELTA",
	} {
		run := h.open(h.request("POST", "/api/agui/chat?dialect="+dialect, inputBody("T-"+dialect, "R-"+dialect, "hi"))).rest()
		got := types(run)
		for _, part := range []string{"RUN_STARTED STATE_SNAPSHOT TEXT_MESSAGE_START", "TOOL_CALL_RESULT", want, "ACTIVITY_SNAPSHOT ACTIVITY_DELTA TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END TOOL_CALL_RESULT TEXT_MESSAGE_START", "RUN_FINISHED"} {
			if !strings.Contains(got, part) {
				t.Errorf("%s: the run is %s, without %s", dialect, got, part)
			}
		}
		if strings.Count(got, "RUN_") != 2 {
			t.Errorf("%s: %s", dialect, got)
		}
		results := 0
		for _, f := range run {
			if f.field("type") == "TOOL_CALL_RESULT" {
				if results++; f.field("messageId") == "" {
					t.Errorf("%s: a result without an id: %s", dialect, f.data)
				}
			}
		}
		transcript := transcriptOf(t, h, "T-"+dialect)
		ids := make(map[string]bool)
		for _, m := range transcript {
			ids[m.ID] = true
		}
		if results != 2 || len(ids) != len(transcript) {
			t.Errorf("%s: %d results, and the history is %+v", dialect, results, transcript)
		}
	}
}

// TestThinkingTitleReachesTDesign: the title of the retired THINKING_START, which REASONING_START has not, is on the page.
func TestThinkingTitleReachesTDesign(t *testing.T) {
	t.Parallel()
	h, _ := withAGUIPeer(t, nil, func(int, aguiInput) string {
		return aguiBegin + `
{"type":"THINKING_START","title":"正在思考"}
{"type":"THINKING_TEXT_MESSAGE_START"}
{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"hm"}
{"type":"THINKING_TEXT_MESSAGE_END"}
{"type":"THINKING_END"}
{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"done"}` + aguiEnd
	})
	run := h.open(h.request("POST", "/api/agui/chat", `{"threadId":"T","prompt":"hi"}`)).rest()
	if title := typed(run, "THINKING_START").field("title"); title != "正在思考" {
		t.Errorf("the title is %q: %s", title, typed(run, "THINKING_START").data)
	}
}
