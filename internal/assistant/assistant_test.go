package assistant

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// server stands for the server that the assistant belongs to.
type server struct {
	tools  string
	model  func(w http.ResponseWriter)
	invoke func(tool string) string
	waits  int
	log    *slog.Logger
	asked  func(body []byte)                        // what the model is asked; nil: not looked at
	part   func(w http.ResponseWriter, path string) // nil: there are none
	list   func(query string) string                // a page of the tools; nil: tools is the one
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer token" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	switch {
	case r.URL.Path == "/v1/tools" && s.list != nil:
		fmt.Fprint(w, s.list(r.URL.RawQuery))
	case r.URL.Path == "/v1/tools":
		fmt.Fprint(w, s.tools)
	case r.URL.Path == "/v1/chat/completions":
		if raw, err := io.ReadAll(r.Body); err == nil && s.asked != nil {
			s.asked(raw)
		}
		s.model(w)
	case strings.HasPrefix(r.URL.Path, "/api/threads/"):
		s.part(w, r.URL.Path)
	case strings.HasSuffix(r.URL.Path, ":invoke"):
		fmt.Fprint(w, s.invoke(strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v1/tools/"), ":invoke")))
	case strings.HasSuffix(r.URL.Path, ":wait"):
		if s.waits++; s.waits < 3 {
			fmt.Fprint(w, `{"status":"pending","tool_call_id":"t1"}`)
			return
		}
		fmt.Fprint(w, `{"status":"succeeded","result":{"done":true}}`)
	}
}

// frames calls the assistant and returns the frames of its answer, each as its name and its data.
func (s *server) frames(t *testing.T, body string) []string {
	t.Helper()
	platform := httptest.NewServer(s)
	defer platform.Close()
	agent := httptest.NewServer(New(Config{Model: "m", BaseURL: platform.URL, Logger: s.log}))
	defer agent.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, agent.URL+"/invoke", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-aqueduct-run-token", "token")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for frame := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n\n") {
		if strings.HasPrefix(frame, ":") { // it is slow
			continue
		}
		name, data, _ := strings.Cut(strings.TrimPrefix(frame, "event: "), "\ndata: ")
		list = append(list, name+" "+data)
	}
	return list
}

const noTools = `{"tools":[]}`

func streamed(chunks ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for _, c := range chunks {
			fmt.Fprintf(w, "data: %s\n\n", c)
		}
	}
}

