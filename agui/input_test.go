package agui_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"aqueduct/agui"
)

const realInput = `{"threadId":"T","runId":"R3","protocolVersion":"1.0","state":{"n":1},"messages":[{"id":"u1","role":"user","content":"hi"},{"id":"a1","role":"assistant","content":"let me","toolCalls":[{"id":"c1","type":"function","function":{"name":"pick","arguments":"{\"q\":1}"}}]},{"id":"r1","role":"reasoning","content":"th","encryptedValue":"ENC"},{"id":"t1","role":"tool","content":"picked","toolCallId":"c1"}],"tools":[],"context":[],"forwardedProps":{},"resume":[{"interruptId":"i1","status":"resolved","payload":{"approved":true}}]}`

func TestInputOfTheOfficialClient(t *testing.T) {
	t.Parallel()
	in, err := agui.DecodeInput([]byte(realInput))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(in.AppendJSON(nil)); got != realInput {
		t.Errorf("got  %s\nwant %s", got, realInput)
	}
	if len(in.Messages) != 4 || in.Messages[1].ToolCalls[0].Function.Arguments != `{"q":1}` || in.Resume[0].Status != agui.ResumeResolved {
		t.Errorf("%+v", in)
	}
}

func TestInputIsReadLiberally(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"empty object":       `{}`,
		"nothing but null":   `{"threadId":null,"runId":null,"state":null,"messages":null,"tools":null,"context":null,"forwardedProps":null,"resume":null,"parentRunId":null,"protocolVersion":null}`,
		"unknown members":    `{"agent":"x","messages":[{"id":"u","role":"user","content":"hi","extra":{"a":[]}}],"tools":[{"name":"f","strict":true}]}`,
		"null in messages":   `{"messages":[{"id":"u","role":"user","content":"hi","name":null,"metadata":null,"encryptedValue":null}]}`,
		"no assistant words": `{"messages":[{"id":"a","role":"assistant","content":null,"toolCalls":null}]}`,
		"activity":           `{"messages":[{"id":"a","role":"activity","activityType":"p","content":{}}]}`,
		"tool parts":         `{"messages":[{"id":"t","role":"tool","toolCallId":"c","content":[{"type":"text","text":"x"}]}]}`,
		"null payload":       `{"resume":[{"interruptId":"i","status":"cancelled","payload":null}]}`,
	} {
		if _, err := agui.DecodeInput([]byte(body)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInputErrorsPoint(t *testing.T) {
	t.Parallel()
	for body, path := range map[string]string{
		`[]`:               "",
		`{"threadId":1}`:   "/threadId",
		`{"messages":{}}`:  "/messages",
		`{"messages":[7]}`: "/messages/0",
		`{"messages":[{"id":"a","role":"robot","content":""}]}`:                                                        "/messages/0/role",
		`{"messages":[{"id":"a","content":""}]}`:                                                                       "/messages/0/role",
		`{"messages":[{"role":"user","content":""}]}`:                                                                  "/messages/0/id",
		`{"messages":[{"id":"a","role":"user"}]}`:                                                                      "/messages/0/content",
		`{"messages":[{"id":"a","role":"user","content":null}]}`:                                                       "/messages/0/content",
		`{"messages":[{"id":"a","role":"system","content":[]}]}`:                                                       "/messages/0/content",
		`{"messages":[{"id":"a","role":"tool","content":""}]}`:                                                         "/messages/0/toolCallId",
		`{"messages":[{"id":"a","role":"user","content":[{"type":"text"}]}]}`:                                          "/messages/0/content/0/text",
		`{"messages":[{"id":"a","role":"user","content":[{"text":"x"}]}]}`:                                             "/messages/0/content/0/type",
		`{"messages":[{"id":"a","role":"user","content":[{"type":"image"}]}]}`:                                         "/messages/0/content/0/source",
		`{"messages":[{"id":"a","role":"user","content":[{"type":"image","source":{"type":"ftp"}}]}]}`:                 "/messages/0/content/0/source/type",
		`{"messages":[{"id":"a","role":"user","content":[{"type":"binary","mimeType":"a/b"}]}]}`:                       "/messages/0/content/0",
		`{"messages":[{"id":"a","role":"assistant","toolCalls":[{"id":"c","function":{"name":"f","arguments":{}}}]}]}`: "/messages/0/toolCalls/0/function/arguments",
		`{"tools":[{"description":"no name"}]}`:                                                                        "/tools/0/name",
		`{"context":[{"description":"d","value":{}}]}`:                                                                 "/context/0/value",
		`{"resume":[{"interruptId":"i","status":"approved"}]}`:                                                         "/resume/0/status",
		`{"resume":[{"status":"resolved"}]}`:                                                                           "/resume/0/interruptId",
		`{"messages":[{"id":"a","role":"user","content":"","metadata":7}]}`:                                            "/messages/0/metadata",
	} {
		_, err := agui.DecodeInput([]byte(body))
		var bad *agui.InputError
		if !errors.As(err, &bad) || bad.Path != path {
			t.Errorf("%s: %v, want path %q", body, err, path)
		}
	}
}

func TestBinaryPartsAreUpgraded(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"type":"binary","mimeType":"image/png","data":"AA=="}`:                          `{"type":"image","source":{"type":"data","value":"AA==","mimeType":"image/png"}}`,
		`{"type":"binary","mimeType":"audio/ogg","url":"https://x"}`:                      `{"type":"audio","source":{"type":"url","value":"https://x","mimeType":"audio/ogg"}}`,
		`{"type":"binary","mimeType":"video/mp4","id":"h"}`:                               `{"type":"video","source":{"type":"file","value":"h","mimeType":"video/mp4"}}`,
		`{"type":"binary","mimeType":"application/pdf","data":"x","filename":"a\"b.pdf"}`: `{"type":"document","source":{"type":"data","value":"x","mimeType":"application/pdf"},"metadata":{"filename":"a\"b.pdf"}}`,
	} {
		var c agui.Content
		if err := json.Unmarshal([]byte("[ "+in+" ]"), &c); err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := string(c.AppendJSON(nil)); got != "["+want+"]" {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestContentAsText(t *testing.T) {
	t.Parallel()
	var c agui.Content
	err := json.Unmarshal([]byte(`[{"type":"text","text":"a"},{"type":"image","source":{"type":"url","value":"u"}},{"type":"odd","text":7},{"type":"text","text":"b"}]`), &c)
	if err != nil || c.String() != "ab" || agui.Text("x").String() != "x" {
		t.Errorf("%q, %v", c.String(), err)
	}
}

func TestAssistantContentMayBeAbsent(t *testing.T) {
	t.Parallel()
	for _, want := range []string{`{"id":"a","role":"assistant"}`, `{"id":"a","role":"assistant","content":""}`} {
		var m agui.Message
		if err := json.Unmarshal([]byte(want), &m); err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(m); string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// FuzzInput: what is accepted encodes to what is accepted, and to the same.
func FuzzInput(f *testing.F) {
	f.Add([]byte(realInput))
	f.Add([]byte(`{"messages":[{"id":"a","role":"user","content":[{"type":"binary","mimeType":"image/png","id":"x"}]}]}`))
	f.Add([]byte(`{"context":[{"description":"","value":""}],"tools":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := agui.DecodeInput(body)
		if err != nil {
			var bad *agui.InputError
			if !errors.As(err, &bad) {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		once := in.AppendJSON(nil)
		if strings.ContainsAny(string(once), "\r\n") {
			t.Fatalf("%q", once)
		}
		again, err := agui.DecodeInput(once)
		if err != nil {
			t.Fatalf("%s: %v", once, err)
		}
		if twice := again.AppendJSON(nil); string(twice) != string(once) {
			t.Fatalf("not stable:\n%s\n%s", once, twice)
		}
	})
}
