package judges_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// burstEvents is how many events one Run of the burst agent has at least.
const burstEvents = 20_000

// burstAgent is an HTTP agent that sends everything at once: one long answer for a prompt with
// "text" in it, otherwise messages, thoughts, tool calls and state in turn.
func burstAgent(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		var b strings.Builder
		put := func(event, format string, args ...any) {
			fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", event, fmt.Sprintf(format, args...))
		}
		if strings.Contains(string(body), "burst text") {
			for i := range burstEvents {
				put("delta", `{"text":"word %d of the answer%s"}`, i, strings.Repeat(" ", i%2)+strings.Repeat(`\n\n`, i%40/39))
			}
		} else {
			put("state_snapshot", `{"snapshot":{"n":0}}`)
			for i := range burstEvents / 10 { // each becomes eleven events
				put("tool_call", `{"id":"%d","name":"look","args":{"at":%d}}`, i, i)
				put("tool_result", `{"id":"%d","content":{"seen":%d}}`, i, i)
				put("state_delta", `{"delta":[{"op":"replace","path":"/n","value":%d}]}`, i)
				put("delta", `{"text":"Part %d. "}`, i)
				put("delta", `{"text":"More of it."}`)
				put("step", `{"name":"s%d","status":"started"}`, i)
				put("step", `{"name":"s%d","status":"finished"}`, i)
			}
		}
		put("done", `{}`)
		_, _ = io.WriteString(w, b.String())
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestPageBurst: the page goes on drawing and taking input while an agent sends 20 000 events
// at once, and tells a screen reader of questions.
func TestPageBurst(t *testing.T) {
	browser(t)
	judge(t, serve(t, "2ms", "--agent", "burst="+burstAgent(t), "--default-agent", "demo"), "page-burst.test.mjs")
}
