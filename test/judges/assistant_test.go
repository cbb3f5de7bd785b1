package judges_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"aqueduct/test/nodetest"
	"aqueduct/test/npmmcp"
	"aqueduct/test/program"
)

// TestAssistant: the agent that comes with the server, with a scripted model, under both official clients.
func TestAssistant(t *testing.T) {
	t.Parallel()
	nodetest.Need(t, "node_modules/agui1/package.json", "make setup-judges")
	judge(t, serve(t, "0s", assistant(t)...), "assistant.test.mjs")
}

// TestTDesignAssistant: the same in the real TDesign Chat.
func TestTDesignAssistant(t *testing.T) {
	nodetest.Need(t, "../../examples/tdesign/node_modules/vite/package.json", "make setup-tdesign")
	nodetest.Need(t, "../../examples/tdesign-vue/node_modules/vite/package.json", "make setup-tdesign")
	browser(t)
	flags, err := json.Marshal(assistant(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ASSISTANT_FLAGS", string(flags))
	judgeOwn(t, "tdesign-assistant.test.mjs")
}

// assistant starts a scripted model, a tool server and npm's MCP server twice, over standard streams and over HTTP. The flags
// have the program serve the assistant with them.
func assistant(t *testing.T) (flags []string) {
	t.Helper()
	npmmcp.Need(t)
	tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct{ Args json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&call)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"ran_with":%s}`, call.Args)
	}))
	t.Cleanup(tool.Close)
	model := httptest.NewServer(http.HandlerFunc(scriptedModel))
	t.Cleanup(func() {
		model.CloseClientConnections()
		model.Close()
	})
	dir := t.TempDir()
	file, key, models := filepath.Join(dir, "tools.yaml"), filepath.Join(dir, "key"), filepath.Join(dir, "models.yaml")
	text := fmt.Sprintf(`tools:
- {name: wood.cut, kind: server_tool, endpoint: %[1]q, policy: {risk: low}, schema: {type: object, properties: {n: {type: integer}}}}
- {name: bank.pay, kind: server_tool, endpoint: %[1]q, policy: {risk: high, verdict: require_approval, may_edit: true}}
`, tool.URL)
	for name, content := range map[string]string{file: text, key: modelKey + "\n", models: "budgets:\n- {of: run, tokens: 260}\n"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{
		"--llm-url", model.URL + "/v1", "--llm-key-file", key, "--model", "scripted",
		"--models-file", models, "--tools-file", file, "--outbound", "127.0.0.0/8",
		"--mcp", "every=" + npmmcp.Command(t, "server-everything") + " stdio", "--mcp", "far=" + npmmcp.HTTP(t, program.FreePort(t)).URL,
	}
}

const modelKey = "sk-of-the-scripted-model"

// modelMessage is a message as a model gets it.
type modelMessage struct {
	Role      string
	Content   json.RawMessage
	ToolCalls []struct {
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
	ToolCallID string `json:"tool_call_id"`
}

// functionForm is what OpenAI's API takes as the name of a function.
var functionForm = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// scriptedModel answers chat completions as the newest message of the user has it: "call NAME ARGS; NAME ARGS" calls tools
// and then tells what they gave, "tell" what the conversation was, "loop" calls for ever, and "spend" is a "call" that uses 300 tokens; any other use 5.
func scriptedModel(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Messages []modelMessage
		Tools    []struct{ Function struct{ Name string } }
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Header.Get("Authorization") != "Bearer "+modelKey {
		http.Error(w, `{"error":{"message":"no such key"}}`, http.StatusUnauthorized)
		return
	}
	asked, words, said := -1, "", ""
	for i, m := range body.Messages {
		for _, c := range m.ToolCalls {
			if !functionForm.MatchString(c.Function.Name) {
				http.Error(w, `{"error":{"message":"a function is called `+c.Function.Name+`"}}`, http.StatusBadRequest)
				return
			}
			said += " " + c.Function.Name + c.Function.Arguments
		}
		if m.Role == "user" {
			asked = i
			_ = json.Unmarshal(m.Content, &words)
		}
		said += fmt.Sprintf(" %s:%s", m.Role, m.Content)
	}
	var results []string
	for _, m := range body.Messages[asked+1:] {
		if m.Role == "tool" {
			results = append(results, string(m.Content))
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := modelStream{w}
	word, rest, _ := strings.Cut(words, " ")
	switch {
	case (word == "call" || word == "spend") && len(results) == 0, word == "loop":
		out.calls(rest)
	case word == "call", word == "spend":
		out.says("The tools gave " + strings.Join(results, " and ") + ".")
	case word == "tell":
		out.says(said)
	case word == "fail":
		out.send(`{"role":"assistant","content":"half"}`, "null")
		panic(http.ErrAbortHandler)
	case strings.Contains(string(body.Messages[asked].Content), "image_url"):
		out.says("A picture of " + fmt.Sprint(len(body.Messages[asked].Content)) + " bytes.")
	default:
		out.send(`{"reasoning_content":"Hm. "}`, "null")
		out.says("You wrote: " + words)
	}
	used := 3
	if word == "spend" {
		used = 298
	}
	fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":2,"total_tokens":%d}}`+"\n\ndata: [DONE]\n\n", used, used+2)
}

// modelStream writes chunks of a chat completion.
type modelStream struct{ w http.ResponseWriter }

func (s modelStream) send(delta, finish string) {
	fmt.Fprintf(s.w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, finish)
	_ = http.NewResponseController(s.w).Flush()
}

func (s modelStream) says(text string) {
	for _, piece := range strings.SplitAfter(text, " ") {
		raw, _ := json.Marshal(piece) // a string always encodes
		s.send(`{"content":`+string(raw)+`}`, "null")
	}
	s.send(`{}`, `"stop"`)
}

// calls calls tools: "NAME ARGS; NAME ARGS", arguments in two pieces.
func (s modelStream) calls(text string) {
	for i, call := range strings.Split(text, "; ") {
		name, args, _ := strings.Cut(call, " ")
		s.send(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"call_%d","type":"function","function":{"name":%q,"arguments":""}}]}`, i, i, name), "null")
		for _, piece := range []string{args[:len(args)/2], args[len(args)/2:]} {
			raw, _ := json.Marshal(piece)
			s.send(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, raw), "null")
		}
	}
	s.send(`{}`, `"tool_calls"`)
}
