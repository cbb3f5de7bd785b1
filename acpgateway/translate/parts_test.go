package translate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"aqueduct/acpgateway/translate"
	"aqueduct/agui"
)

func news(id, more string) string {
	return `{"sessionUpdate":"tool_call_update","toolCallId":"` + id + `"` + more + `}`
}

// It returns the arguments in outs, and the names of CUSTOM events.
func told(outs []translate.Out) (args, customs []string) {
	for _, o := range outs {
		switch e := o.Event.(type) {
		case *agui.ToolCallArgs:
			args = append(args, e.Delta)
		case *agui.ToolCallChunk:
			args = append(args, e.Delta)
		case *agui.Custom:
			customs = append(customs, e.Name)
		}
	}
	return args, customs
}

// TestArgumentsInParts: opencode names the directory first and the command later; its request
// for permission holds both.
func TestArgumentsInParts(t *testing.T) {
	t.Parallel()
	const parts, all = `,"status":"in_progress","rawInput":{"cwd":"/w"}`, `,"status":"in_progress","rawInput":{"command":"make test","cwd":"/w","description":"Runs the tests"}`
	const done = `,"status":"completed","rawInput":{"command":"make test","cwd":"/w","description":"Runs the tests"},"rawOutput":{"output":"ok"}`
	asked := json.RawMessage(`{"request_id":"0","tool_call":{"toolCallId":"c","rawInput":{"command":"make test","cwd":"/w"}},"options":[{"optionId":"o","kind":"allow_once"}]}`)

	tr := translate.New(translate.Config{})
	outs := tr.Permission(feed(tr, call("c", `,"kind":"execute","status":"pending","rawInput":{}`), news("c", parts)), asked)
	outs = append(outs, feed(tr, news("c", all), news("c", done))...)
	outs = tr.PromptEnd(outs, "end_turn", nil)
	if args, customs := told(outs); len(args) != 1 || args[0] != `{"command":"make test","cwd":"/w"}` || len(customs) != 0 {
		t.Errorf("asked: %q %q", args, customs)
	}

	tr = translate.New(translate.Config{}) // where the request holds the command alone, and comes between the parts
	outs = tr.Permission(feed(tr, call("c", `,"kind":"execute","status":"pending","rawInput":{}`), news("c", parts)),
		json.RawMessage(`{"request_id":"0","tool_call":{"toolCallId":"c","rawInput":{"command":"make test"}},"options":[{"optionId":"o","kind":"allow_once"}]}`))
	outs = append(outs, feed(tr, news("c", all), news("c", done))...)
	if args, customs := told(outs); len(args) != 1 || args[0] != `{"command":"make test","cwd":"/w"}` || len(customs) != 0 {
		t.Errorf("between the parts: %q %q", args, customs)
	}

	tr = translate.New(translate.Config{})
	outs = feed(tr, call("c", `,"kind":"execute","status":"pending","rawInput":{}`), news("c", parts), news("c", all), news("c", done))
	if args, customs := told(outs); len(args) != 1 || !strings.Contains(args[0], `"make test"`) || len(customs) != 0 {
		t.Errorf("not asked: %q %q", args, customs)
	}
}

