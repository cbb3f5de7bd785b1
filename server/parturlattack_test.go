package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// hostile are addresses that no history may have. One word is in each, by which it is found however it is written.
func hostile() []string {
	return []string{
		"javascript:zebra", "JaVaScRiPt:zebra", " javascript:zebra", "java\tscript:zebra", "java\r\nscript:zebra", "vbscript:zebra", "file:///zebra",
		"blob:http://x.example/zebra", "https://zebra@x.example/", "https://x.example\\@zebra.example/",
		"https://x.example/\r\nzebra: 1", "//zebra.example/a", "javascript:zebra/api/threads/t/parts/" + strings.Repeat("0", 64), "javascript:zebra/v1/context/00000000-0000-7000-8000-000000000000",
	}
}

// TestS57PartAddresses: no history has a part with an address that runs, or that two readers take for different ones: not from a
// message of a client, in whatever form, not from a result of an agent, and not from a row of an earlier version.
func TestS57PartAddresses(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		h := newEnvWith(t, func(_ context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			id := "c" + call.TurnID
			content := agui.Content{Parts: []agui.ContentPart{{Type: agui.PartText, Text: "shown"}}}
			for _, address := range hostile() {
				content.Parts = append(content.Parts, agui.ContentPart{Type: agui.PartImage, Source: &agui.Source{Type: agui.SourceURL, Value: address}})
			}
			say(event(&agui.ToolCallStart{ToolCallID: id, ToolCallName: "look"}), event(&agui.ToolCallEnd{ToolCallID: id}),
				event(&agui.ToolCallResult{MessageID: "r" + id, ToolCallID: id, Content: content}))
			says(say, "done")
		}, plan{open: db.open})
		for i, address := range hostile() {
			quoted := string(agui.AppendString(nil, address))
			for form, body := range map[string]string{
				"AG-UI 1.0": withPart("refused", fmt.Sprint("R", i), `{"type":"image","source":{"type":"url","value":`+quoted+`}}`),
				"AG-UI 0.x": strings.Replace(withPart("refused", fmt.Sprint("R", i), `{"type":"binary","mimeType":"application/pdf","url":`+quoted+`}`), `"protocolVersion":"1.0",`, "", 1),
				"a handle":  withPart("refused", fmt.Sprint("R", i), `{"type":"image","source":{"type":"file","value":"javascript:zebra"}}`),
				"TDesign":   `{"threadId":"refused","prompt":"see","regenerate":false,"attachments":[{"fileType":"image","name":"b.png","url":` + quoted + `}]}`,
			} {
				got := h.do("POST", "/api/agui/chat", body)
				dropped := form == "TDesign" && strings.HasPrefix(address, "blob:") // of a file that was not uploaded
				if !strings.Contains(got.body, `"part_url_refused"`) && !dropped || form != "TDesign" && got.status != http.StatusUnprocessableEntity {
					t.Errorf("%s %q: %d %.300s", form, address, got.status, got.body)
				}
			}
		}
		if got := h.do("POST", "/api/agui/chat", withPart("T", "R", `{"type":"image","source":{"type":"url","value":"HTTPS://x.example/a b)"},"metadata":{"filename":"<b>\r](c:d)\u0060e\u0060"}},{"type":"image","source":{"type":"url","value":"data:image/svg+xml,<svg onload='f()'/>"}},{"type":"document","source":{"type":"url","value":"DATA:text/html,<script>f()</script>"}}`)); got.status != http.StatusOK {
			t.Fatal(got.status, got.body)
		}
		s, err := h.store.SessionByExternalID(t.Context(), store.As(store.LocalPrincipal()), "T")
		if err != nil {
			t.Fatal(err)
		}
		run, err := h.store.LastRun(t.Context(), store.System(), s.ID)
		if err != nil {
			t.Fatal(err)
		}
		var old []string // parts as earlier versions kept them
		for _, address := range hostile() {
			old = append(old, `{"type":"image","source":{"type":"url","value":`+string(agui.AppendString(nil, address))+`}}`)
		}
		err = h.store.InTx(t.Context(), func(tx store.Tx) error {
			id := "ffffffff-0000-7000-8000-000000000000"
			return tx.InsertMessage(t.Context(), store.Message{ID: id, SessionID: s.ID, RunID: run.ID, ExternalID: "old", Role: agui.RoleUser, CreatedAt: time.Now(),
				Data: []byte(`{"id":"old","role":"user","content":[` + strings.Join(old, ",") + `]}`)})
		})
		if err != nil {
			t.Fatal(err)
		}
		for name, got := range map[string]answer{
			"the transcript":           h.do("GET", "/api/threads/T/messages?format=agui", ""),
			"the transcript of a page": h.do("GET", "/api/threads/T/messages", ""),
			"the agent's transcript":   h.do("GET", "/v1/sessions/T/messages", ""),
			"the model's transcript":   h.do("GET", "/v1/sessions/T/messages?format=openai", ""),
			"a join of 1.0":            h.do("POST", "/api/agui/connect", `{"threadId":"T","runId":"J","protocolVersion":"1.0","messages":[]}`),
			"a join of 0.x":            h.do("POST", "/api/agui/connect", `{"threadId":"T","runId":"J","messages":[],"state":{},"tools":[],"context":[],"forwardedProps":{}}`),
			"the log":                  h.do("GET", "/api/runs/R/events?limit=1000", ""),
			"a replay":                 h.do("GET", "/api/runs/R/events", "", "Accept", "text/event-stream"),
		} {
			if got.status != http.StatusOK || strings.Contains(got.body, "zebra") {
				t.Errorf("%s: %d %.2000s", name, got.status, got.body)
			}
			if strings.Contains(got.body, "x.example") && !strings.Contains(got.body, "https://x.example/a%20b%29") {
				t.Errorf("%s has another spelling: %.2000s", name, got.body)
			}
		}
		// A page gets an address of ours for bytes, which are served so that they never run (TestPartIsServed).
		if got := h.do("GET", "/api/threads/T/messages", "").body; !strings.Contains(got, `![(b) )(c:d)'e'](https://x.example/a%20b%29)`) || strings.Contains(strings.ToLower(got), "data:") || strings.Count(got, `"url":"/api/threads/`) != 2 {
			t.Errorf("the links are %.1000s", got)
		}
	})
}
