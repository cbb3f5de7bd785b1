package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/internal/bubbletest"
	"aqueduct/store"
)

// TestResultOf: the end of a call, and what an MCP server gave, in the form in which it gave it.
func TestResultOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		call store.ToolCall
		want string
	}{
		"a text":       {store.ToolCall{Status: store.ToolSucceeded, Result: []byte(`"hi"`)}, `{"content":[{"type":"text","text":"hi"}]}`},
		"an object":    {store.ToolCall{Status: store.ToolSucceeded, Result: []byte(`{"a":1}`)}, `{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1}}`},
		"a number":     {store.ToolCall{Status: store.ToolSucceeded, Result: []byte(`7`)}, `{"content":[{"type":"text","text":"7"}]}`},
		"nothing":      {store.ToolCall{Status: store.ToolSucceeded}, `{"content":[{"type":"text","text":"null"}]}`},
		"an image":     {store.ToolCall{Status: store.ToolSucceeded, Result: []byte(`{"content":[{"type":"image","mimeType":"image/png","data":"cG5n"}]}`)}, `{"content":[{"type":"image","mimeType":"image/png","data":"cG5n"}]}`},
		"like content": {store.ToolCall{Status: store.ToolSucceeded, Result: []byte(`{"content":"x"}`)}, `{"content":[{"type":"text","text":"{\"content\":\"x\"}"}],"structuredContent":{"content":"x"}}`},
		"failed":       {store.ToolCall{Status: store.ToolFailed, ErrorCode: "rejected", Error: []byte(`{"code":"rejected","message":"No."}`)}, `{"content":[{"type":"text","text":"rejected: No."}],"isError":true}`},
		"expired":      {store.ToolCall{Status: store.ToolFailed, ErrorCode: "expired"}, `{"content":[{"type":"text","text":"expired: The call failed."}],"isError":true}`},
	} {
		c.call.ID = "C"
		raw, err := json.Marshal(resultOf(c.call))
		want := `{"_meta":{"aqueduct/tool_call_id":"C"},` + strings.TrimPrefix(c.want, "{")
		if err != nil || string(raw) != want {
			t.Errorf("%s: %s %v, want %s", name, raw, err, want)
		}
	}
}

// TestWantedBy: what a body asks for, in each form of it.
func TestWantedBy(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]wanted{
		`{"method":"tools/list"}`:                        {list: true},
		` {"method":"tools/call","params":{"name":"a"}}`: {calls: []string{"a"}},
		`[{"method":"tools/list"},{"method":"tools/call","params":{"name":"a"}},{"method":"tools/call","params":{"name":"b"}}]`: {list: true, calls: []string{"a", "b"}},
		`{"id":1,"method":"initialize"}`: {id: "1", begins: true}, `{"method":"notifications/cancelled","params":{"requestId":"a"}}`: {givesUp: `"a"`},
		`{"method":"ping"}`: {}, ``: {}, `[`: {}, `null`: {}, `"x"`: {}, `{"method":7}`: {},
	} {
		if got := wantedBy([]byte(body)); got.list != want.list || got.id != want.id || got.begins != want.begins || got.givesUp != want.givesUp || !slices.Equal(slices.DeleteFunc(got.calls, func(s string) bool { return s == "" }), want.calls) {
			t.Errorf("%s: %+v, want %+v", body, got, want)
		}
	}
}

// TestOffered: which tools MCP has, and with which schema.
func TestOffered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool store.Tool
		want string // the schema; "" is not offered
	}{
		"plain":               {store.Tool{Kind: store.KindServer, Schema: []byte(`{"type":"object","required":["a"]}`)}, `{"required":["a"],"type":"object"}`},
		"without a schema":    {store.Tool{Kind: store.KindServer}, `{"type":"object"}`},
		"a null schema":       {store.Tool{Kind: store.KindServer, Schema: []byte(`null`)}, `{"type":"object"}`},
		"of no type":          {store.Tool{Kind: store.KindServer, Schema: []byte(`{"properties":{}}`)}, `{"properties":{},"type":"object"}`},
		"takes a list":        {store.Tool{Kind: store.KindServer, Schema: []byte(`{"type":"array"}`)}, ""},
		"takes anything":      {store.Tool{Kind: store.KindServer, Schema: []byte(`true`)}, ""},
		"is the client's":     {store.Tool{Kind: store.KindClient, Schema: []byte(`{"type":"object"}`)}, ""},
		"with a strange type": {store.Tool{Kind: store.KindServer, Schema: []byte(`{"type":["object","null"]}`)}, ""},
	} {
		tool, ok := offered(c.tool)
		if ok != (c.want != "") {
			t.Errorf("%s: offered %v", name, ok)
			continue
		}
		if ok {
			if raw, _ := json.Marshal(tool.InputSchema); string(raw) != c.want {
				t.Errorf("%s: %s, want %s", name, raw, c.want)
			}
		}
	}
}

