package server_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

// deceiving asks with everything that shows otherwise than it runs.
func deceiving(_ context.Context, say func(...bridge.Output), _ bridge.Call, answers []approval.Delivery) {
	if len(answers) > 0 {
		return
	}
	say(bridge.Output{Question: &approval.Request{
		UpstreamID: "q", Kind: approval.AskPermission, Tool: "pay\u202e", Title: "Pay \u200b1\x1b[2J", Args: json.RawMessage(
			"{\"amount\":9007199254740993,\"most\":1e400,\"to\":\"bob\",\"to\":\"eve\",\"note\":\"x\u202ey\u200bz\u00a0\x7f\"}"),
		Options: []approval.Option{{ID: "a", Label: "Reject", Kind: "allow_once"}, {ID: "b", Label: "No", Kind: "reject_once"}},
	}})
}

// TestS19EverySurfaceShowsWhatRuns: numbers, keys and characters that a client would show otherwise are in a text that the
// server made, the same everywhere, and flagged; a label does not decide.
func TestS19EverySurfaceShowsWhatRuns(t *testing.T) {
	t.Parallel()
	want := []string{"bidi_character", "control_character", "duplicate_key", "invisible_character", "label_contradicts_kind", "number_precision", "number_range"}
	h := newEnv(t, deceiving)
	v1 := h.do("POST", "/api/agui/chat", inputBody("T", "R", "hi")).body
	id := h.question()
	var rest struct {
		Tool     string   `json:"tool_name"`
		Title    string   `json:"title"`
		Text     string   `json:"args_text"`
		Warnings []string `json:"warnings"`
	}
	raw := h.do("GET", "/api/approvals/"+id, "")
	if err := json.Unmarshal([]byte(raw.body), &rest); err != nil {
		t.Fatal(err)
	}
	slices.Sort(rest.Warnings)
	if !slices.Equal(rest.Warnings, want) {
		t.Errorf("warnings %v", rest.Warnings)
	}
	for _, part := range []string{"9007199254740993", "1e400", `"to": "bob"`, `"to": "eve"`, "x⟨U+202E⟩y⟨U+200B⟩z⟨U+00A0⟩⟨U+007F⟩"} {
		if !strings.Contains(rest.Text, part) {
			t.Errorf("%s is not in %s", part, rest.Text)
		}
	}
	if strings.ContainsAny(rest.Tool+rest.Title+rest.Text, "\u202e\u200b\x1b\x7f\u00a0") {
		t.Errorf("%q %q %q", rest.Tool, rest.Title, rest.Text)
	}
	text, _ := json.Marshal(rest.Text)
	escaped, _ := json.Marshal(string(text)) // as it stands in a delta
	surfaces := map[string]string{
		"AG-UI":       v1,
		"list":        h.do("GET", "/api/approvals", "").body,
		"TDesign":     h.do("POST", "/api/agui/chat", `{"prompt":"x"}`, "x-thread-id", "D").body,
		"permissions": h.permissions("/ws/permissions/T").next("agent_tool_permission_request").raw,
	}
	for name, said := range surfaces {
		if !strings.Contains(said, strings.Trim(string(text), `"`)) && !strings.Contains(said, strings.Trim(string(escaped), `"\`)) {
			t.Errorf("%s does not show the text: %.3000s", name, said)
		}
		if !strings.Contains(said, "label_contradicts_kind") || !strings.Contains(said, "number_range") {
			t.Errorf("%s has no warnings: %.3000s", name, said)
		}
	}
	h.decide(id, `{"option_id":"b"}`)
	if got := h.do("GET", "/api/approvals/"+id, "").body; !strings.Contains(got, "REJECTED") {
		t.Errorf("%s", got)
	}
}
