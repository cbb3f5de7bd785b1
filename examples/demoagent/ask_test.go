package demoagent_test

import (
	"slices"
	"strings"
	"testing"
)

// TestAskOffersItsOptions: the question states what each option does, and done waits for it.
func TestAskOffersItsOptions(t *testing.T) {
	frames := invoke(t, fast, prompt("ask"))
	ask := named(frames, "ask")[0]
	if field[string](ask, "kind") != "permission" || field[string](ask, "tool") == "" || field[string](ask, "title") == "" {
		t.Errorf("ask %s", ask.data)
	}
	var kinds []string
	for _, o := range field[[]map[string]string](ask, "options") {
		kinds = append(kinds, o["kind"])
	}
	if !slices.Equal(kinds, []string{"allow_once", "allow_always", "reject_once"}) {
		t.Errorf("options %v", kinds)
	}
	wantPending(t, frames, field[string](ask, "id"))
}

func wantPending(t *testing.T, frames []frame, ids ...string) {
	t.Helper()
	last := frames[len(frames)-1]
	if got := field[[]string](last, "pending"); last.name != "done" || !slices.Equal(got, ids) {
		t.Errorf("ends with %s %s, want pending %v", last.name, last.data, ids)
	}
}

// TestAnswers goes on from a body alone: each call is a fresh agent's.
func TestAnswers(t *testing.T) {
	yes := map[string]any{"optionId": "once", "approved": true, "kind": "allow_once"}
	no := map[string]any{"optionId": "no", "approved": false, "kind": "reject_once"}
	for _, c := range []struct{ name, call, says string }{
		{"ask yes", answered("ask", resolved("ask_delete", yes)), "You allowed it"},
		{"ask no", answered("ask", resolved("ask_delete", no)), "You said no"},
		{"ask nobody", answered("ask", cancelled("ask_delete")), "Nobody decided"},
		{"asks both", answered("asks", resolved("ask_mail", yes), resolved("ask_pay", no)), "took care of the mail. You said no, so I left the invoice"},
		{"hold both", answered("hold", resolved("ask_mail", no), resolved("ask_pay", yes)), "left the mail alone. You allowed it, so I took care of the invoice"},
		{"prefs", answered("prefs", resolved("ask_prefs", map[string]any{"choice": "comfort"})), `Noted: {"choice":"comfort"}`},
		{"prefs word", answered("prefs", resolved("ask_prefs", "comfort")), "Noted: comfort"},
		{"prefs declined", answered("prefs", cancelled("ask_prefs")), "economy"},
		{"tool", answered("client_tool", resolved("call_client", map[string]any{"content": "42"})), "answered: 42"},
		{"tool JSON", answered("client_tool", resolved("call_client", map[string]any{"content": []int{1}})), "answered: [1]"},
		{"tool declined", answered("client_tool", cancelled("call_client")), "gave no result"},
		{"all", answered("all", resolved("ask_travel", map[string]any{"choice": "舒适型"})), "根据您的偏好 舒适型"},
		{"all declined", answered("all", cancelled("ask_travel")), "根据您的偏好 经济型"},
	} {
		t.Run(c.name, func(t *testing.T) {
			frames := invoke(t, fast, c.call)
			if got := text(frames, "delta"); !strings.Contains(got, c.says) {
				t.Errorf("says %q, not %q", got, c.says)
			}
			wantPending(t, frames)
		})
	}
}

// TestAsksWaitsForTheRest: half an answer is no answer to the other half.
func TestAsksWaitsForTheRest(t *testing.T) {
	frames := invoke(t, fast, prompt("asks"))
	if n := len(named(frames, "ask")); n != 2 {
		t.Fatalf("%d questions", n)
	}
	wantPending(t, frames, "ask_mail", "ask_pay")
	frames = invoke(t, fast, answered("asks", cancelled("ask_pay")))
	wantPending(t, frames, "ask_mail")
}

// TestInputsCarryASchema: a form can be drawn, and the answer be checked, without knowing the agent.
func TestInputsCarryASchema(t *testing.T) {
	for _, p := range []string{"prefs", "all"} {
		ask := named(invoke(t, fast, prompt(p)), "ask")[0]
		schema := field[map[string]any](ask, "response_schema")
		if field[string](ask, "kind") != "input" || field[string](ask, "name") != "collect_preferences" ||
			schema["type"] != "object" || schema["required"] == nil {
			t.Errorf("%s asks %s", p, ask.data)
		}
	}
}

// TestClientToolTakesTheFirst calls the first declared tool with arguments its schema allows.
func TestClientToolTakesTheFirst(t *testing.T) {
	parameters := map[string]any{
		"type":     "object",
		"required": []string{"where", "n", "deep", "mode", "on", "list", "free"},
		"properties": map[string]any{
			"where": map[string]any{"type": "string"},
			"n":     map[string]any{"type": "integer"},
			"mode":  map[string]any{"enum": []string{"fast", "slow"}},
			"on":    map[string]any{"type": "boolean", "default": false},
			"list":  map[string]any{"type": "array"},
			"deep":  map[string]any{"type": "object", "required": []string{"x"}, "properties": map[string]any{"x": map[string]any{"type": "number"}}},
			"extra": map[string]any{"type": "string"},
		},
	}
	frames := invoke(t, fast, body(map[string]any{
		"input_message": user("client_tool"),
		"tools":         []any{map[string]any{"name": "pick_color", "parameters": parameters}, map[string]any{"name": "other"}},
	}))
	call := named(frames, "call_client_tool")[0]
	want := `{"id":"call_client","name":"pick_color","args":{"deep":{"x":1},"free":"demo","list":[],"mode":"fast","n":1,"on":false,"where":"demo"}}`
	if call.data != want {
		t.Errorf("got  %s\nwant %s", call.data, want)
	}
	wantPending(t, frames, "call_client")
}
