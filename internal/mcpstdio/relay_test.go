package mcpstdio

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// client is an MCP client at the standard streams of a relay whose server answers as the test has it.
type client struct {
	t     *testing.T
	in    io.Writer
	lines *bufio.Scanner
}

// answering is an MCP server that knows one method; result gives what it answers that with.
func answering(t *testing.T, method string, result func() string) *httptest.Server {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "initialize":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`, m.ID)
		case method:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result())
		case "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		}
	}))
	t.Cleanup(web.Close)
	return web
}

// relayed starts a relay; list is what the server answers tools/list with, by how often it was asked.
func relayed(t *testing.T, prefix string, list func(n int) string) *client {
	t.Helper()
	asked := 0
	web := answering(t, "tools/list", func() string {
		asked++
		return list(asked)
	})
	theirs, in := io.Pipe()
	out, ours := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(t.Context(), Config{URL: web.URL, Client: web.Client(), Version: "1", Prefix: prefix, In: theirs, Out: ours})
		_ = ours.Close()
	}()
	t.Cleanup(func() {
		_ = in.Close()
		go func() { _, _ = io.Copy(io.Discard, out) }()
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Error("the relay does not end")
		}
	})
	c := &client{t: t, in: in, lines: bufio.NewScanner(out)}
	c.ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *client) send(line string) {
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Error(err)
	}
}

// ask sends a request and returns the answer.
func (c *client) ask(line string) string {
	c.t.Helper()
	go c.send(line)
	for c.lines.Scan() {
		if text := c.lines.Text(); strings.Contains(text, `"id":`) {
			return text
		}
	}
	c.t.Fatalf("no answer to %s: %v", line, c.lines.Err())
	return ""
}

// TestToolsThatAreNone: a tool of the server that the protocol's library takes for none is left out, and the others are there.
func TestToolsThatAreNone(t *testing.T) {
	t.Parallel()
	c := relayed(t, "w.", func(int) string {
		return `{"tools":[{"name":"w.a","inputSchema":{"type":"string"}},{"name":"w.b"},{"name":"w.c","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}},` +
			`{"name":"w.d","inputSchema":null},{"name":"w.","inputSchema":{"type":"object"}},{"name":"other.f","inputSchema":{"type":"object"}},{"name":"w.good","inputSchema":{"type":"object"}}]}`
	})
	if got := c.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); !strings.Contains(got, `"good"`) || strings.Contains(got, "other") {
		t.Errorf("the list is %s", got)
	}
}

// TestListWithoutEnd: a list whose pages have no end is an error to the client.
func TestListWithoutEnd(t *testing.T) {
	t.Parallel()
	c := relayed(t, "", func(n int) string {
		return fmt.Sprintf(`{"tools":[{"name":"t%d","inputSchema":{"type":"object"}}],"nextCursor":"%d"}`, n, n)
	})
	if got := c.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); !strings.Contains(got, `"error"`) {
		t.Errorf("the list has %d bytes", len(got))
	}
}

// besideADeafServer starts a relay whose server never answers, and has its client list tools, which the server is asked for, and
// call one.
func besideADeafServer(t *testing.T, ctx context.Context) (in io.Writer, out io.Reader, ended <-chan error) {
	t.Helper()
	came, release := make(chan struct{}, 10), make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		came <- struct{}{}
		<-release
	}))
	t.Cleanup(func() {
		close(release)
		web.Close()
	})
	theirs, client := io.Pipe()
	out, ours := io.Pipe()
	t.Cleanup(func() {
		_ = client.Close()
		_ = ours.Close()
	})
	end := make(chan error, 1)
	go func() {
		end <- Serve(ctx, Config{URL: web.URL, Client: web.Client(), Version: "1", In: theirs, Out: ours})
	}()
	lines := bufio.NewReader(out)
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t"}}`,
	} {
		if _, err := io.WriteString(client, line+"\n"); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"id":1`) {
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	<-came
	return client, lines, end
}

// TestEndBesideADeafServer: a relay that is asked to end does so, whatever its server does with what is under way.
func TestEndBesideADeafServer(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	_, out, ended := besideADeafServer(t, ctx)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(connectTime / 2):
		t.Error("it waits for its server")
	}
}

// TestPingBesideADeafServer: a client that looks whether the relay is there is answered while the server does not answer.
func TestPingBesideADeafServer(t *testing.T) {
	t.Parallel()
	in, out, _ := besideADeafServer(t, t.Context())
	if _, err := io.WriteString(in, `{"jsonrpc":"2.0","id":4,"method":"ping"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	answered := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		answered <- line
	}()
	select {
	case got := <-answered:
		if !strings.Contains(got, `"id":4`) || strings.Contains(got, `"error"`) {
			t.Error(got)
		}
	case <-time.After(connectTime / 2):
		t.Error("it waits for its server")
	}
}

// TestLostBesideACall: a session is lost for one request, whose list did not come in time, while a call is held on it. Other
// requests do not wait for the call, which goes on.
func TestLostBesideACall(t *testing.T) {
	t.Parallel()
	held, release := make(chan struct{}), make(chan struct{})
	web := answering(t, "tools/call", func() string {
		close(held)
		<-release
		return `{"content":[{"type":"text","text":"done"}]}`
	})
	r := newRelay(Config{URL: web.URL, Client: web.Client(), Version: "1"})
	session, err := r.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	called := make(chan string, 1)
	go func() {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t", Arguments: json.RawMessage("{}")})
		called <- fmt.Sprint(result.GetError(), err, len(result.Content))
	}()
	<-held
	lost := make(chan error, 1)
	go func() { lost <- r.lost(session, context.DeadlineExceeded) }()
	select {
	case <-lost:
		if r.there() != nil {
			t.Error("the session stays")
		}
	case <-time.After(connectTime / 2):
		t.Error("a request waits for the call of another")
	}
	close(release)
	if got := <-called; got != "<nil> <nil> 1" {
		t.Errorf("the call that was held ended with %s", got)
	}
	r.close()
}
