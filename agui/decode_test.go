package agui_test

import (
	"errors"
	"strings"
	"testing"

	"aqueduct/agui"
)

func TestDecodeIsTolerant(t *testing.T) {
	t.Parallel()
	for name, c := range map[string][2]string{
		"null is absent":         {`{"type":"TEXT_MESSAGE_START","messageId":"m","role":null,"name":null,"timestamp":null,"metadata":null,"rawEvent":null,"subagentRunId":null}`, `{"type":"TEXT_MESSAGE_START","messageId":"m"}`},
		"unknown outcome":        {`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"paused","until":1}}`, `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`},
		"null outcome":           {`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":null,"result":null,"usage":null}`, `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`},
		"unknown member":         {`{"type":"TOOL_CALL_END","toolCallId":"c","vendor":{"x":[1,{"y":"}"}]}}`, `{"type":"TOOL_CALL_END","toolCallId":"c"}`},
		"type last":              {` { "toolCallId" : "c" , "type" : "TOOL_CALL_END" } `, `{"type":"TOOL_CALL_END","toolCallId":"c"}`},
		"float timestamp":        {`{"type":"RUN_ERROR","message":"m","timestamp":1700000000000.6}`, `{"type":"RUN_ERROR","message":"m","timestamp":1700000000001}`},
		"exponent timestamp":     {`{"type":"RUN_ERROR","message":"m","timestamp":1.7e12}`, `{"type":"RUN_ERROR","message":"m","timestamp":1700000000000}`},
		"custom without value":   {`{"type":"CUSTOM","name":"n"}`, `{"type":"CUSTOM","name":"n","value":null}`},
		"role missing":           {`{"type":"REASONING_MESSAGE_START","messageId":"m"}`, `{"type":"REASONING_MESSAGE_START","messageId":"m","role":"reasoning"}`},
		"ids missing":            {`{"type":"RUN_STARTED"}`, `{"type":"RUN_STARTED","threadId":"","runId":""}`},
		"THINKING_START":         {`{"type":"THINKING_START","title":"hm"}`, `{"type":"REASONING_START","messageId":""}`},
		"THINKING_END":           {`{"type":"THINKING_END"}`, `{"type":"REASONING_END","messageId":""}`},
		"THINKING start":         {`{"type":"THINKING_TEXT_MESSAGE_START"}`, `{"type":"REASONING_MESSAGE_START","messageId":"","role":"reasoning"}`},
		"THINKING content":       {`{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"d"}`, `{"type":"REASONING_MESSAGE_CONTENT","messageId":"","delta":"d"}`},
		"THINKING end":           {`{"type":"THINKING_TEXT_MESSAGE_END"}`, `{"type":"REASONING_MESSAGE_END","messageId":""}`},
		"lone surrogate":         {`{"type":"RUN_ERROR","message":"\ud800x"}`, "{\"type\":\"RUN_ERROR\",\"message\":\"\uFFFDx\"}"},
		"invalid UTF-8":          {"{\"type\":\"RUN_ERROR\",\"message\":\"a\xffb\"}", "{\"type\":\"RUN_ERROR\",\"message\":\"a\uFFFDb\"}"},
		"invalid UTF-8 in JSON":  {"{\"type\":\"CUSTOM\",\"name\":\"n\",\"value\":\"a\xffb\"}", "{\"type\":\"CUSTOM\",\"name\":\"n\",\"value\":\"a\uFFFDb\"}"},
		"escaped key":            {`{"\u0074ype":"CUSTOM","n\u0061me":"n","value":1}`, `{"type":"CUSTOM","name":"n","value":1}`},
		"assistant content null": {`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant","content":null}]}`, `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant"}]}`},
		"usage rounded":          {`{"type":"RUN_ERROR","message":"","usage":[{"inputTokens":1.0,"outputTokens":null}]}`, `{"type":"RUN_ERROR","message":"","usage":[{"inputTokens":1}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev, err := agui.Decode([]byte(c[0]))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(ev.AppendJSON(nil)); got != c[1] {
				t.Errorf("got  %s\nwant %s", got, c[1])
			}
		})
	}
}

func TestDecodeErrorPaths(t *testing.T) {
	t.Parallel()
	for in, path := range map[string]string{
		``:                              "",
		`{`:                             "",
		`[]`:                            "",
		`7`:                             "",
		`{}`:                            "/type",
		`{"type":7}`:                    "/type",
		`{"type":"TEXT_MESSAGE_START"}`: "/messageId",
		`{"type":"TEXT_MESSAGE_START","messageId":7}`:                                                                   "/messageId",
		`{"type":"TEXT_MESSAGE_START","messageId":"m","role":"tool"}`:                                                   "/role",
		`{"type":"TOOL_CALL_START","toolCallId":"c"}`:                                                                   "/toolCallName",
		`{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":{}}`:                                     "/content",
		`{"type":"RUN_ERROR","message":"m","timestamp":"now"}`:                                                          "/timestamp",
		`{"type":"RUN_ERROR","message":"m","timestamp":1e300}`:                                                          "/timestamp",
		`{"type":"RUN_ERROR","message":"m","metadata":[]}`:                                                              "/metadata",
		`{"type":"RUN_ERROR","message":"m","usage":[{"inputTokens":-1}]}`:                                               "/usage/0/inputTokens",
		`{"type":"STATE_DELTA","delta":{}}`:                                                                             "/delta",
		`{"type":"STATE_SNAPSHOT"}`:                                                                                     "/snapshot",
		`{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"a","content":[]}`:                                  "/content",
		`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"user","content":"x"},{"role":"user","content":""}]}`: "/messages/1/id",
		`{"type":"RUN_FINISHED","outcome":[{"type":"success"}]}`:                                                        "/outcome",
		`{"type":"RUN_FINISHED","outcome":{}}`:                                                                          "/outcome/type",
		`{"type":"REASONING_MESSAGE_START","messageId":"m","role":"assistant"}`:                                         "/role",
		`{"type":"RUN_FINISHED","outcome":"done"}`:                                                                      "/outcome",
		`{"type":"RUN_STARTED","input":{"resume":[{"interruptId":"i","status":"ok"}]}}`:                                 "/input/resume/0/status",
	} {
		_, err := agui.Decode([]byte(in))
		var bad *agui.InputError
		if !errors.As(err, &bad) || bad.Path != path {
			t.Errorf("Decode(%s) = %v, want path %q", in, err, path)
		}
	}
	_, err := agui.Decode([]byte(`{"type":"RUN_CANCELLED"}`))
	var unknown *agui.UnknownTypeError
	if !errors.As(err, &unknown) || unknown.Type != "RUN_CANCELLED" || !strings.Contains(err.Error(), "RUN_CANCELLED") {
		t.Errorf("unknown type: %v", err)
	}
}

// FuzzDecode: what decodes encodes to one line that decodes to the same.
func FuzzDecode(f *testing.F) {
	for _, forms := range wire() {
		f.Add([]byte(forms[0]))
		f.Add([]byte(forms[1]))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		ev, err := agui.Decode(in)
		if err != nil {
			return
		}
		once := ev.AppendJSON(nil)
		if strings.ContainsAny(string(once), "\r\n") {
			t.Fatalf("more than a line: %q", once)
		}
		if agui.TypeOf(once) != ev.EventType() {
			t.Fatalf("type not first: %s", once)
		}
		again, err := agui.Decode(once)
		if err != nil {
			if strings.Contains(string(in), "THINKING") {
				return // its ids come from Admit
			}
			t.Fatalf("%s: %v", once, err)
		}
		if twice := again.AppendJSON(nil); string(twice) != string(once) {
			t.Fatalf("not stable:\n%s\n%s", once, twice)
		}
	})
}
