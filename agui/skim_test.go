package agui

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

const skimTestHeld = 100 << 10

// skimKnows is a thread T that has all messages whose id begins with k.
func skimKnows(t *testing.T) Skim {
	return Skim{Held: skimTestHeld, Messages: 50, Known: func(thread string, ids []string) (map[string]bool, error) {
		known := make(map[string]bool)
		for _, id := range ids {
			known[id] = thread == "T" && strings.HasPrefix(id, "k")
		}
		return known, nil
	}}
}

func skimMessage(id string, size int) string {
	return fmt.Sprintf(`{"id":%q,"role":"user","content":"\"%s"}`, id, strings.Repeat("x", size))
}

// skimmedInput reads the input and checks that what is given is one.
func skimmedInput(t *testing.T, s Skim, body string) (*RunAgentInput, int, error) {
	t.Helper()
	given, err := s.Read(iotest.HalfReader(strings.NewReader(body)))
	if err != nil {
		return nil, 0, err
	}
	if err := CheckJSON(given, MaxJSONDepth); err != nil {
		t.Fatalf("%v: %.300s", err, given)
	}
	in, err := DecodeInput(given)
	return in, len(given), err
}

// TestSkim: known messages do not count, whatever order the members have.
func TestSkim(t *testing.T) {
	var list []string
	for i := range 20 {
		list = append(list, skimMessage(fmt.Sprintf("k%d", i), 60<<10))
	}
	list = append(list, skimMessage("k-huge", 300<<10), skimMessage("k-small", 10), skimMessage("new", 80<<10))
	messages := `"messages": [ ` + strings.Join(list, " ,\n") + ` ]`
	for name, body := range map[string]string{
		"thread first":  `{"threadId":"T","runId":"R",` + messages + `,"tools":[]}`,
		"thread last":   `{"runId":"R",` + messages + `,"tools":[{"name":"a"}] , "threadId" : "T"} `,
		"thread header": `{"runId":"R",` + messages + `}`,
		"escaped":       `{"runId":"R","\u0074hreadId":"\u0054",` + messages + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := skimKnows(t)
			if name == "thread header" {
				s.ThreadID = "T"
			}
			in, size, err := skimmedInput(t, s, body)
			if err != nil {
				t.Fatal(err)
			}
			if len(in.Messages) != len(list) || in.RunID != "R" || size > 2*skimTestHeld {
				t.Fatalf("%d messages, run %q, %d bytes", len(in.Messages), in.RunID, size)
			}
			if last := in.Messages[len(list)-1]; last.ID != "new" || len(last.Content.Text) != 80<<10+1 {
				t.Errorf("the new message: %s, %d bytes", last.ID, len(last.Content.Text))
			}
			if m := in.Messages[7]; m.ID != "k7" || m.Role != "user" || m.Content.Text != "" {
				t.Errorf("a known message: %s, %d bytes", m.ID, len(m.Content.Text))
			}
		})
	}
}

// TestSkimKeepsTheLast: a user's message at the end keeps its content though it is known, because only the content
// tells a repeated message from an edited one. Where there is no room for it the input is refused.
func TestSkimKeepsTheLast(t *testing.T) {
	before := skimMessage("k1", 60<<10) + `,` + skimMessage("k2", 90<<10) + `,` + skimMessage("k3", 60<<10)
	for name, body := range map[string]string{
		"thread first": `{"threadId":"T","messages":[` + before + `,` + skimMessage("k4", 70<<10) + `]}`,
		"thread last":  `{"messages":[` + before + `,` + skimMessage("k4", 70<<10) + `],"threadId":"T"}`,
		"state behind": `{"threadId":"T","messages":[` + before + `,` + skimMessage("k4", 70<<10) + `],"state":"` + strings.Repeat("x", 20<<10) + `"}`,
	} {
		in, size, err := skimmedInput(t, skimKnows(t), body)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if last := in.Messages[3]; len(last.Content.Text) != 70<<10+1 || size > skimTestHeld+4*skimStub {
			t.Errorf("%s: %d bytes of the last message, %d in all", name, len(last.Content.Text), size)
		}
		if known := in.Messages[1]; known.Content.Text != "" {
			t.Errorf("%s: %d bytes of a known message", name, len(known.Content.Text))
		}
	}
	for name, body := range map[string]string{
		"alone":      `{"threadId":"T","messages":[` + skimMessage("k1", 200<<10) + `]}`,
		"with state": `{"threadId":"T","messages":[` + before + `,` + skimMessage("k4", 70<<10) + `],"state":"` + strings.Repeat("x", 60<<10) + `"}`,
	} {
		var large *TooLargeError
		if _, err := skimKnows(t).Read(strings.NewReader(body)); !errors.As(err, &large) {
			t.Errorf("%s: %v", name, err)
		}
	}
	in, _, err := skimmedInput(t, skimKnows(t), `{"state":"`+strings.Repeat("x", 60<<10)+`","threadId":"T","messages":[`+before+`,`+skimMessage("new", 10)+`]}`)
	if err != nil || in.Messages[3].Content.Text == "" {
		t.Errorf("known messages that do not fit beside the state, and a new one behind them: %v", err)
	}
}

