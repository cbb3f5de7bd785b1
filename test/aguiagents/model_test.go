package aguiagents_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aqueduct/internal/stricttest"
)

// model is an upstream of OpenAI's chat completions that every agent of this package has. It refuses what OpenAI refuses and
// records the messages of each request. Its answer follows from the first word of the newest user message.
//
//	GET /seen?talk=T   the requests of one conversation: {messages, refused}
//
// A user message that contains ~T belongs to the conversation T.
type model struct {
	*httptest.Server

	mu    sync.Mutex
	seen  map[string][]request
	calls map[string]int // of each conversation, for ids that are never used again

	completions atomic.Int64
}

// request is one request as the model saw it.
type request struct {
	Messages []message `json:"messages"`
	Refused  string    `json:"refused,omitempty"`
}

// message is a message of a chat completion.
type message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls,omitempty"`
}

// call is a call that the model makes: a tool, its arguments, and the id where the model gives one of its own.
type call struct{ name, args, id string }

// plans are the calls that the model makes for a word, request by request, before it answers with text.
var plans = map[string][][]call{
	"weather": {{{name: "weather", args: `{"city":"Oslo"}`}}},
	"explain": {{{name: "weather", args: `{"city":"Oslo"}`}}}, // with a text before the call, in one message
	"chain":   {{{name: "weather", args: `{"city":"Oslo"}`}}, {{name: "weather", args: `{"city":"Bergen"}`}}},
	"two":     {{{name: "weather", args: `{"city":"Oslo"}`}, {name: "weather", args: `{"city":"Bergen"}`}}},
	"both":    {{{name: "weather", args: `{"city":"Oslo"}`}, {name: "show_map", args: `{"lat":52}`}}},
	"page":    {{{name: "show_map", args: `{"lat":52}`}}},
	"pages":   {{{name: "show_map", args: `{"lat":52}`}, {name: "show_map", args: `{"lat":53}`}}},
	"email":   {{{name: "send_email", args: `{"to":"ada@example.org"}`}}},
	"ask":     {{{name: "ask_name", args: `{}`}}},
	"zero":    {{{name: "weather", args: `{"city":"Oslo"}`, id: "call_0"}}}, // llama.cpp and Ollama count from 0 in each turn
	"empty":   {{{name: "now", args: ``}}},
	"mcp":     {{{name: "mcp__", args: `{"city":"Oslo"}`}}},
	"surface": {{{name: "render_a2ui", args: surface}}},
	"count":   {{{name: "count", args: `{}`}}},
}

// surface is what a model passes to the tool that the A2UI middleware injects.
const surface = `{"surfaceId":"s1","components":[{"id":"root","component":"Button","child":"label","action":{"event":{"name":"go"}}},` +
	`{"id":"label","component":"Text","text":"Go"}],"data":{}}`

// stateTools are the tools by which a framework lets its model change the state, in place of the graph's own "count".
var stateTools = []call{
	{name: "updateWorkingMemory", args: `{"memory":{"count":2}}`},
	{name: "AGUISendStateSnapshot", args: `{"snapshot":{"count":2}}`},
}

var talkTag = regexp.MustCompile(`\s*~([\w-]+)`)

func newModel(t *testing.T) *model {
	m := &model{seen: map[string][]request{}, calls: map[string]int{}}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.CloseClientConnections)
	t.Cleanup(m.Close)
	return m
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/seen" {
		m.mu.Lock()
		defer m.mu.Unlock()
		_ = json.NewEncoder(w).Encode(m.seen[r.URL.Query().Get("talk")])
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var in struct {
		Messages []message `json:"messages"`
		Stream   bool      `json:"stream"`
		Tools    []struct {
			Function struct{ Name string } `json:"function"`
		} `json:"tools"`
	}
	err = json.Unmarshal(body, &in)
	if err == nil {
		err = stricttest.OpenAI(nameless(body))
	}
	talk := m.record(in.Messages, err)
	if err != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": err.Error(), "type": "invalid_request_error", "param": nil, "code": nil}})
		return
	}
	var tools []string
	for _, tool := range in.Tools {
		tools = append(tools, tool.Function.Name)
	}
	s := stream{w: w, flush: http.NewResponseController(w), id: fmt.Sprintf("chatcmpl-%d", m.completions.Add(1)), whole: !in.Stream}
	m.answer(s, r, talk, in.Messages, tools)
}

// nameless takes the names of tool messages out, which LangChain sends and OpenAI ignores.
func nameless(body []byte) []byte {
	var request map[string]any
	_ = json.Unmarshal(body, &request)
	messages, _ := request["messages"].([]any)
	for _, one := range messages {
		if m, _ := one.(map[string]any); m["role"] == "tool" {
			delete(m, "name")
		}
	}
	judged, _ := json.Marshal(request)
	return judged
}