// TestModelFails: what a model's server can do wrong ends the answer with an error that names it.
func TestModelFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		model func(http.ResponseWriter)
		want  string
	}{
		"refused": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"message":"no such key"}}`)
		}, `error {"code":"model_failed","message":"The model's server answered HTTP 401: no such key"}`},
		"a problem of ours": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"code":"model_unknown","detail":"No upstream has it.","error":{"message":"x"}}`)
		}, `error {"code":"model_unknown","message":"No upstream has it."}`},
		"not JSON":    {streamed(`{`), `error {"code":"model_failed","message":"The model's server sent what could not be read."}`},
		"an error":    {streamed(`{"error":{"message":"overloaded"}}`), `error {"code":"model_failed","message":"The model's server reported an error: overloaded"}`},
		"cut":         {streamed(`{"choices":[{"delta":{"content":"a"}}]}`), `error {"code":"model_failed","message":"The model's answer ended before it was complete."}`},
		"no [DONE]":   {streamed(`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`), `done {}`},
		"only [DONE]": {streamed(`[DONE]`), `done {}`},
		"calls without end": {func(w http.ResponseWriter) {
			part := `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"bank_pay","arguments":"` + strings.Repeat("x", 1<<20) + `"}}]}}]}`
			streamed(slices.Repeat([]string{part}, 64)...)(w)
		}, `error {"code":"model_failed","message":"The model calls tools with more than can be taken."}`},
		"a call first": {streamed(`{"choices":[{"delta":{"tool_calls":[{"index":4,"function":{"name":"x"}}]}}]}`, `[DONE]`), `done {}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &server{tools: `{"tools":[{"name":"bank.pay"}]}`, model: test.model}
			got := s.frames(t, `{"run_id":"r","messages":[{"role":"user","content":"hi"}]}`)
			if got[len(got)-1] != test.want {
				t.Errorf("the answer ends with %s", got[len(got)-1])
			}
		})
	}
}

// TestWaits: a tool that waits for a person is waited for, as often as that takes.
func TestWaits(t *testing.T) {
	t.Parallel()
	steps := 0
	s := &server{
		tools:  `{"tools":[{"name":"bank.pay"}]}`,
		invoke: func(string) string { return `{"status":"pending","tool_call_id":"t1"}` },
		model: func(w http.ResponseWriter) {
			if steps++; steps == 1 {
				streamed(`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"bank_pay","arguments":"{}"}}]}}]}`, `[DONE]`)(w)
				return
			}
			streamed(`{"choices":[{"delta":{"content":"paid"}}]}`, `[DONE]`)(w)
		},
	}
	got := s.frames(t, `{"run_id":"r","messages":[]}`)
	if !slices.Equal(got, []string{`delta {"text":"paid"}`, `done {}`}) || s.waits != 3 {
		t.Errorf("%d waits: %q", s.waits, got)
	}
}

// TestManyTools: all pages of tools are read, and what the model's API does not take is left out and logged.
func TestManyTools(t *testing.T) {
	t.Parallel()
	var asked struct {
		Tools []struct{ Function struct{ Name string } }
	}
	page := func(from, n int, next string) string {
		var tools []string
		for i := range n {
			tools = append(tools, fmt.Sprintf(`{"name":"tool%03d"}`, from+i))
		}
		return fmt.Sprintf(`{"tools":[%s],"next":%q}`, strings.Join(tools, ","), next)
	}
	s := &server{model: streamed(`{"choices":[{"delta":{"content":"x"}}]}`, `[DONE]`)}
	s.asked = func(body []byte) {
		if err := json.Unmarshal(body, &asked); err != nil {
			t.Error(err)
		}
	}
	s.list = func(query string) string {
		switch {
		case strings.Contains(query, "after=tool049"):
			return page(50, 50, "tool099")
		case strings.Contains(query, "after=tool099"):
			return page(100, 50, "tool149")
		case strings.Contains(query, "after="):
			t.Errorf("%s is asked for", query)
		}
		return page(0, 50, "tool049")
	}
	logged := new(strings.Builder)
	s.log = slog.New(slog.NewTextHandler(logged, nil))
	s.frames(t, `{"run_id":"r","messages":[],"tools":[{"name":"map"}]}`)
	if n := len(asked.Tools); n != 128 || asked.Tools[0].Function.Name != "map" || asked.Tools[127].Function.Name != "tool126" {
		t.Errorf("%d tools are offered", n)
	}
	if text := logged.String(); !strings.Contains(text, "tool127") || strings.Contains(text, "tool126") || !strings.Contains(text, "and_more=true") {
		t.Errorf("logged: %s", text)
	}
}

// TestFunctionNames: a tool has one name that OpenAI's API takes, and names that become the same get numbers.
func TestFunctionNames(t *testing.T) {
	t.Parallel()
	b := toolbox{byFunction: make(map[string]*tool)}
	long := strings.Repeat("x", 80)
	for _, name := range []string{"a.b", "a:b", "a_b", "a.b", long, long + "y"} {
		b.add(&tool{name: name}, "", nil)
	}
	var got []string
	for _, f := range b.list {
		got = append(got, f.Function.Name)
	}
	if want := []string{"a_b", "a_b_2", "a_b_3", long[:64], long[:62] + "_2"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, name := range []string{"a.b", "a:b", "a_b", long} {
		if f := b.functionOf(name); b.byFunction[f] == nil || b.byFunction[f].name != name {
			t.Errorf("%s is %s", name, f)
		}
	}
}

// TestConversation: what the page gave stands where the transcript has no result yet, and a call that a person was asked
// about is the call.
func TestConversation(t *testing.T) {
	t.Parallel()
	b := toolbox{byFunction: make(map[string]*tool)}
	b.add(&tool{name: "bank.pay"}, "", nil)
	var messages []json.RawMessage
	for _, m := range []string{
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"request_permission","arguments":"{\"tool\":\"bank.pay\",\"args\":{\"n\":1}}"}},{"id":"c2","type":"function","function":{"name":"map","arguments":"{}"}}]}`,
		`{"role":"tool","tool_call_id":"c1","content":"paid"}`, `{"role":"tool","tool_call_id":"c2","content":"{\"status\":\"no_result\"}"}`,
		`{"role":"user","content":[{"type":"text","text":"x"}]}`,
	} {
		messages = append(messages, json.RawMessage(m))
	}
	var got []string
	for _, m := range b.conversation(messages, []answer{{CallID: "c2", Status: "resolved", Payload: json.RawMessage(`{"content":"shown"}`)}}) {
		got = append(got, string(m))
	}
	want := []string{
		`{"role":"assistant","content":null,"tool_calls":[{"id":"` + shortID("c1") + `","type":"function","function":{"name":"bank_pay","arguments":"{\"n\":1}"}},{"id":"` + shortID("c2") + `","type":"function","function":{"name":"map","arguments":"{}"}}]}`,
		`{"role":"tool","tool_call_id":"` + shortID("c1") + `","content":"paid"}`, `{"role":"tool","tool_call_id":"` + shortID("c2") + `","content":"shown"}`,
		`{"role":"assistant","content":"(The answer ended here.)"}`,
		`{"role":"user","content":[{"type":"text","text":"x"}]}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}
