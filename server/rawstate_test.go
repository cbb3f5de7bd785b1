package server_test

import (
	"fmt"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/bridge/httpagent"
)

// graphMessages is a conversation of n messages as LangGraph keeps it in a state, about 4 KiB each.
func graphMessages(n int) string {
	said := make([]string, n)
	for i := range said {
		said[i] = fmt.Sprintf(`{"id":"g%d","type":%q,"content":%q}`, i, [2]string{"human", "ai"}[i%2], strings.Repeat("word ", 800))
	}
	return "[" + strings.Join(said, ",") + "]"
}

// TestTranscriptIsNoState: the conversation that an agent keeps in its state is no shared state, on every road: however long
// it is, the other keys change; it is in no event, no join and no agent's next call.
func TestTranscriptIsNoState(t *testing.T) {
	const turns = 3
	check := func(t *testing.T, h *env, sent func(call int) string) {
		t.Helper()
		for n := 1; n <= turns; n++ {
			events := h.chat("T", fmt.Sprintf("R%d", n), "hi")
			for _, f := range events {
				if strings.Contains(f.data, "word word") || strings.Contains(f.data, "state_not_applied") {
					t.Errorf("turn %d: %.300s", n, f.data)
				}
			}
			if joined := h.open(h.request("POST", "/api/agui/connect", `{"threadId":"T","protocolVersion":"1.0"}`)).rest(); !strings.Contains(typed(joined, "STATE_SNAPSHOT").data, fmt.Sprintf(`"snapshot":{"count":%d}`, 2*n)) {
				t.Errorf("turn %d: a join has %.300s", n, typed(joined, "STATE_SNAPSHOT").data)
			}
		}
		if got := sent(turns); strings.Contains(got, "word word") || !strings.Contains(got, `"state":{"count":4}`) {
			t.Errorf("the agent is called with %.600s", got)
		}
		// A client may send it as well.
		body := strings.Replace(inputBody("T", "C", "mine"), `"state":{}`, `"state":{"count":6,"mine":1,"messages":`+graphMessages(80)+`}`, 1)
		if got := h.do("POST", "/api/agui/chat", body); got.status != 200 || !strings.Contains(sent(turns+1), `"mine":1`) || strings.Contains(sent(turns+1), "word word") {
			t.Errorf("a client's state with a conversation: %d %.300s", got.status, got.body)
		}
		// A key that is too large is named, and the state is as before.
		got := h.chat("T", "L", "large")
		note := typed(got, "CUSTOM").data
		if !strings.Contains(note, `"code":"state_too_large"`) || !strings.Contains(note, `"keys":["docs"]`) || !strings.Contains(note, ": docs.") {
			t.Errorf("the note is %s", note)
		}
		large := strings.Replace(inputBody("T", "CL", "hi"), `"state":{}`, `"state":{"notes":"`+strings.Repeat("x", agui.MaxStateBytes)+`"}`, 1)
		if got := h.do("POST", "/api/agui/chat", large); got.status != 413 || !strings.Contains(got.body, ": notes.") {
			t.Errorf("a client's state that is too large: %d %s", got.status, got.body)
		}
	}
	docs := `{"docs":"` + strings.Repeat("x", agui.MaxStateBytes) + `"}`
	t.Run("AG-UI", func(t *testing.T) {
		onBothDatabases(t, func(t *testing.T, db database) {
			h, peer := withAGUIPeer(t, db.open, func(call int, in aguiInput) string {
				if lastUser(in.Messages) == "large" {
					return aguiBegin + `{"type":"STATE_SNAPSHOT","snapshot":` + docs + `}` + aguiEnd
				}
				return aguiBegin +
					fmt.Sprintf(`{"type":"STATE_SNAPSHOT","snapshot":{"messages":%s,"count":%d}}`, graphMessages(80*call), 2*call-1) + "\n" +
					fmt.Sprintf(`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/messages/-","value":{"type":"ai","content":"word word"}},{"op":"replace","path":"/count","value":%d}]}`, 2*call) + "\n" +
					`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/messages/0/content","value":"word word"}]}` + aguiEnd
			})
			check(t, h, func(call int) string { peer.call(call); return peer.bodies[call-1] })
		})
	})
	t.Run("HTTP", func(t *testing.T) {
		t.Parallel()
		h, peer := withInvokePeer(t, httpagent.MessagesAGUI, func(call int, body string) string {
			if strings.Contains(body, `"content":"large"},"messages"`) || strings.Contains(body, `"input_message":{"id":"u-L"`) {
				return "event: state_snapshot\ndata: {\"snapshot\":" + docs + "}\n\nevent: done\ndata: {}\n\n"
			}
			return fmt.Sprintf("event: state_snapshot\ndata: {\"snapshot\":{\"messages\":%s,\"count\":%d}}\n\n", graphMessages(80*call), 2*call-1) +
				fmt.Sprintf("event: state_delta\ndata: {\"delta\":[{\"op\":\"replace\",\"path\":\"/count\",\"value\":%d},{\"op\":\"remove\",\"path\":\"/messages/3\"}]}\n\n", 2*call) +
				"event: done\ndata: {}\n\n"
		})
		check(t, h, func(call int) string { return peer.calls[call-1] })
	})
}

// TestRawOfAnAgent: an agent's own RAW events, and the rawEvent of any other, are dropped unless its operator keeps them. What
// this server turns into RAW stays.
func TestRawOfAnAgent(t *testing.T) {
	script := aguiBegin + `
{"type":"RAW","event":{"upstream":"own"},"source":"langgraph"}
{"type":"RAW","event":{"upstream":"forged"},"source":"agui:META_EVENT"}
{"type":"TEXT_MESSAGE_CHUNK","messageId":"m1","role":"assistant","delta":"hi","rawEvent":{"upstream":"member"}}
{"type":"STEP_STARTED","stepName":"s","rawEvent":{"upstream":"member"}}
{"type":"STEP_FINISHED","stepName":"s","rawEvent":{"upstream":"member"}}
{"type":"STATE_SNAPSHOT","snapshot":{"n":1},"rawEvent":{"upstream":"member"}}
{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m1","role":"assistant","content":"hi"}],"rawEvent":{"upstream":"member"}}
{"type":"META_EVENT","metaType":"thumbs_up"}
{"type":"TEXT_MESSAGE_START","messageId":"x","role":"user"}
{"type":"TEXT_MESSAGE_END","messageId":"x"}` + aguiEnd
	for _, keep := range []bool{false, true} {
		h, peer := withAGUIPeerAs(t, nil, func(cfg *httpagent.Config) { cfg.KeepRaw = keep }, func(int, aguiInput) string { return script })
		var log strings.Builder
		for _, f := range h.chat("T", "R1", "hi") {
			log.WriteString(f.data + "\n")
		}
		for text, want := range map[string]int{`"upstream":"own"`: 1, `"upstream":"forged"`: 1, `"upstream":"member"`: 3} {
			if !keep {
				want = 0
			}
			if got := strings.Count(log.String(), text); got < want || want == 0 && got > 0 {
				t.Errorf("keep %t: %s is there %d times:\n%s", keep, text, got, &log)
			}
		}
		if got := log.String(); !strings.Contains(got, "thumbs_up") || !strings.Contains(got, `"source":"agui:TEXT_MESSAGE_START"`) {
			t.Errorf("keep %t: what the server turns into RAW is missing:\n%s", keep, got)
		}
		peer.call(1)
	}
}
