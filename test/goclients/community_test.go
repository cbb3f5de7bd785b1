package goclients_test

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/ag-ui-protocol/ag-ui/sdks/community/go/pkg/core/events"
	"github.com/ag-ui-protocol/ag-ui/sdks/community/go/pkg/core/types"
	"github.com/google/uuid"
)

// TestCommunityClient is the AG-UI community client for Go through everything a chat does. It
// names no protocol version and sends Cache-Control: no-cache, and it fails on every event that
// it cannot decode or finds invalid.
func TestCommunityClient(t *testing.T) {
	s := newServer(t)
	for _, tc := range []struct {
		name string
		test func(t *testing.T, s *server)
	}{
		{"chat", communityChat}, {"question", communityQuestion}, {"two questions", communityTwoQuestions},
		{"frontend tool", communityTool}, {"shared state", communityState}, {"stop and go on", communityStop},
		{"regenerate", communityRegenerate}, {"edit", communityEdit}, {"picture", communityPicture},
		{"reload at every cut", communityReload}, {"error", communityError},
		{"server killed in mid-answer", communityKilled}, // last: it takes the server away
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, s) })
	}
}

func communityChat(t *testing.T, s *server) {
	k := newTalk(t, s)
	for _, part := range []string{"text", "think", "tool", "activity", "step", "flood 50", "text"} {
		k.finished(k.send(part))
	}
	if !strings.Contains(k.words(), "miss nothing") || len(k.messages) < 14 {
		t.Errorf("%d messages, the last %q", len(k.messages), k.words())
	}
}

func communityQuestion(t *testing.T, s *server) {
	for _, approved := range []bool{true, false} {
		k := newTalk(t, s)
		k.send("ask")
		k.resume(1, approved)
		want := map[bool]string{true: "You allowed it", false: "You said no"}[approved]
		if !strings.Contains(k.words(), want) {
			t.Errorf("%q, want %q", k.words(), want)
		}
	}
}

func communityTwoQuestions(t *testing.T, s *server) {
	k := newTalk(t, s)
	k.send("asks")
	k.resume(2, true, false)
	if !strings.Contains(k.words(), "took care of the mail") || !strings.Contains(k.words(), "left the invoice alone") {
		t.Errorf("%q", k.words())
	}
}

// resume answers the open questions one by one, in one request.
func (k *talk) resume(n int, approved ...bool) {
	k.t.Helper()
	if len(k.open) != n {
		k.t.Fatalf("%d questions are open, want %d", len(k.open), n)
	}
	var entries []types.ResumeEntry
	for i, q := range k.open {
		entries = append(entries, types.ResumeEntry{InterruptID: q.ID, Status: types.ResumeStatusResolved, Payload: map[string]any{"approved": approved[i]}})
	}
	k.finished(k.run(entries, nil))
}

func communityTool(t *testing.T, s *server) {
	k := newTalk(t, s)
	k.tools = []types.Tool{{Name: "pick_color", Description: "Picks a color", Parameters: map[string]any{
		"type": "object", "properties": map[string]any{"hint": map[string]any{"type": "string"}}, "required": []string{"hint"},
	}}}
	k.finished(k.send("client_tool"))
	var call *types.ToolCall
	for _, m := range k.messages {
		for i := range m.ToolCalls {
			call = &m.ToolCalls[i]
		}
	}
	if call == nil || call.Function.Name != "pick_color" || !json.Valid([]byte(call.Function.Arguments)) {
		t.Fatalf("call %+v", call)
	}
	k.messages = append(k.messages, types.Message{ID: uuid.NewString(), Role: types.RoleTool, ToolCallID: call.ID, Content: `"teal"`})
	k.finished(k.run(nil, nil))
	if !strings.Contains(k.words(), "teal") {
		t.Errorf("%q", k.words())
	}
}

func communityState(t *testing.T, s *server) {
	k := newTalk(t, s)
	k.state = json.RawMessage(`{"filter":{"color":"teal"}}`)
	k.finished(k.send("state"))
	page := k.again()
	page.finished(page.run(nil, nil))
	for who, raw := range map[string]json.RawMessage{"the client": k.state, "a new page": page.state} {
		var got struct {
			Filter struct{ Color string }
			Report struct{ Progress int }
		}
		if err := json.Unmarshal(raw, &got); err != nil || got.Filter.Color != "teal" || got.Report.Progress != 100 {
			t.Errorf("%s has the state %s", who, raw)
		}
	}
}