// record keeps a request and returns the conversation that it belongs to.
func (m *model) record(messages []message, refused error) (talk string) {
	for i, one := range messages {
		if found := talkTag.FindSubmatch(one.Content); found != nil {
			talk = string(found[1])
			messages[i].Content = talkTag.ReplaceAll(one.Content, nil)
		}
	}
	if talk == "" {
		return ""
	}
	entry := request{Messages: messages}
	if refused != nil {
		entry.Refused = refused.Error()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[talk] = append(m.seen[talk], entry)
	return talk
}

// flat is the text of a content, whatever form it has.
func flat(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(content, &parts)
	for _, part := range parts {
		text += part.Text
	}
	return text
}

// answer streams the answer: calls while the plan of the user's word has some, then a text.
func (m *model) answer(s stream, r *http.Request, talk string, messages []message, tools []string) {
	asked, said, results, step := -1, []string{}, []string{}, 0
	for i, one := range messages {
		switch one.Role {
		case "user":
			asked, results, step = i, nil, 0
			said = append(said, flat(one.Content))
		case "tool":
			results = append(results, flat(one.Content))
		case "assistant":
			if len(one.ToolCalls) > 0 {
				step++
			}
		}
	}
	word := ""
	if asked >= 0 {
		word, _, _ = strings.Cut(said[len(said)-1], " ")
	}
	switch plan := plans[word]; {
	case word == "broken":
		panic(http.ErrAbortHandler)
	case word == "slow":
		s.slowly(r)
	case step < len(plan):
		text := ""
		if word == "explain" {
			text = "I look. "
		}
		s.calls(text, m.identified(talk, chosen(plan[step], tools)))
	case len(results) > 0:
		s.text("The tool gave " + strings.Join(results, ", "))
	default:
		s.text("You wrote: " + strings.Join(said, ", "))
	}
}

// chosen puts the tools that the agent declares in place of those that a plan only describes.
func chosen(planned []call, tools []string) []call {
	planned = slices.Clone(planned)
	for i, c := range planned {
		for _, name := range tools {
			at := slices.IndexFunc(stateTools, func(s call) bool { return s.name == name })
			switch {
			case c.name == "count" && at >= 0:
				planned[i] = stateTools[at]
			case c.name == "mcp__" && strings.HasPrefix(name, c.name):
				planned[i].name = name
			}
		}
	}
	return planned
}

// identified gives each call an id that its conversation did not have before.
func (m *model) identified(talk string, calls []call) []call {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range calls {
		if calls[i].id == "" {
			m.calls[talk]++
			calls[i].id = fmt.Sprintf("call_%d", m.calls[talk])
		}
	}
	return calls
}

// stream writes chunks of a chat completion.
type stream struct {
	w     http.ResponseWriter
	flush *http.ResponseController
	id    string // of the completion: frameworks name messages after it
	whole bool   // the answer comes in one piece
}

func (s stream) chunk(delta map[string]any, finish any) {
	s.w.Header().Set("Content-Type", "text/event-stream")
	data, _ := json.Marshal(map[string]any{"id": s.id, "object": "chat.completion.chunk", "created": 1, "model": "m",
		"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
	fmt.Fprintf(s.w, "data: %s\n\n", data)
	_ = s.flush.Flush()
}

func (s stream) done(finish string) {
	s.chunk(map[string]any{}, finish)
	fmt.Fprint(s.w, "data: [DONE]\n\n")
}

// message writes an answer in one piece.
func (s stream) message(text string, calls []call) {
	var list []any
	for _, c := range calls {
		list = append(list, map[string]any{"id": c.id, "type": "function", "function": map[string]any{"name": c.name, "arguments": c.args}})
	}
	_ = json.NewEncoder(s.w).Encode(map[string]any{"id": s.id, "object": "chat.completion", "created": 1, "model": "m",
		"choices": []any{map[string]any{"index": 0, "message": map[string]any{"role": "assistant", "content": text, "tool_calls": list}, "finish_reason": "stop"}}})
}

func (s stream) text(text string) {
	if s.whole {
		s.message(text, nil)
		return
	}
	s.chunk(map[string]any{"role": "assistant", "content": ""}, nil)
	for piece := range slices.Chunk([]rune(text), 4) {
		s.chunk(map[string]any{"content": string(piece)}, nil)
	}
	s.done("stop")
}

func (s stream) calls(text string, calls []call) {
	if s.whole {
		s.message(text, calls)
		return
	}
	s.chunk(map[string]any{"role": "assistant", "content": text}, nil)
	function := func(i int, more map[string]any, function map[string]any) {
		more["index"], more["function"] = i, function
		s.chunk(map[string]any{"tool_calls": []any{more}}, nil)
	}
	for i, c := range calls {
		function(i, map[string]any{"id": c.id, "type": "function"}, map[string]any{"name": c.name, "arguments": ""})
		for piece := range slices.Chunk([]rune(c.args), 5) {
			function(i, map[string]any{}, map[string]any{"arguments": string(piece)})
		}
	}
	s.done("tool_calls")
}

// slowly streams a long answer, until the agent closes the request. Agents that do not notice a stop are free again behind it.
func (s stream) slowly(r *http.Request) {
	s.chunk(map[string]any{"role": "assistant", "content": ""}, nil)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 100 {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			s.chunk(map[string]any{"content": "more "}, nil)
		}
	}
	s.done("stop")
}
