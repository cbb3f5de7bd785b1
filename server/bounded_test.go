package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// bodySchema is as much of a JSON Schema as says which arrays a body has.
type bodySchema struct {
	Ref                  string                `json:"$ref"`
	Type                 any                   `json:"type"`
	MaxItems             int                   `json:"maxItems"`
	Items                *bodySchema           `json:"items"`
	Properties           map[string]bodySchema `json:"properties"`
	AnyOf, OneOf, AllOf  []bodySchema
	AdditionalProperties any
}

// arrays calls each for every array that a schema describes. body is a document with the JSON that it is given in the place of
// the array.
func (d bodySchema) arrays(named map[string]bodySchema, depth int, body func(inner string) string, each func(array bodySchema, body func(string) string)) {
	if depth > 8 { // a schema that contains itself
		return
	}
	if name, ok := strings.CutPrefix(d.Ref, "#/components/schemas/"); ok {
		named[name].arrays(named, depth+1, body, each)
		return
	}
	if d.Type == "array" || d.Items != nil {
		each(d, body)
		if d.Items != nil {
			d.Items.arrays(named, depth+1, func(inner string) string { return body("[" + inner + "]") }, each)
		}
	}
	for name, of := range d.Properties {
		of.arrays(named, depth+1, func(inner string) string { return body(fmt.Sprintf(`{%q:%s}`, name, inner)) }, each)
	}
	for _, list := range [][]bodySchema{d.AnyOf, d.OneOf, d.AllOf} {
		for _, of := range list {
			of.arrays(named, depth+1, body, each)
		}
	}
}

// TestS47EveryArrayHasABound: openapi.json says for every array of every body how many elements it may have, and a body with
// one more is refused, whatever else is wrong with it. If this fails, a small body becomes a large one when it is decoded.
func TestS47EveryArrayHasABound(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	var doc struct {
		Components struct{ Schemas map[string]bodySchema }
		Paths      map[string]map[string]struct {
			RequestBody struct {
				Content map[string]struct{ Schema bodySchema }
			}
		}
	}
	if err := json.Unmarshal([]byte(h.do("GET", "/openapi.json", "").body), &doc); err != nil {
		t.Fatal(err)
	}
	param := regexp.MustCompile(`{\w+}`)
	tried := make(map[string]bool)
	for path, methods := range doc.Paths {
		for method, o := range methods {
			here := strings.ToUpper(method) + " " + path
			o.RequestBody.Content["application/json"].Schema.arrays(doc.Components.Schemas, 0, func(inner string) string { return inner }, func(array bodySchema, body func(string) string) {
				if array.MaxItems == 0 {
					t.Errorf("%s: an array without maxItems: %s", here, body("[]"))
					return
				}
				many := body("[" + strings.Repeat("{},", array.MaxItems) + "{}]")
				a := h.do(strings.ToUpper(method), param.ReplaceAllString(path, "x"), many)
				switch {
				case a.status == http.StatusBadRequest && (strings.Contains(a.body, "elements") || strings.Contains(a.body, "at most")):
					tried[here] = true
				case a.status != http.StatusNotFound && a.status != http.StatusUnauthorized: // the id or the credential comes first
					t.Errorf("%s: %d elements at %s are not refused: %d %.200s", here, array.MaxItems+1, body("[]"), a.status, a.body)
				}
			})
		}
	}
	if len(tried) < 7 {
		t.Errorf("only %d routes refuse too many elements: %v", len(tried), tried)
	}
}

// TestS47BodiesAreWeighed: what is allocated for a body is in proportion to its bytes, whatever it is made of. It does not run
// beside others, whose work would count.
func TestS47BodiesAreWeighed(t *testing.T) {
	h := newEnv(t, saysN(1))
	const size = 4<<20 - 256
	fill := func(head, element, tail string) string {
		n := (size - len(head) - len(tail)) / (len(element) + 1)
		return head + strings.Repeat(element+",", n-1) + element + tail
	}
	for name, try := range map[string]struct{ path, body string }{
		"context":             {"/api/agui/chat", fill(`{"messages":[],"context":[`, `{}`, `]}`)},
		"Context":             {"/api/agui/chat", fill(`{"messages":[],"Context":[`, `{}`, `]}`)},
		"an escaped name":     {"/api/agui/chat", fill(`{"messages":[],"cont\u0065xt":[`, `{}`, `]}`)},
		"tools":               {"/api/agui/chat", fill(`{"messages":[],"tools":[`, `{"name":"a"}`, `]}`)},
		"resume":              {"/api/agui/chat", fill(`{"messages":[],"resume":[`, `{"interruptId":"a","status":"resolved"}`, `]}`)},
		"messages":            {"/api/agui/chat", fill(`{"messages":[`, `{"id":"a","role":"user","content":""}`, `]}`)},
		"parts":               {"/api/agui/chat", fill(`{"messages":[{"id":"a","role":"user","content":[`, `{"type":"text","text":""}`, `]}]}`)},
		"calls of tools":      {"/api/agui/chat", fill(`{"messages":[{"id":"a","role":"assistant","toolCalls":[`, `{"id":"a","function":{"name":"f","arguments":""}}`, `]}]}`)},
		"attachments":         {"/api/agui/chat", fill(`{"prompt":"a","attachments":[`, `{}`, `]}`)},
		"state":               {"/api/agui/chat", fill(`{"messages":[],"state":[`, `[]`, `]}`)},
		"a command":           {"/api/agui/chat", fill(`{"messages":[],"forwardedProps":{"command":{"resume":[`, `{}`, `]}}}`)},
		"unknown members":     {"/api/agui/chat", fill(`{"messages":[],"x":[`, `{}`, `]}`)},
		"a result in a text":  {"/api/agui/chat", fill(`{"toolCallMessage":{"toolCallId":"a","result":"[`, `[]`, `]"}}`)},
		"decisions":           {"/api/approvals/decisions", fill(`{"decisions":[`, `{}`, `]}`)},
		"DECISIONS":           {"/api/approvals/decisions", fill(`{"DECISIONS":[`, `{}`, `]}`)},
		"a decision's values": {"/api/approvals/x/decision", fill(`{"approved":true,"args":[`, `[]`, `]}`)},
		"roles":               {"/api/tokens", fill(`{"type":"user","user":"a","roles":[`, `""`, `]}`)},
		"rights":              {"/api/threads/x/shares", fill(`{"user":"a","rights":[`, `""`, `]}`)},
		"labels":              {"/v1/runs", fill(`{"message":{"content":"a"},"labels":[`, `""`, `]}`)},
		"a constraint":        {"/api/grants", fill(`{"tool":"a","constraint":[`, `{}`, `]}`)},
		"context's content":   {"/v1/context", fill(`{"key":"k","content":[`, `[]`, `]}`)},
		"a tool's schema":     {"/v1/tools", fill(`{"name":"a","schema":{"enum":[`, `[]`, `]}}`)},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a := h.do("POST", try.path, try.body)
		runtime.ReadMemStats(&after)
		times := float64(after.TotalAlloc-before.TotalAlloc) / size
		t.Logf("%-20s %5.1f bytes for each of the body: %d %.120s", name, times, a.status, a.body)
		if times > mostTimes {
			t.Errorf("%s: %.0f bytes are allocated for each of the body", name, times)
		}
		if a.status < 400 && !strings.Contains(a.body, "RUN_ERROR") {
			t.Errorf("%s: it is taken: %d %.200s", name, a.status, a.body)
		}
	}
}

// mostTimes is how many bytes may be allocated for each of a body that is refused: its buffer grows by doubling, and the test's
// own client copies it.
const mostTimes = 16