// TestSkimKeeps: what fits is returned unchanged, without a check whether it is known.
func TestSkimKeeps(t *testing.T) {
	s := skimKnows(t)
	s.Known = func(string, []string) (map[string]bool, error) { return nil, errors.New("asked") }
	for _, body := range []string{
		`{"threadId":"T","messages":[` + skimMessage("k1", 100) + `,{"id":"a","role":"assistant"},7,"x",null],"state":{"a":[1,{"b":null}],"c":-1.5e3}}`,
		`{}`, `{"prompt":"hi"}`, `{"messages":null}`, `{"messages":[]}`, `[1,2]`, `"x"`, ``, ` `,
	} {
		given, err := s.Read(strings.NewReader(body))
		want := body
		if strings.HasPrefix(body, `{"threadId"`) { // messages come first
			want = `{` + body[strings.Index(body, `"messages"`):strings.Index(body, `,"state"`)] + `,"threadId":"T"` + body[strings.Index(body, `,"state"`):]
		}
		if err != nil || strings.TrimSpace(string(given)) != strings.TrimSpace(want) {
			t.Errorf("%v\n%s\n%s", err, given, want)
		}
	}
}

// TestSkimRefuses: what is new must fit, and what is not JSON is found out in what is let go of too.
func TestSkimRefuses(t *testing.T) {
	large := skimMessage("new", 80<<10)
	for name, body := range map[string]string{
		"two large":              `{"threadId":"T","messages":[` + large + `,` + skimMessage("new2", 80<<10) + `]}`,
		"two large, thread last": `{"messages":[` + large + `,` + skimMessage("new2", 80<<10) + `],"threadId":"T"}`,
		"one too large":          `{"threadId":"T","messages":[` + skimMessage("new", 200<<10) + `]}`,
		"no thread":              `{"messages":[` + skimMessage("k1", 80<<10) + `,` + skimMessage("k2", 80<<10) + `]}`,
		"another thread":         `{"threadId":"U","messages":[` + skimMessage("k1", 80<<10) + `,` + skimMessage("k2", 80<<10) + `]}`,
		"state":                  `{"threadId":"T","messages":[],"state":"` + strings.Repeat("x", skimTestHeld) + `"}`,
		"many messages":          `{"threadId":"T","messages":[` + strings.Repeat(`{"id":"k","role":"user","content":""},`, 50) + skimMessage("k", 1) + `]}`,
		"large without an id":    `{"threadId":"T","messages":[{"role":"user","content":"` + strings.Repeat("x", 200<<10) + `"}]}`,
		"spaces":                 strings.Repeat(" ", 200<<10) + `{}`,
		"not an object":          strings.Repeat("[", 200<<10),
	} {
		var large *TooLargeError
		if _, err := skimKnows(t).Read(strings.NewReader(body)); !errors.As(err, &large) {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole := func(content string) string {
		return `{"threadId":"T","messages":[{"id":"k1","role":"user","content":` + content + `}]}`
	}
	pad := strings.Repeat("x", 200<<10)
	for name, body := range map[string]string{
		"a control character": whole(`"` + pad + "\x01" + `"`), "an escape": whole(`"` + pad + `\x"`), "a short escape": whole(`"` + pad + `\u12"`),
		"cut": whole(`"` + pad + `"`)[:200<<10], "a word": whole(`["` + pad + `",tru]`), "a number": whole(`["` + pad + `",01]`),
		"no comma": whole(`["` + pad + `" 1]`), "no colon": whole(`{"a" "` + pad + `"}`), "a key": whole(`{1:"` + pad + `"}`),
		"a bracket": whole(`["` + pad + `"}`), "two documents": whole(`"`+pad+`"`) + " {}", "two ids": whole(`"` + pad + `"`)[:30] + `,"id":"k2"` + whole(`"` + pad + `"`)[30:],
		"deep": whole(strings.Repeat("[", 70) + `"` + pad + `"` + strings.Repeat("]", 70)),
	} {
		var wrong *InputError
		if _, err := skimKnows(t).Read(strings.NewReader(body)); !errors.As(err, &wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
	failing := errors.New("the store is away")
	s := skimKnows(t)
	s.Known = func(string, []string) (map[string]bool, error) { return nil, failing }
	if _, err := s.Read(strings.NewReader(`{"threadId":"T","messages":[` + large + `,` + large + `]}`)); !errors.Is(err, failing) {
		t.Error(err)
	}
	if _, err := s.Read(io.MultiReader(strings.NewReader(`{"threadId":"`), iotest.ErrReader(failing))); !errors.Is(err, failing) {
		t.Error(err)
	}
}

// FuzzSkim: what is given is what was sent, as far as it is small, and a body that was not JSON is not made one.
func FuzzSkim(f *testing.F) {
	for _, body := range []string{`{"threadId":"T","messages":[{"id":"k","role":"user","content":"x"}]}`, `{"a":[{},[1]]}`, `[1`, `{"a":1}}`, "{\"\\u0000\":\"\xff\"}"} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		s := Skim{Held: 1 << 20, Messages: 1000, Known: func(string, []string) (map[string]bool, error) { return nil, nil }}
		given, err := s.Read(iotest.HalfReader(strings.NewReader(body)))
		was := CheckJSON([]byte(body), MaxJSONDepth)
		if err == nil {
			err = CheckJSON(given, MaxJSONDepth)
		}
		if len(strings.TrimSpace(body)) > 0 && (err == nil) != (was == nil) {
			t.Fatalf("%q: %v, but %v\n%s", body, was, err, given)
		}
		// With too little room the only errors allowed are TooLargeError and InputError.
		s.Held, s.Messages = rand.IntN(64), rand.IntN(4)
		if _, err := s.Read(strings.NewReader(body)); err != nil {
			var large *TooLargeError
			var wrong *InputError
			if !errors.As(err, &large) && !errors.As(err, &wrong) {
				t.Fatal(err)
			}
		}
	})
}
