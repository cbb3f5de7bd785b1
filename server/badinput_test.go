package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestBadInput: what is not right gets 4xx problem+json, and nothing is stored.
func TestBadInput(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	message := func(member string) string {
		return `{"threadId":"T","runId":"R","protocolVersion":"1.0","messages":[{"id":"u1","role":"user","content":"hi"}],` + member + `}`
	}
	for name, body := range map[string]string{
		"malformed":               `{"messages":[`,
		"two documents":           `{"messages":[]} {}`,
		"trailing comma":          `{"messages":[],}`,
		"no object":               `[1,2]`,
		"a string":                `"hello"`,
		"null":                    `null`,
		"messages of wrong type":  `{"messages":"hi"}`,
		"threadId of wrong type":  `{"threadId":5,"messages":[]}`,
		"a message is a string":   `{"messages":["hi"]}`,
		"content of wrong type":   `{"messages":[{"id":"u","role":"user","content":7}]}`,
		"unknown role":            `{"messages":[{"id":"u","role":"king","content":"hi"}]}`,
		"message without id":      `{"messages":[{"role":"user","content":"hi"}]}`,
		"unknown resume status":   message(`"resume":[{"interruptId":"i","status":"approved"}]`),
		"resume of wrong type":    message(`"resume":{"i":1}`),
		"context is no string":    message(`"context":[{"description":"d","value":{}}]`),
		"depth 10000":             message(`"state":` + deep),
		"depth 65":                message(`"state":` + strings.Repeat("[", 64) + strings.Repeat("]", 64)),
		"duplicate key":           `{"threadId":"T","threadId":"U","messages":[]}`,
		"duplicate key inside":    message(`"state":{"a":1,"a":2}`),
		"duplicate escaped key":   message(`"state":{"a":1,"\u0061":2}`),
		"invalid UTF-8":           message("\"state\":\"\xff\xfe\""),
		"a raw control character": message("\"state\":\"a\x01b\""),
		"CR LF in threadId":       `{"threadId":"a\r\nb","messages":[{"id":"u","role":"user","content":"hi"}]}`,
		"LF in runId":             `{"runId":"a\nid: 7","messages":[{"id":"u","role":"user","content":"hi"}]}`,
		"CR LF in a message id":   `{"messages":[{"id":"u\r\n","role":"user","content":"hi"}]}`,
		"NUL in threadId":         `{"threadId":"a\u0000","messages":[{"id":"u","role":"user","content":"hi"}]}`,
		"U+2028 in threadId":      `{"threadId":"a\u2028b","messages":[{"id":"u","role":"user","content":"hi"}]}`,
		"a long threadId":         `{"threadId":"` + strings.Repeat("a", 129) + `","messages":[{"id":"u","role":"user","content":"hi"}]}`,
		"a parent run with LF":    message(`"parentRunId":"a\nb"`),
		"an unknown version":      `{"protocolVersion":"2.0","messages":[{"id":"u","role":"user","content":"hi"}]}`,
		"no message":              `{"messages":[]}`,
		"only what was answered":  `{"messages":[{"id":"a","role":"assistant","content":"hi"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			isProblem(t, h.do("POST", "/api/agui/chat", body), 400)
		})
	}
	for name, path := range map[string]string{
		"an unknown dialect": "/api/agui/chat?dialect=klingon", "on_leave": "/api/agui/chat?on_leave=explode",
		"follow": "/api/agui/chat?follow=perhaps", "a broken query": "/api/agui/chat?a=%zz", "an unknown agent": "/api/agui/chat?agent=nobody",
	} {
		t.Run(name, func(t *testing.T) { isProblem(t, h.do("POST", path, inputBody("T", "R", "hi")), 400) })
	}
	if n := h.threads(); n != 0 {
		t.Errorf("%d threads were stored", n)
	}
}

// isProblem checks a refusal's form.
func isProblem(t *testing.T, got answer, status int) map[string]any {
	t.Helper()
	var p map[string]any
	if err := json.Unmarshal([]byte(got.body), &p); err != nil || got.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%d %s %q", got.status, got.header.Get("Content-Type"), got.body)
	}
	if got.status != status || p["status"] != float64(status) || p["code"] == "" || p["title"] == "" {
		t.Fatalf("%d, want %d: %s", got.status, status, got.body)
	}
	return p
}

// TestLiberal: what need not be there may be null or missing, what is unknown is no fault.
func TestLiberal(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	for name, body := range map[string]string{
		"as small as can be": `{"messages":[{"id":"u1","role":"user","content":"hi"}]}`,
		"unknown members":    `{"messages":[{"id":"u1","role":"user","content":"hi","mood":9}],"extra":{"a":[1]}}`,
		"nulls": `{"threadId":null,"runId":null,"state":null,"tools":null,"context":null,"forwardedProps":null,"resume":null,"protocolVersion":null,` +
			`"parentRunId":null,"messages":[{"id":"u1","role":"user","content":"hi","name":null}]}`,
		"large numbers": `{"messages":[{"id":"u1","role":"user","content":"hi"}],"state":{"n":9007199254740993123}}`,
		"depth 64":      `{"messages":[{"id":"u1","role":"user","content":"hi"}],"state":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			got := h.do("POST", "/api/agui/chat", body)
			if got.status != 200 || strings.Replace(types(stream(t, got.body)), "STATE_SNAPSHOT ", "", 1) != "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED" {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
}

// endless is a body that never ends; it counts what was taken of it.
type endless struct{ taken int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.taken += int64(len(p))
	return len(p), nil
}

// TestLargeBody: 100 MiB are refused, announced ones before anything is read.
func TestLargeBody(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	const announced, most = 100 << 20, 4 << 20
	for _, size := range []int64{announced, -1} {
		for _, route := range []string{"POST /api/agui/chat", "POST /api/agui/connect", "PATCH /api/threads/T", "POST /api/approvals/a/decision",
			"POST /api/tool_calls/a/result", "POST /api/session"} {
			method, path, _ := strings.Cut(route, " ")
			body := new(endless)
			req := httptest.NewRequest(method, path, io.LimitReader(body, announced))
			req.ContentLength = size
			req.Header.Set("Content-Type", "application/json")
			got := h.direct(req)
			if p := isProblem(t, got, 413); p["code"] != "body_too_large" {
				t.Errorf("%s: %v", route, p)
			}
			limit := int64(most + 64<<10)
			if size > 0 {
				limit = 0
			}
			if body.taken > limit {
				t.Errorf("%s: %d bytes were read", route, body.taken)
			}
		}
	}
}

// TestBadPaths: ids of an impossible form are refused before any lookup.
func TestBadPaths(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	bad := []string{"a%0d%0ab", "a%00", "%20a", "a%20", "%e2%80%a8", "%e2%80%ae", "%ff", strings.Repeat("x", 129), strings.Repeat("%e6%96%87", 129)}
	none := []string{"a.b_c:d-1", "a@b", "a%20b", "a%2fb", "100%25", "%25zz", "%e6%96%87%3f", "a%27%20OR%201=1--", strings.Repeat("%e6%96%87", 128)}
	for _, route := range []string{"GET /api/threads/%s", "GET /api/threads/%s/messages", "GET /api/threads/%s/events", "GET /api/runs/%s",
		"GET /api/runs/%s/events", "POST /api/runs/%s/cancel", "GET /v1/runs/%s/events", "GET /api/approvals/%s"} {
		for _, id := range bad {
			method, path, _ := strings.Cut(fmt.Sprintf(route, id), " ")
			isProblem(t, h.do(method, path, "{}", "Content-Type", "application/json"), 400)
		}
		for _, id := range none {
			method, path, _ := strings.Cut(fmt.Sprintf(route, id), " ")
			isProblem(t, h.do(method, path, "{}", "Content-Type", "application/json"), 404)
		}
	}
	for _, path := range []string{"/api/threads?limit=-1", "/api/threads?limit=9999", "/api/threads?limit=x", "/api/threads?after=%27",
		"/api/approvals?status=MAYBE", "/api/approvals?run_id=1%3B", "/api/threads?limit=1;drop"} {
		isProblem(t, h.do("GET", path, ""), 400)
	}
}

// TestBadWrites: each body is checked, with the name the client knows.
func TestBadWrites(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	h.chat("T", "R", "hi")
	for body, word := range map[string]string{
		`{}`: "title", `{"title":""}`: "title", `{"title":5}`: "/title", `{"title":"` + strings.Repeat("x", 201) + `"}`: "title",
		`[]`: "object", `{"title":"a","title":"b"}`: "duplicate", ``: "", `{"title":`: "",
	} {
		p := isProblem(t, h.do("PATCH", "/api/threads/T", body, "Content-Type", "application/json"), 400)
		if detail, _ := p["detail"].(string); !strings.Contains(detail, word) {
			t.Errorf("%s: %s", body, detail)
		}
	}
	for _, body := range []string{`{}`, `{"decision":"maybe"}`, `{"approved":"yes"}`, `{"option_id":1}`, `{"decision":null}`} {
		isProblem(t, h.do("POST", "/api/approvals/x/decision", body), 400)
	}
	for _, body := range []string{`{}`, `{"ok":true}`, `{"ok":"yes","result":1}`, `{"ok":false}`} {
		isProblem(t, h.do("POST", "/api/tool_calls/x/result", body), 400)
	}
}
