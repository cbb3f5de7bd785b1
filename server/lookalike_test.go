package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

// lookAlikes are texts that would deceive a reader.
var lookAlikes = map[string]string{
	"bidi": "run \u202etxt.exe\u202c safely \u2066x\u2069", "ANSI": "\x1b[2J\x1b[31mharmless\x1b[0m\x07", "newlines": "a" + strings.Repeat("\n", 10_000) + "rm -rf /",
	"zero width": "ls\u200b\u200d\ufeff -l", "separators": "a\u2028event: x\u2029data: y\r\n\r\ndata: z", "NUL": "a\x00b", "markup": `<img src=x onerror=alert(1)>[a](javascript:b)`,
	"length": strings.Repeat("long ", 100_000),
}

// askers ask for something under such a name.
var askers = map[string]func(t *testing.T, text string) *env{
	"HTTP agent": func(t *testing.T, text string) *env {
		args, _ := json.Marshal(map[string]string{"command": text})
		return newEnv(t, func(_ context.Context, say func(...bridge.Output), _ bridge.Call, answers []approval.Delivery) {
			if len(answers) == 0 {
				q := permission("q1")
				q.Question.Title, q.Question.Tool, q.Question.Options[0].Label, q.Question.Args = text, text, text, args
				say(q)
			}
		})
	},
	"ACP agent": func(t *testing.T, text string) *env {
		h, _ := newACPEnv(t, text)
		return h
	},
}

// named is what a person reads of a question; its arguments are JSON and apart.
type named struct {
	Title    string
	ToolName string `json:"tool_name"`
	Tool     string
	Message  string
	Summary  string `json:"args_summary"`
	Options  []struct{ Label string }
}

func (n named) texts() []string {
	all := []string{n.Title, n.ToolName, n.Tool, n.Message, n.Summary}
	for _, o := range n.Options {
		all = append(all, o.Label)
	}
	return all
}

// read is what a surface showed.
func read[T any](t *testing.T, raw string) (out T) {
	t.Helper()
	if err := json.Unmarshal([]byte(raw), &out); err != nil {
		t.Fatalf("%v: %.300s", err, raw)
	}
	return out
}

// TestToolLookAlikes: text that would deceive a reader of a title, a tool's name or an option is
// made visible, on one line and short, wherever the question is shown; the arguments, which
// show everything, are JSON (S19, S28).
func TestToolLookAlikes(t *testing.T) {
	t.Parallel()
	for asker, newAsker := range askers {
		for name, text := range lookAlikes {
			t.Run(asker+"/"+name, func(t *testing.T) {
				t.Parallel()
				h := newAsker(t, text)
				raw := h.do("POST", "/api/agui/chat", inputBody("T", "R", "go")).body
				if strings.ContainsAny(raw, "\x00\x1b\r") {
					t.Error("the stream holds control characters as they are")
				}
				id := h.question()
				shown := map[string][]string{}
				for _, f := range stream(t, raw) {
					switch {
					case f.typ() == "TOOL_CALL_ARGS" && f.field("toolCallId") == id:
						shown["chat"] = append(shown["chat"], read[named](t, f.field("delta")).texts()...)
					case f.typ() == "RUN_FINISHED":
						end := read[struct{ Outcome struct{ Interrupts []named } }](t, f.data)
						shown["interrupt"] = append(shown["interrupt"], end.Outcome.Interrupts[0].texts()...)
					}
				}
				list := read[struct{ Approvals []named }](t, h.do("GET", "/api/approvals", "").body)
				shown["inbox"] = list.Approvals[0].texts()
				page := h.permissions("/ws/permissions/T").next("agent_tool_permission_request")
				shown["permission socket"] = read[struct{ Data named }](t, page.raw).Data.texts()
				shown["ingress"] = read[named](t, last(h.channel("").until("approval_required")).raw).texts()
				visit, _ := h.visit(h.link())
				shown["link"] = strings.Split(visit.body, "\n")
				for _, where := range []string{"chat", "interrupt", "inbox", "permission socket", "ingress", "link"} {
					if strings.Join(shown[where], "") == "" {
						t.Errorf("%s shows nothing", where)
					}
					for _, got := range shown[where] {
						if len([]rune(got)) > 520 && where != "link" || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
							t.Errorf("%s shows %.600q", where, got)
						}
					}
				}
				h.decide(id, `{"decision":"reject"}`)
				h.idle("T")
			})
		}
	}
}
