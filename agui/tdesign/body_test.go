package tdesign_test

import (
	"errors"
	"reflect"
	"testing"

	"aqueduct/agui"
	"aqueduct/agui/tdesign"
)

func TestBodies(t *testing.T) {
	t.Parallel()
	answer := func(id, name, result string) *tdesign.Answer {
		return &tdesign.Answer{ToolCallID: id, ToolCallName: name, Result: []byte(result)}
	}
	for name, c := range map[string]struct {
		body string
		want tdesign.Body
	}{
		"no onRequest":     {"", tdesign.Body{}},
		"spaces":           {" \n", tdesign.Body{}},
		"basic example":    {`{"uid":"agent_uid","prompt":"hi"}`, tdesign.Body{Prompt: "hi", HasPrompt: true}},
		"whole params":     {`{"prompt":"ok","messageID":"msg_1795257121654_83000"}`, tdesign.Body{Prompt: "ok", HasPrompt: true}},
		"threads":          {`{"prompt":"ok","threadId":"T","runId":"R"}`, tdesign.Body{Prompt: "ok", HasPrompt: true, ThreadID: "T", RunID: "R"}},
		"null prompt":      {`{"prompt":null,"threadId":null,"toolCallMessage":null}`, tdesign.Body{}},
		"of the tool call": {`{"uid":"u","toolCallMessage":{"eventType":"TOOL_CALL_END","toolCallId":"tc","toolCallName":"request_permission","parentMessageId":"m","args":"{}","result":"{\"optionId\":\"allow_once\"}"}}`, tdesign.Body{Answer: answer("tc", "request_permission", `{"optionId":"allow_once"}`)}},
		"regenerated":      {`{"prompt":"","toolCallMessage":{"toolCallId":"tc","result":"\"no\""}}`, tdesign.Body{HasPrompt: true, Answer: answer("tc", "", `"no"`)}},
		"without an id":    {`{"toolCallMessage":{"result":"{\"choice\":\"No\"}"}}`, tdesign.Body{Answer: answer("", "", `{"choice":"No"}`)}},
		"a bare string":    {`{"toolCallMessage":{"toolCallId":"tc","result":"allow_once"}}`, tdesign.Body{Answer: answer("tc", "", `"allow_once"`)}},
		"an object":        {`{"toolCallMessage":{"toolCallId":"tc","result":{"approved":true}}}`, tdesign.Body{Answer: answer("tc", "", `{"approved":true}`)}},
		"no result":        {`{"toolCallMessage":{"toolCallId":"tc","result":null}}`, tdesign.Body{Answer: answer("tc", "", "")}},
		"forwarded":        {`{"threadId":"T","messages":[],"forwardedProps":{"toolCallMessage":{"toolCallId":"tc","result":"1"}}}`, tdesign.Body{ThreadID: "T", Answer: answer("tc", "", `1`)}},
		"both":             {`{"toolCallMessage":{"toolCallId":"a"},"forwardedProps":{"toolCallMessage":{"toolCallId":"b"}}}`, tdesign.Body{Answer: answer("a", "", "")}},
		"files": {`{"prompt":"see","attachments":[{"fileType":"image","name":"a.png","url":"/v1/context/k","size":7},{"fileType":"pdf","url":"https://x/y.pdf","mimeType":"application/pdf"},
			{"fileType":"image","url":"data:image/png;base64,eA=="},{"fileType":"image","url":"blob:http://x/1"},{"fileType":"txt","name":"b"}]}`, tdesign.Body{Prompt: "see", HasPrompt: true, Files: []agui.ContentPart{
			{Type: "image", Source: &agui.Source{Type: "url", Value: "/v1/context/k"}, Metadata: []byte(`{"filename":"a.png"}`)},
			{Type: "document", Source: &agui.Source{Type: "url", Value: "https://x/y.pdf", MimeType: "application/pdf"}},
			{Type: "image", Source: &agui.Source{Type: "data", Value: "eA==", MimeType: "image/png"}},
		}}},
		"odd props": {`{"forwardedProps":[1],"prompt":"x"}`, tdesign.Body{Prompt: "x", HasPrompt: true}},
	} {
		got, err := tdesign.DecodeBody([]byte(c.body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if (got.Answer == nil) != (c.want.Answer == nil) {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		if got.Answer != nil && (got.Answer.ToolCallID != c.want.Answer.ToolCallID || got.Answer.ToolCallName != c.want.Answer.ToolCallName || string(got.Answer.Result) != string(c.want.Answer.Result)) {
			t.Errorf("%s: %+v, want %+v", name, got.Answer, c.want.Answer)
		}
		a, b := *got, c.want
		a.Answer, b.Answer = nil, nil
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %+v, want %+v", name, a, b)
		}
	}
}

func TestBodiesOfWrongTypes(t *testing.T) {
	t.Parallel()
	for body, path := range map[string]string{
		`[]`:                                   "",
		`{`:                                    "",
		`{"prompt":7}`:                         "/prompt",
		`{"threadId":{}}`:                      "/threadId",
		`{"toolCallMessage":"x"}`:              "/toolCallMessage",
		`{"toolCallMessage":{"toolCallId":7}}`: "/toolCallMessage/toolCallId",
		`{"toolCallMessage":{"result":"{\"a\":1,\"a\":2}"}}`: "/toolCallMessage/result/a",
		`{"forwardedProps":{"toolCallMessage":7}}`:           "/forwardedProps/toolCallMessage",
		`{"prompt":"x","attachments":"a.png"}`:               "/attachments",
	} {
		_, err := tdesign.DecodeBody([]byte(body))
		var bad *agui.InputError
		if !errors.As(err, &bad) || bad.Path != path {
			t.Errorf("%s: %v, want %q", body, err, path)
		}
	}
}

// FuzzBody: a body is read or refused, and an answer's result is JSON.
func FuzzBody(f *testing.F) {
	f.Add([]byte(`{"prompt":"","toolCallMessage":{"toolCallId":"tc","result":"\"no\""},"forwardedProps":{"toolCallMessage":{}}}`))
	f.Add([]byte(`{"toolCallMessage":{"result":"{\"a\":[1,\"\\u0000\"]}"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		b, err := tdesign.DecodeBody(body)
		if err != nil {
			var bad *agui.InputError
			if !errors.As(err, &bad) {
				t.Fatalf("%T", err)
			}
			return
		}
		if b.Answer != nil && b.Answer.Result != nil && agui.CheckJSON(b.Answer.Result, 1<<20) != nil {
			// A result that was no string is as good as the body, which CheckJSON
			// has not seen here.
			if agui.CheckJSON(body, 1<<20) == nil {
				t.Fatalf("%s", b.Answer.Result)
			}
		}
	})
}
