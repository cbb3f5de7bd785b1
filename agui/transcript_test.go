package agui_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/agui"
)

// TestWithoutTranscript: a list of messages, as LangChain or AG-UI has them, is no state; an application's own list of that
// name is.
func TestWithoutTranscript(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{
		`{"messages":[{"type":"human","content":"hi","id":"1"},{"type":"ai","content":"","tool_calls":[]}],"n":1}`:                       `{"n":1}`,
		`{"n":1.50,"messages":[{"id":"1","role":"user","content":"hi"},{"id":"2","role":"assistant","toolCalls":[]}],"z":"<&>"}`:         `{"n":1.50,"z":"<&>"}`,
		`{"messages":[{"lc":1,"type":"constructor","id":["langchain_core","messages","HumanMessage"],"kwargs":{"content":"hi"}}],"n":1}`: `{"n":1}`,
		`{"messages":[{"type":"remove","id":"1"}]}`: `{}`,
		`{"messages":[]}`: `{"messages":[]}`,
		`{"messages":[{"from":"ada","subject":"tea"}]}`:                             `{"messages":[{"from":"ada","subject":"tea"}]}`,
		`{"messages":[{"role":"user","content":"hi"},{"from":"ada"}]}`:              `{"messages":[{"role":"user","content":"hi"},{"from":"ada"}]}`,
		`{"messages":[{"type":"error","content":"disk full"}]}`:                     `{"messages":[{"type":"error","content":"disk full"}]}`,
		`{"messages":"none","inner":{"messages":[{"role":"user","content":"hi"}]}}`: `{"messages":"none","inner":{"messages":[{"role":"user","content":"hi"}]}}`,
		`[{"messages":[]}]`: `[{"messages":[]}]`, `null`: `null`, ``: ``, `{"messages":`: `{"messages":`,
	} {
		if got := string(agui.WithoutTranscript(json.RawMessage(state))); got != want {
			t.Errorf("%s becomes %s", state, got)
		}
	}
}

// TestPatchWithoutTranscript: operations on a conversation that is not in the state go, the others stay as they came.
func TestPatchWithoutTranscript(t *testing.T) {
	t.Parallel()
	const said = `{"type":"human","content":"hi"}`
	for name, c := range map[string]struct{ state, ops, want string }{
		"append":                {`{"n":1}`, `[{"op":"add","path":"/messages/-","value":` + said + `},{"op":"replace","path":"/n","value":2.0}]`, `[{"op":"replace","path":"/n","value":2.0}]`},
		"only it":               {`{}`, `[{"op":"add","path":"/messages","value":[` + said + `]}]`, ``},
		"a text of it":          {`{"n":1}`, `[{"op":"replace","path":"/messages/3/content","value":"x"},{"op":"test","path":"/messages/0/id","value":"1"},{"op":"remove","path":"/messages"}]`, ``},
		"an empty list begins":  {`{"messages":[]}`, `[{"op":"add","path":"/messages/-","value":` + said + `}]`, ``},
		"an application's own":  {`{"messages":[]}`, `[{"op":"add","path":"/messages/-","value":{"from":"ada"}}]`, `[{"op":"add","path":"/messages/-","value":{"from":"ada"}}]`},
		"a new list of its own": {`{}`, `[{"op":"add","path":"/messages","value":[]}]`, `[{"op":"add","path":"/messages","value":[]}]`},
		"another key":           {`{}`, `[{"op":"add","path":"/messages_read","value":1}]`, `[{"op":"add","path":"/messages_read","value":1}]`},
		"the whole state":       {`{"n":1}`, `[{"op":"replace","path":"","value":{"n":2,"messages":[` + said + `]}}]`, `[{"op":"replace","path":"","value":{"n":2}}]`},
		"no patch":              {`{}`, `{"messages":1}`, `{"messages":1}`},
	} {
		d, err := agui.NewStateDoc(json.RawMessage(c.state))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(d.PatchWithoutTranscript(json.RawMessage(c.ops))); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestS47TooLargeKeysIsLinear: a state of many keys is named without walking them for each. A quadratic search of these took minutes.
func TestS47TooLargeKeysIsLinear(t *testing.T) {
	t.Parallel()
	state := func(keys int) json.RawMessage {
		var b strings.Builder
		for i := range keys {
			fmt.Fprintf(&b, `,"%x":0`, i)
		}
		return json.RawMessage("{" + b.String()[1:] + "}")
	}
	few, many := state(30_000), state(240_000)
	took := func(raw json.RawMessage) time.Duration {
		least := time.Hour
		for range 3 {
			began := time.Now()
			if len(agui.TooLargeKeys(raw)) == 0 {
				t.Fatal("no key is named")
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	if a, b := took(few), took(many); b > 8*5*a { // eight times as many
		t.Errorf("eight times the keys take %v, after %v", b, a)
	}
}

// TestTooLargeKeys: the keys without which a state would fit, the largest first.
func TestTooLargeKeys(t *testing.T) {
	t.Parallel()
	big, half := `"`+strings.Repeat("x", agui.MaxStateBytes)+`"`, `"`+strings.Repeat("x", agui.MaxStateBytes/2)+`"`
	for state, want := range map[string][]string{
		`{"a":1}`: nil, `{"a":1,"docs":` + big + `,"b":2}`: {"docs"}, `{"a":` + half + `,"docs":` + big + `,"b":` + half + `}`: {"docs", "a"}, `[` + big + `]`: nil,
	} {
		if got := agui.TooLargeKeys(json.RawMessage(state)); !slices.Equal(got, want) {
			t.Errorf("%.40s: %q", state, got)
		}
	}
}