// TestOnlyWhatContradictsTheQuestionIsFlagged, and nothing else: acp.arguments_changed is the
// one alarm that matters.
func TestOnlyWhatContradictsTheQuestionIsFlagged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		own, asked, now string
		flagged         bool
	}{
		"the same":                       {`{"command":"ls"}`, `{"command":"ls"}`, `{"command":"ls"}`, false},
		"in another order":               {`{}`, `{"a":1,"b":[2]}`, `{"b":[2],"a":1}`, false},
		"explained further":              {`{}`, `{"command":"ls"}`, `{"command":"ls","description":"Lists","timeout":9}`, false},
		"a part":                         {`{}`, `{"command":"ls","cwd":"/w"}`, `{"cwd":"/w"}`, false},
		"another vocabulary":             {`{"filePath":"/w/a","content":"x"}`, `{"filepath":"/w/a","diff":"+x"}`, `{"filePath":"/w/a","content":"x"}`, false},
		"the path in the workspace":      {`{}`, `{"file_path":"/w/src/a"}`, `{"filePath":"src/a"}`, false},
		"the question has none":          {`{"command":"ls"}`, `{}`, `{"command":"ls"}`, false},
		"another command":                {`{}`, `{"command":"ls"}`, `{"command":"rm -rf /"}`, true},
		"another command, other name":    {`{}`, `{"command":"ls"}`, `{"cmd":"rm -rf /"}`, true},
		"another directory":              {`{}`, `{"command":"ls","cwd":"/w"}`, `{"command":"ls","cwd":"/etc"}`, true},
		"a directory nobody spoke of":    {`{}`, `{"command":"ls"}`, `{"command":"ls","cwd":"/etc"}`, true},
		"another content":                {`{"filePath":"/w/a","content":"x"}`, `{"filepath":"/w/a","diff":"+x"}`, `{"filePath":"/w/a","content":"y"}`, true},
		"another file":                   {`{}`, `{"file_path":"/w/src/a"}`, `{"filePath":"rc/a"}`, true},
		"out of the workspace":           {`{}`, `{"file_path":"/w/../etc/a"}`, `{"filePath":"../etc/a"}`, true},
		"told before, asked otherwise":   {`{"command":"rm -rf /"}`, `{"command":"ls"}`, `{"command":"rm -rf /"}`, true},
		"the question has none, and now": {`{"cwd":"/w"}`, `{}`, `{"command":"rm -rf /","cwd":"/w"}`, true},
	} {
		for _, restart := range []bool{false, true} {
			tr := translate.New(translate.Config{Namespace: "n"})
			feed(tr, call("c", `,"kind":"execute","status":"pending","rawInput":`+c.own))
			tr.Permission(nil, json.RawMessage(`{"request_id":"0","tool_call":{"toolCallId":"c","rawInput":`+c.asked+`},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}`))
			if restart {
				raw, ok := tr.Snapshot(nil)
				if !ok {
					t.Fatal("too much")
				}
				tr = translate.New(translate.Config{Namespace: "n", Resume: raw})
			}
			outs := feed(tr, news("c", `,"status":"in_progress","rawInput":`+c.now), news("c", `,"status":"completed","rawInput":`+c.now))
			_, customs := told(outs)
			if flagged := len(customs) == 1 && customs[0] == "acp.arguments_changed"; flagged != c.flagged || len(customs) > 1 {
				t.Errorf("%s, restart %v: %q", name, restart, customs)
			}
		}
	}
}

// TestAnotherDiffIsFlagged: where a question showed a change and no arguments, another change is
// what contradicts it. How the result shows it is its own matter.
func TestAnotherDiffIsFlagged(t *testing.T) {
	t.Parallel()
	diff := func(text string) string {
		return `,"content":[{"type":"diff","path":"/w/a","oldText":"x","newText":"` + text + `"}]`
	}
	for _, restart := range []bool{false, true} {
		tr := translate.New(translate.Config{Namespace: "n"})
		feed(tr, call("c", `,"kind":"edit","status":"in_progress"`+diff("y")))
		tr.Permission(nil, json.RawMessage(`{"request_id":"0","tool_call":{"toolCallId":"c","locations":[{"path":"/w/a"}]},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}`))
		if restart {
			raw, _ := tr.Snapshot(nil)
			tr = translate.New(translate.Config{Namespace: "n", Resume: raw})
		}
		if _, customs := told(feed(tr, news("c", diff("y")))); len(customs) != 0 {
			t.Errorf("the same: %q", customs)
		}
		if _, customs := told(feed(tr, news("c", diff("evil")), news("c", `,"status":"completed"`+diff("whole file")))); len(customs) != 1 {
			t.Errorf("another: %q", customs)
		}
	}
}

