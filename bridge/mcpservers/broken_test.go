package mcpservers

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"aqueduct/bridge/tools"
)

// oddResults are results that no client can read; the server has answered nonetheless.
func oddResults() map[string]string {
	return map[string]string{
		"a content of another type": `{"content":[{"type":"bogus"}]}`,
		"a picture that is none":    `{"content":[{"type":"image","data":"!!","mimeType":"image/png"}]}`,
		"a text":                    `"done"`,
		"a list":                    `[1]`,
	}
}

// talkingServer writes lines of text to its standard output, as programs do that were not written for MCP, and answers a call
// with what its arguments are.
func talkingServer() {
	fmt.Println("Server is starting…\n[INFO] version 1\n\n\"quoted\" null 5")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Arguments struct{ A string } }
		}
		_ = json.Unmarshal(lines.Bytes(), &m)
		switch m.Method {
		case "initialize":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"talking","version":"1"}}}`+"\n", m.ID)
		case "tools/list":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"raw","inputSchema":{"type":"object"}}]}}`+"\n", m.ID)
		case "tools/call":
			result := oddResults()[m.Params.Arguments.A]
			if result == "" {
				result = `{"content":[{"type":"text","text":"fine"}]}`
			}
			fmt.Printf("null\n12:00 a call\n"+`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
		case "server/discover", "ping": // which not every server knows
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", m.ID)
		}
	}
}

// TestServerThatTalks: lines on a server's standard output that are no messages are passed over, as clients of MCP do. A
// result that cannot be read has come all the same: the call has failed, and is not one whose outcome a person is asked for.
func TestServerThatTalks(t *testing.T) {
	t.Parallel()
	r := run(t, Server{Name: "s", Command: self(t, "talking")})
	r.offers("s.raw")
	for name := range oddResults() {
		if got := r.callWith("s.raw", name, patience); got != tools.CodeToolFailed {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := r.call("s.raw", patience); got != "fine" {
		t.Error(got)
	}
}

// TestServerByAddressUnreadable: the same over HTTP, and a stream that ends without the answer, of which nothing is known.
func TestServerByAddressUnreadable(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	r := run(t, Server{Name: "f", URL: f.URL})
	r.offers("f.echo")
	replies := func(kind, form string) {
		f.answers(func(w http.ResponseWriter, r *http.Request) bool {
			if !isCall(r) {
				return false
			}
			var call struct{ ID json.RawMessage }
			_ = json.NewDecoder(r.Body).Decode(&call)
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, strings.ReplaceAll(form, "ID", string(call.ID)))
			return true
		})
	}
	for name, result := range oddResults() {
		replies("application/json", `{"jsonrpc":"2.0","id":ID,"result":`+result+`}`)
		if got := r.call("f.echo", patience); got != tools.CodeToolFailed {
			t.Errorf("%s: %s", name, got)
		}
		replies("text/event-stream", `data: {"jsonrpc":"2.0","id":ID,"result":`+result+"}\n\n")
		if got := r.call("f.echo", patience); got != tools.CodeToolFailed {
			t.Errorf("%s in a stream: %s", name, got)
		}
	}
	for name, stream := range map[string]string{"an empty stream": "", "one with a comment": ": x\n\n", "one with another answer": "data: {\"jsonrpc\":\"2.0\",\"id\":\"other\",\"result\":{}}\n\n"} {
		replies("text/event-stream", stream)
		if got := r.call("f.echo", patience); got != tools.CodeUnknownOutcome {
			t.Errorf("%s: %s", name, got)
		}
	}
	replies("application/json", "{")
	if got := r.call("f.echo", patience); got != tools.CodeUnknownOutcome {
		t.Errorf("half an answer: %s", got)
	}
}

// TestServerByAddressWithoutEnd: an answer without end costs no more memory than the longest message. (Of a stream the library bounds each event, and passes over the rest.)
func TestServerByAddressWithoutEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		kind   string
	}{
		"an answer": {http.StatusOK, "application/json"}, "a refusal": {http.StatusInternalServerError, "text/plain"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFar(t)
			r := run(t, Server{Name: "f", URL: f.URL})
			r.offers("f.echo")
			written := make(chan int, 1)
			f.answers(func(w http.ResponseWriter, r *http.Request) bool {
				if !isCall(r) {
					return false
				}
				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(c.status)
				_, err := io.WriteString(w, "data: ")
				n, part := 0, make([]byte, 64<<10)
				for err == nil && n < 4*longestMessage {
					_, err = w.Write(part)
					n += len(part)
				}
				written <- n
				return true
			})
			if got := r.call("f.echo", patience); got != tools.CodeUnknownOutcome {
				t.Error(got)
			}
			// What the library has not read lies in the buffers of the connection.
			if n := <-written; n > 2*longestMessage {
				t.Errorf("%d bytes were taken", n)
			}
		})
	}
}