func communityStop(t *testing.T, s *server) {
	k := newTalk(t, s)
	k.messages = append(k.messages, types.Message{ID: uuid.NewString(), Role: types.RoleUser, Content: "slow"})
	k.run(nil, func(ev events.Event) bool { return ev.Type() == events.EventTypeTextMessageContent })
	k.finished(k.send("text"))
	if !strings.Contains(k.words(), "miss nothing") {
		t.Errorf("%q", k.words())
	}
}

func communityRegenerate(t *testing.T, s *server) {
	k := newTalk(t, s)
	k.finished(k.send("think"))
	k.finished(k.send("text"))
	old := k.messages[len(k.messages)-1].ID
	k.messages = k.messages[:len(k.messages)-1]
	k.finished(k.run(nil, nil))
	if !strings.Contains(k.words(), "miss nothing") || k.has(old) {
		t.Errorf("answered with %q, the old answer is there: %v", k.words(), k.has(old))
	}
	page := k.again()
	page.finished(page.run(nil, nil))
	if page.picture() != k.picture() {
		t.Errorf("a new page has\n%swant\n%s", page.picture(), k.picture())
	}
}

func communityEdit(t *testing.T, s *server) {
	k := newTalk(t, s)
	k.finished(k.send("think"))
	k.finished(k.send("text"))
	at := slices.IndexFunc(k.messages, func(m types.Message) bool { return m.Content == "text" })
	old := k.messages[at].ID
	k.messages = k.messages[:at]
	k.finished(k.send("tool"))
	page := k.again()
	page.finished(page.run(nil, nil))
	for who, talk := range map[string]*talk{"the client": k, "a new page": page} {
		if talk.has(old) || strings.Contains(talk.picture(), "miss nothing") || !strings.Contains(talk.picture(), "forty-two") {
			t.Errorf("%s has\n%s", who, talk.picture())
		}
	}
}

func (k *talk) has(id string) bool {
	return slices.ContainsFunc(k.messages, func(m types.Message) bool { return m.ID == id })
}

// communityPicture sends three pictures of 1.5 MiB in one thread: with the history that the
// client repeats, the third request is larger than a body may be.
func communityPicture(t *testing.T, s *server) {
	k := newTalk(t, s)
	for i := range 3 {
		bytes := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune('a'+i)), 1150<<10)))
		k.finished(k.send([]types.InputContent{
			{Type: types.InputContentTypeText, Text: "text"},
			{Type: types.InputContentTypeImage, Source: &types.InputContentSource{Type: "data", Value: bytes, MimeType: "image/png"}},
		}))
	}
	page := k.again()
	page.finished(page.run(nil, nil))
	raw, _ := json.Marshal(page.messages)
	if n := strings.Count(string(raw), `"type":"image"`); n != 3 {
		t.Errorf("a new page has %d pictures", n)
	}
}

// communityReload leaves after every event and comes back as a new page. Whenever it does, it
// ends with what the first page would have had.
func communityReload(t *testing.T, s *server) {
	for cut := 1; ; cut++ {
		k := newTalk(t, s)
		k.messages = []types.Message{{ID: uuid.NewString(), Role: types.RoleUser, Content: "all"}}
		seen := 0
		k.run(nil, func(events.Event) bool { seen++; return seen == cut })
		page := k.again()
		page.run(nil, nil)
		if len(page.open) != 1 {
			t.Fatalf("cut after %d: %d questions are open", cut, len(page.open))
		}
		again := page.again()
		again.run(nil, nil)
		if page.picture() != again.picture() || !strings.Contains(page.picture(), "规划行程") {
			t.Errorf("cut after %d: one page has\n%sand another\n%s", cut, page.picture(), again.picture())
		}
		if seen < cut {
			t.Logf("%d cuts", cut-1)
			return
		}
	}
}

func communityError(t *testing.T, s *server) {
	k := newTalk(t, s)
	a := k.send("error")
	if a.last().Type() != events.EventTypeRunError {
		t.Errorf("ends with %s", a.last().Type())
	}
	k.finished(k.send("text"))
}

func communityKilled(t *testing.T, s *server) {
	k := newTalk(t, s)
	k.messages = []types.Message{{ID: uuid.NewString(), Role: types.RoleUser, Content: "slow"}}
	k.run(nil, func(ev events.Event) bool { return ev.Type() == events.EventTypeTextMessageContent })
	s.kill()
	s.start()
	page := k.again()
	if a := page.run(nil, nil); a.last().Type() != events.EventTypeRunError {
		raw, _ := a.last().ToJSON()
		t.Errorf("half an answer ends, after a reload, with %s", raw)
	}
	if !strings.HasPrefix(page.words(), "1 ") {
		t.Errorf("the half of the answer that was seen is %q", page.words())
	}
	page.finished(page.send("text"))
}
