package server_test

import (
	"strings"
	"testing"
)

// TestAGUIAgentGoesOnWithAnEarlierMessage: a call that an agent adds to a message of an earlier run, by its stream or by a
// snapshot, is added to that message, which keeps its text and its other calls, for the agent and for clients.
func TestAGUIAgentGoesOnWithAnEarlierMessage(t *testing.T) {
	for name, second := range map[string]string{
		"stream":   toolCalled("c2", "a1", "weather", bergen) + answered("t2", "c2", "8"),
		"snapshot": snapshotOf(memory(asst("a1", "Look:", "c1", "weather", oslo, "c2", "weather", bergen), reslt("t1", "c1", "7"), reslt("t2", "c2", "8"))),
	} {
		onBothDatabases(t, func(t *testing.T, db database) {
			h, peer := withAGUIPeer(t, db.open, func(call int, _ aguiInput) string {
				switch call {
				case 1:
					return aguiBegin + wrote("a1", "Look:") + toolCalled("c1", "a1", "weather", oslo) + answered("t1", "c1", "7") +
						`{"type":"RUN_FINISHED","threadId":"$THREAD","runId":"$RUN","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"confirmation","message":"Bergen too?"}]}}`
				case 2:
					return aguiBegin + second + aguiEnd
				}
				return aguiBegin + aguiEnd
			})
			first := h.chat("T", "R1", "hi")
			_, id, _ := strings.Cut(typed(first, "RUN_FINISHED").data, `"interrupts":[{"id":"`)
			id, _, _ = strings.Cut(id, `"`)
			h.chatAnswer("T", "R2", id, `{"approved":true}`)
			h.chat("T", "R3", "more")
			want := `assistant a1 "Look:" [c1 weather {"city":"Oslo"}] [c2 weather {"city":"Bergen"}]
tool t1 "7" of c1
tool t2 "8" of c2`
			sent := peer.call(3).Messages
			if got := strings.Join(remembered(sent[1:len(sent)-1], true), "\n"); got != want {
				t.Errorf("%s: the agent is sent\n%s", name, got)
			}
			for _, m := range transcriptOf(t, h, "T") {
				if len(m.ToolCalls) > 1 && m.Content == "Look:" {
					return
				}
			}
			t.Errorf("%s: clients read %s", name, strings.Join(remembered(transcriptOf(t, h, "T"), false), "\n"))
		})
	}
}