// TestLeftCalls: each call is given up once, the one first that was left first, and only so many are remembered.
func TestLeftCalls(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		var l leftCalls
		l.put("other", "k1", "id of another")
		for i := range leftOfUser + 5 {
			l.put("ann", fmt.Sprint("k", i/2), fmt.Sprint("id", i))
		}
		if id := l.take(t.Context(), "k1"); id != "id of another" {
			t.Errorf("another user's calls have been forgotten for those of one: %q", id)
		}
		key := fmt.Sprint("k", leftOfUser/2)
		one, two, none := l.take(t.Context(), key), l.take(t.Context(), key), l.take(t.Context(), key)
		if one != fmt.Sprint("id", leftOfUser) || two != fmt.Sprint("id", leftOfUser+1) || none != "" || len(l.left) != leftOfUser-2 || l.take(t.Context(), "k0") != "" {
			t.Errorf("%q %q %q, %d are remembered", one, two, none, len(l.left))
		}
		time.Sleep(leftTime + 1)
		if id := l.take(t.Context(), "k100"); id != "" {
			t.Errorf("%s after an hour", id)
		}
		if l.put("ann", "k", "id"); len(l.left) != 1 {
			t.Errorf("%d are remembered", len(l.left))
		}
	})
}

// TestLeftCallsWait: while the same call is held it may be about to be left, which is waited for a moment.
func TestLeftCallsWait(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		var l leftCalls
		release := l.hold("k")
		time.AfterFunc(leaveTime/2, func() {
			l.put("ann", "k", "id")
			release()
		})
		began := time.Now()
		if id := l.take(t.Context(), "k"); id != "id" || time.Since(began) != leaveTime/2 {
			t.Errorf("%q after %s", id, time.Since(began))
		}
		defer l.hold("k")()
		began = time.Now()
		if id := l.take(t.Context(), "other"); id != "" || time.Since(began) != 0 {
			t.Errorf("another: %q after %s", id, time.Since(began))
		}
		if id := l.take(t.Context(), "k"); id != "" || time.Since(began) != leaveTime {
			t.Errorf("it is not left: %q after %s", id, time.Since(began))
		}
	})
}

// adoptee is a caller whose last Turn is looked for by a function.
type adoptee struct {
	*agent
	name string
	last func() string
}

func (a adoptee) key() string { return a.name }

func (a adoptee) turn(context.Context) (string, error) { return a.last(), nil }

// TestAdoptBeside: a caller whose calls are being looked for keeps no other waiting, and one that has none leaves nothing behind.
func TestAdoptBeside(t *testing.T) {
	t.Parallel()
	a := adopter{left: new(leftCalls), began: time.Now(), asked: make(map[string]*adoption)}
	release, looks, done := make(chan bool), make(chan bool), make(chan error, 1)
	go func() {
		done <- a.adopt(t.Context(), adoptee{name: "slow", last: func() string { close(looks); <-release; return "" }})
	}()
	<-looks
	other := make(chan error, 1)
	go func() {
		other <- a.adopt(t.Context(), adoptee{name: "other", last: func() string { return "" }})
	}()
	select {
	case err := <-other:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("another caller's look is waited for")
	}
	close(release)
	if err := <-done; err != nil || len(a.asked) != 0 {
		t.Errorf("%v, %d callers are remembered", err, len(a.asked))
	}
}

// TestCanAsk: who can be asked, by what a client states of itself.
func TestCanAsk(t *testing.T) {
	t.Parallel()
	for caps, want := range map[string]bool{
		`{"elicitation":{"form":{}}}`: true, `{"elicitation":{}}`: true, `{"elicitation":{"url":{}}}`: false, `{}`: false, `{"elicitation":null}`: false, `"x"`: false,
	} {
		req := &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Meta: mcp.Meta{mcp.MetaKeyClientCapabilities: json.RawMessage(caps)}}}
		if canAsk(req) != want {
			t.Errorf("%s: %v", caps, !want)
		}
	}
	if canAsk(&mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{}}) {
		t.Error("a client that states nothing can be asked")
	}
}
