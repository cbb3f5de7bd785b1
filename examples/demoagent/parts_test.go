package demoagent_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"aqueduct/examples/demoagent"
)

var fast = demoagent.Options{}

// TestParts fixes the order in which each part sends its frames.
func TestParts(t *testing.T) {
	for _, c := range []struct{ prompt, kinds string }{
		{"text", "delta done"},
		{"think", "thought delta done"},
		{"tool", "delta tool_call tool_result tool_call tool_result delta done"},
		{"state", "state state_snapshot delta state_delta delta state_delta delta state_delta delta state done"},
		{"activity", "delta activity delta activity delta activity delta done"},
		{"step", "step delta step delta custom step delta done"},
		{"ask", "delta ask done"},
		{"asks", "delta ask done"},
		{"hold", "delta ask delta done"},
		{"prefs", "delta ask done"},
		{"client_tool", "delta done"},
		{"all", "state_snapshot thought delta tool_call tool_result state_delta activity ask done"},
		{"slow", "delta done"},
		{"flood", "delta done"},
		{"error", "delta error"},
		{"hello there", "delta done"},
	} {
		t.Run(c.prompt, func(t *testing.T) {
			got := kinds(invoke(t, fast, prompt(c.prompt)))
			if got != c.kinds {
				t.Errorf("got  %s\nwant %s", got, c.kinds)
			}
		})
	}
}

// TestFirstWordExactly keeps ordinary sentences from being taken for commands.
func TestFirstWordExactly(t *testing.T) {
	tour := text(invoke(t, fast, prompt("hello")), "delta")
	for _, word := range strings.Fields("text think tool state activity step ask asks hold prefs client_tool all slow flood error") {
		if !strings.Contains(tour, "`"+word+"`") {
			t.Errorf("the tour does not list %s", word)
		}
	}
	for _, p := range []string{"", "Text", "text,", "texts", "please text", "tools"} {
		if got := text(invoke(t, fast, prompt(p)), "delta"); got != tour {
			t.Errorf("%q does not get the tour but %q", p, got)
		}
	}
	for _, p := range []string{"error", " error ", "error please", "error\nnow"} {
		if got := kinds(invoke(t, fast, prompt(p))); got != "delta error" {
			t.Errorf("%q gets %s", p, got)
		}
	}
}

// TestPromptIsFound looks for the prompt wherever a call may carry it.
func TestPromptIsFound(t *testing.T) {
	parts := []any{map[string]any{"type": "text", "text": "err"}, map[string]any{"type": "image"}, map[string]any{"type": "text", "text": "or"}}
	for name, call := range map[string]map[string]any{
		"input message":       {"input_message": user("error"), "messages": []any{user("text")}},
		"content parts":       {"input_message": map[string]any{"role": "user", "content": parts}},
		"last user message":   {"messages": []any{user("text"), user("error"), map[string]any{"role": "assistant", "content": "text"}}},
		"input is not a user": {"input_message": map[string]any{"role": "tool", "content": "text"}, "messages": []any{user("error")}},
	} {
		if got := kinds(invoke(t, fast, body(call))); got != "delta error" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestDoneTellsUsage(t *testing.T) {
	frames := invoke(t, fast, prompt("flood 7"))
	got := field[map[string]int](frames[len(frames)-1], "usage")
	if got["input_tokens"] != 2 || got["output_tokens"] != 7 || got["total_tokens"] != 9 {
		t.Errorf("usage %v", got)
	}
}

// TestToolResults has an answer for every call, one of them JSON and one of them words.
func TestToolResults(t *testing.T) {
	frames := invoke(t, fast, prompt("tool"))
	calls, results := named(frames, "tool_call"), named(frames, "tool_result")
	if len(calls) != 2 || len(results) != 2 {
		t.Fatalf("%d calls, %d results", len(calls), len(results))
	}
	for i := range calls {
		if field[string](calls[i], "id") != field[string](results[i], "id") {
			t.Errorf("call %s, result %s", calls[i].data, results[i].data)
		}
	}
	if field[map[string]any](results[0], "content")["temp"] != 25.0 || field[string](results[1], "content") == "" {
		t.Errorf("results %v", results)
	}
}

// TestOneStateKeyPerDelta: TDesign Chat drops operations on a second key.
func TestOneStateKeyPerDelta(t *testing.T) {
	for _, p := range []string{"state", "all"} {
		deltas := named(invoke(t, fast, prompt(p)), "state_delta")
		if len(deltas) == 0 {
			t.Errorf("%s sends no state_delta", p)
		}
		for _, d := range deltas {
			keys := map[string]bool{}
			for _, op := range field[[]map[string]any](d, "delta") {
				keys[strings.Split(op["path"].(string), "/")[1]] = true
			}
			if len(keys) != 1 {
				t.Errorf("%s: %s", p, d.data)
			}
		}
	}
}

func TestErrorHasItsCode(t *testing.T) {
	f := named(invoke(t, fast, prompt("error")), "error")[0]
	if field[string](f, "code") != "demo_error" || field[string](f, "message") == "" {
		t.Errorf("error %s", f.data)
	}
}

func TestHealthAndRefusals(t *testing.T) {
	h := demoagent.Handler()
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{http.MethodGet, "/health", "", http.StatusOK},
		{http.MethodPost, "/invoke", "not json", http.StatusBadRequest},
		{http.MethodGet, "/invoke", "", http.StatusMethodNotAllowed},
		{http.MethodGet, "/", "", http.StatusNotFound},
	} {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(c.method, c.path, strings.NewReader(c.body)))
		if rec.Code != c.want {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, rec.Code, c.want)
		}
	}
}
