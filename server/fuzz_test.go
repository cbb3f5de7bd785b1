package server_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// FuzzBody: whatever is posted to the chat gets a whole stream or a refusal, never a fault
// of ours, and a refusal leaves nothing behind.
func FuzzBody(f *testing.F) {
	for _, body := range []string{
		inputBody("T", "R", "hi"), `{"messages":[{"id":"u1","role":"user","content":"hi"}]}`, `{"prompt":"hi","uid":"u"}`, "", `{}`,
		`{"toolCallMessage":{"toolCallId":"x","toolCallName":"request_permission","result":"{\"optionId\":\"x:0\"}"}}`,
		`{"threadId":"T","messages":[],"resume":[{"interruptId":"i","status":"resolved","payload":{"approved":true}}]}`,
		`{"threadId":"T","messages":[{"id":"t1","role":"tool","toolCallId":"x","content":"y"}]}`,
		`{"threadId":"a\r\nb","messages":[{"id":"u","role":"user","content":"hi"}]}`,
		`{"messages":[{"id":"u","role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"url","value":"x"}}]}]}`,
		`{"prompt":null,"forwardedProps":{"toolCallMessage":{"result":5}}}`, "{\"prompt\":\"\xff\"}", `[[[[`, `{"state":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`,
	} {
		f.Add(body, true)
		f.Add(body, false)
	}
	shared := newEnv(f, saysN(1))
	f.Fuzz(func(t *testing.T, body string, page bool) {
		h := shared.as(t)
		before := h.threads()
		req := httptest.NewRequest("POST", "/api/agui/chat", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		if page {
			req.Header.Set("Cache-Control", "no-cache")
			req.Header.Set("Sec-Fetch-Mode", "cors")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // no stream here takes long
		defer cancel()
		got := h.direct(req.WithContext(ctx))
		if got.status != 200 {
			if got.status >= 500 || got.status < 400 {
				t.Fatalf("%d %s", got.status, got.body)
			}
			isProblem(t, got, got.status)
			if h.threads() != before {
				t.Fatal("refused, and stored")
			}
			return
		}
		frames := stream(t, got.body)
		first, last := frames[0].typ(), frames[len(frames)-1].typ()
		if first != "RUN_STARTED" && first != "RUN_ERROR" || last != "RUN_FINISHED" && last != "RUN_ERROR" {
			t.Fatalf("%s", types(frames))
		}
	})
}
