package judges_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// fuzzAgent is an HTTP agent that streams whatever the number in its prompt stands for:
// frames of every kind in any order, with any JSON in them. The same seed and number are the
// same stream, in every call of a Turn.
func fuzzAgent(t *testing.T, seed uint64) string {
	number := regexp.MustCompile(`fuzz (\d+)`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		var call struct {
			Input json.RawMessage `json:"input_message"`
		}
		_ = json.Unmarshal(body, &call)
		n := number.FindSubmatch(call.Input)
		if n == nil {
			return // GET /health, or no prompt of ours
		}
		i, _ := strconv.ParseUint(string(n[1]), 10, 64)
		_, _ = io.WriteString(w, fuzzStream(seed, i))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// fuzzStream is the nth stream of a seed.
func fuzzStream(seed, n uint64) string {
	g := fuzzer{rand.New(rand.NewPCG(seed, n))}
	var b strings.Builder
	for range g.IntN(24) {
		g.frame(&b)
	}
	switch g.IntN(8) {
	case 0: // breaks off
	case 1:
		fmt.Fprintf(&b, "event: error\ndata: {\"code\":%s,\"message\":%s}\n\n", g.text(), g.text())
	case 2:
		fmt.Fprintf(&b, "event: done\ndata: {\"pending\":[%s]}\n\n", g.id())
	case 3:
		fmt.Fprintf(&b, "event: done\ndata: {\"result\":%s,\"usage\":%s}\n\n", g.value(0), g.value(0))
	default:
		b.WriteString("event: done\ndata: {\"usage\":{\"tokens\":3}}\n\n")
	}
	return b.String()
}

type fuzzer struct{ *rand.Rand }

func pick[T any](g fuzzer, of ...T) T { return of[g.IntN(len(of))] }

func (g fuzzer) frame(b *strings.Builder) {
	name := pick(g, "delta", "delta", "delta", "thought", "thought", "tool_call", "tool_result", "state", "state_snapshot",
		"state_delta", "activity", "activity", "activity", "step", "step", "custom", "ask", "call_client_tool", "progress", "")
	data := g.data(name)
	if g.IntN(250) == 0 { // anything at all
		data = g.value(0)
	}
	if g.IntN(900) == 0 {
		data = pick(g, "[DONE]", "{", `{"text":"\x"}`, "{\"text\":\"\xff\xfe\"}")
	}
	if name != "" {
		fmt.Fprintf(b, "event: %s\n", name)
	}
	fmt.Fprintf(b, "data: %s\n\n", data)
}

// data is what a frame of the name has, or nearly.
func (g fuzzer) data(name string) string {
	switch name {
	case "delta", "thought":
		return `{"text":` + g.text() + `}`
	case "tool_call":
		return `{"id":` + g.id() + `,"name":` + g.name() + pick(g, ``, `,"args":null`, `,"args":`+g.value(0), `,"args":`+g.object(1)) + `}`
	case "tool_result":
		return `{"id":` + g.id() + `,"content":` + g.value(0) + `}`
	case "state":
		return `{"state":` + pick(g, `"working"`, `"step_started"`, `"step_finished"`, g.text()) + `,"detail":` + pick(g, `{"name":`+g.id()+`}`, g.value(0)) + `}`
	case "state_snapshot":
		return `{"snapshot":` + pick(g, g.object(0), g.object(0), g.object(0), g.value(0)) + `}`
	case "state_delta":
		return `{"delta":` + pick(g, g.fits(), g.fits(), g.fits(), g.patch()) + `}`
	case "activity":
		return `{"id":` + g.id() + `,"type":` + pick(g, `"plan"`, `"plan"`, `"chart"`) + g.content() + `}`
	case "step":
		return `{"name":` + g.id() + `,"status":"` + pick(g, "started", "started", "finished") + `"}`
	case "custom":
		return `{"name":` + g.name() + `,"value":` + g.value(0) + `}`
	case "ask":
		return `{"id":` + g.id() + `,"kind":"` + pick(g, "permission", "input") + `","title":` + g.text() + `,"tool":` + g.name() +
			`,"args":` + g.value(0) + g.options() + pick(g, ``, `,"response_schema":`+g.object(1)) + `}`
	case "call_client_tool":
		return `{"id":` + g.id() + `,"name":` + g.name() + `,"args":` + g.value(0) + `}`
	}
	return g.value(0)
}

func (g fuzzer) content() string {
	return pick(g, `,"patch":`+g.fits(), `,"patch":`+g.fits(), `,"content":`+g.object(0), `,"content":`+g.object(0)+`,"patch":null`, `,"patch":`+g.patch(), `,"patch":`+g.patch(),
		`,"content":`+g.value(0)+`,"patch":`+g.value(0))
}

func (g fuzzer) options() string {
	return pick(g, ``, `,"options":[{"id":"yes","label":"Yes","kind":"allow_once"},{"id":"no","label":"No","kind":"reject_once"}]`,
		`,"options":[{"id":`+g.text()+`,"label":`+g.text()+`}]`)
}

// fits is a JSON Patch that applies to any object.
func (g fuzzer) fits() string {
	return `[{"op":"add","path":"/a","value":` + g.value(2) + `},{"op":"add","path":"/b","value":` + g.object(2) + `},{"op":"add","path":"/b/c~1d","value":` + g.value(2) +
		`},` + pick(g, `{"op":"copy","from":"/a","path":"/toString"}`, `{"op":"move","path":"/l","from":"/b"}`, `{"op":"remove","path":"/b"}`, `{"op":"test","path":"/b/c~1d","value":`+g.value(3)+`}`) + `]`
}

// patch is mostly a JSON Patch, and now and then one that applies.
func (g fuzzer) patch() string {
	if g.IntN(12) == 0 {
		return g.value(0)
	}
	var ops []string
	for range 1 + g.IntN(3) {
		op := `{"op":"` + pick(g, "add", "add", "add", "replace", "remove", "test", "move", "copy", "merge") + `","path":` + g.pointer()
		op += pick(g, `,"value":`+g.value(1), `,"value":`+g.value(1), `,"value":null`, ``)
		ops = append(ops, op+pick(g, ``, ``, `,"from":`+g.pointer(), `,"why":1`)+`}`)
	}
	return `[` + strings.Join(ops, ",") + `]`
}

func (g fuzzer) pointer() string {
	if g.IntN(10) == 0 {
		return pick(g, `""`, `"a"`, `"/a~2"`, `"/~"`, `"/__proto__/x"`, `"/constructor/prototype/x"`, `null`, `7`, `"/"`, `"/l/+0"`, `"/l/00"`, `"/l/-1"`, `"/l/9"`, `"/\ud83d"`, `"/toString"`, `"/l/length"`)
	}
	return pick(g, `"/a"`, `"/b"`, `"/a/b"`, `"/l"`, `"/l/-"`, `"/l/0"`, `"/l/1/a"`, `"/agent"`, `"/a~1b"`, `"/acp/x"`)
}

func (g fuzzer) id() string {
	if g.IntN(200) == 0 {
		return pick(g, `""`, `null`, `7`, `"\u0000"`, `"`+strings.Repeat("i", 300)+`"`)
	}
	return pick(g, `"1"`, `"2"`, `"3"`)
}

func (g fuzzer) name() string {
	return pick(g, `"search"`, `"search"`, `"request_permission"`, `"suggestion"`, `"a b\n<c>"`, `"\ud83d"`)
}

// text is a string, often cut where no character ends.
func (g fuzzer) text() string {
	return pick(g, `"word "`, `"word "`, `"\ud83d"`, `"\ude00"`, `"\ude00 and \ud83d"`, `"20"`, `"{\"a\":1}"`, `""`, `"\u2028\u0000\r\n"`, `"世界 😀"`, `"data: x\n\n"`, `"`+strings.Repeat("long ", 40)+`"`)
}

// value is any JSON.
func (g fuzzer) value(depth int) string {
	if depth < 3 && g.IntN(3) == 0 {
		return g.object(depth)
	}
	if depth < 3 && g.IntN(4) == 0 {
		var items []string
		for range g.IntN(4) {
			items = append(items, g.value(depth+1))
		}
		return `[` + strings.Join(items, " ,") + `]`
	}
	return pick(g, `null`, `true`, `false`, `0`, `-0`, `1.0`, `9007199254740993`, `1e400`, `-1e-400`, g.text(), g.text(), `{}`, `[]`,
		strings.Repeat("[", 80)+strings.Repeat("]", 80), `{"type":"text","text":"x"}`, `[{"type":"image","source":{"type":"url","value":"x"}}]`)
}

func (g fuzzer) object(depth int) string {
	var members []string
	for range g.IntN(4) {
		key := pick(g, `"a"`, `"a"`, `"b"`, `"l"`, `"a/b"`, `"agent"`, `"title"`, `""`, `"__proto__"`, `"constructor"`, `"toString"`, `"type"`, `"\ud83d"`)
		value := g.value(depth + 1)
		if key == `"l"` {
			value = `[1,{"a":1}]`
		}
		members = append(members, key+`:`+value)
	}
	return `{` + strings.Join(members, ",") + `}`
}