// asked is the Question that a request for permission makes after some updates.
func asked(request string, before ...string) *translate.Question {
	tr := translate.New(translate.Config{Namespace: "n"})
	feed(tr, before...)
	outs := tr.Permission(nil, json.RawMessage(`{"request_id":"0","tool_call":`+request+`,"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}`))
	return outs[len(outs)-1].Question
}

// TestAQuestionCoversTheChange: two questions about one file with different contents differ in
// their arguments, so in their hash, and one standing answer does not cover both.
func TestAQuestionCoversTheChange(t *testing.T) {
	t.Parallel()
	diff := func(text string) string {
		raw, _ := json.Marshal(text)
		return `"content":[{"type":"diff","path":"/w/a","oldText":"x","newText":` + string(raw) + `}]`
	}
	codex := func(text string) *translate.Question { // its diff is in the tool_call, not in the request
		return asked(`{"toolCallId":"c","title":"Edit files","kind":"edit","status":"pending","locations":[{"path":"/w/a"}]}`,
			call("c", `,"title":"Edit files","kind":"edit","status":"in_progress",`+diff(text)))
	}
	beside := func(text string) *translate.Question { // arguments that name the file only
		return asked(`{"toolCallId":"c","kind":"edit","rawInput":{"path":"/w/a"},` + diff(text) + `}`)
	}
	long := strings.Repeat("x", 300<<10)
	for name, ask := range map[string]func(string) *translate.Question{"codex": codex, "beside": beside} {
		for _, texts := range [][2]string{{"good", "evil"}, {long + "good", long + "evil"}} {
			one, other := ask(texts[0]), ask(texts[1])
			if string(one.Args) == string(other.Args) {
				t.Errorf("%s: the same arguments for two contents: %.200s", name, one.Args)
			}
			if again := ask(texts[0]); string(one.Args) != string(again.Args) {
				t.Errorf("%s: the same is not the same", name)
			}
			if len(one.Args) > 64<<10 {
				t.Errorf("%s: %d bytes", name, len(one.Args))
			}
		}
		if q := ask("good"); !strings.Contains(string(q.Args), `"newText":"good"`) || !strings.Contains(string(q.Args), `"/w/a"`) {
			t.Errorf("%s: a person does not see the change: %s", name, q.Args)
		}
	}
	for cwd, want := range map[string]string{"/w": `{"command":"ls","cwd":"/w"}`, "/etc": `{"command":"ls","cwd":"/etc"}`} {
		q := asked(`{"toolCallId":"c","kind":"execute","rawInput":{"command":"ls"}}`, call("c", `,"kind":"execute","rawInput":{"cwd":"`+cwd+`"}`))
		if string(q.Args) != want {
			t.Errorf("%s, not %s", q.Args, want)
		}
	}
	if q := asked(`{"toolCallId":"c","kind":"edit","rawInput":{"file_path":"/w/a","content":"good"},` + diff("good") + `}`); string(q.Args) != `{"file_path":"/w/a","content":"good"}` {
		t.Errorf("arguments that hold the change are not left as they are: %s", q.Args)
	}
}

// TestOutputOfAnAgentsOwnCommands: codex sends it piece by piece in _meta, under this name or the
// other, and has in rawOutput only how a command ended.
func TestOutputOfAnAgentsOwnCommands(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"terminal_output_delta", "terminal_output"} {
		out := func(text string) string {
			return news("c", `,"_meta":{"`+key+`":{"terminal_id":"c","data":"`+text+`"}}`)
		}
		outs := feed(translate.New(translate.Config{}), call("c", `,"kind":"execute","status":"in_progress","rawInput":{"command":"make","cwd":"/w"}`),
			out(`one\n`), out(`two\n`), news("c", `,"status":"failed","rawOutput":{"exit_code":2}`))
		result := ""
		for _, o := range outs {
			if r, ok := o.Event.(*agui.ToolCallResult); ok {
				result = r.Content.String()
			}
		}
		if result != "one\ntwo\n(exit code 2)" {
			t.Errorf("%s: %q", key, result)
		}
	}
}
