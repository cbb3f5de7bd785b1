package mcpservers

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/bridge/tools"
)

// deafServer is a server that reads nothing more behind its list of tools; with floods it sends requests without end.
func deafServer(floods bool) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(lines.Bytes(), &m)
		switch m.Method {
		case "initialize":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"deaf","version":"1"}}}`+"\n", m.ID)
		case "tools/list":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"big","inputSchema":{"type":"object"}}]}}`+"\n", m.ID)
			for i := 0; floods; i++ {
				if _, err := fmt.Printf(`{"jsonrpc":"2.0","id":"flood-%d","method":"ping"}`+"\n", i); err != nil {
					os.Exit(1)
				}
			}
			time.Sleep(time.Hour)
		case "server/discover":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", m.ID)
		}
	}
}

// muteServer never answers, and does not end when it is asked to.
func muteServer() {
	signal.Ignore(syscall.SIGTERM)
	fmt.Fprintln(os.Stderr, "pid", os.Getpid())
	time.Sleep(time.Hour)
}

// TestAServerThatNeverAnswers: it does not keep Aqueduct from its end, and nothing of it is left.
func TestAServerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	var log lockedText
	t.Cleanup(func() { // behind the end
		_, text, _ := strings.Cut(log.String(), "pid ")
		text, _, _ = strings.Cut(text, "\"")
		if pid, err := strconv.Atoi(text); err != nil || syscall.Kill(pid, 0) == nil {
			t.Errorf("process %q is left, %v", text, err)
		}
	})
	r := runWith(t, Server{Name: "mute", Command: self(t, "mute")}, &log)
	if got := r.call("mute.any", time.Second); got != tools.CodeUnreachable {
		t.Errorf("a call: %s", got)
	}
	for end := time.Now().Add(patience); !strings.Contains(log.String(), "pid "); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not started")
		}
	}
}

// TestAServerThatReadsNothing: it holds no call beyond its time, also not with what it asks itself, and it is started again.
func TestAServerThatReadsNothing(t *testing.T) {
	t.Parallel()
	r := run(t, Server{Name: "deaf", Command: self(t, "deaf")})
	r.offers("deaf.big")
	ended := make(chan string, 1)
	go func() { ended <- r.callWith("deaf.big", strings.Repeat("x", 1<<20), time.Second) }()
	select {
	case got := <-ended:
		if got != tools.CodeTimeout {
			t.Errorf("the call ended with %s", got)
		}
	case <-time.After(patience):
		t.Fatal("the call does not end")
	}
	if got := r.callWith("deaf.big", "x", time.Second); got != tools.CodeTimeout { // of the next process, which takes what fits into its pipe
		t.Errorf("the next call ended with %s", got)
	}
}

// TestCallOverAClosedConnection: nothing of it was sent, so it goes over the next one.
func TestCallOverAClosedConnection(t *testing.T) {
	t.Parallel()
	near, far := mcp.NewInMemoryTransports()
	go func() {
		conn, err := far.Connect(t.Context())
		for err == nil {
			_, err = conn.Read(t.Context())
		}
	}()
	conn, err := noted{near}.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	call := &jsonrpc.Request{Method: "tools/call"}
	for _, closed := range []bool{false, true} {
		if closed {
			_ = conn.Close()
		}
		ctx, delivered := withDelivery(t.Context())
		if err := conn.Write(ctx, call); (err != nil) != closed || delivered.sent.Load() == closed {
			t.Errorf("closed %t: sent %t, %v", closed, delivered.sent.Load(), err)
		}
	}
}

// TestAServerThatAsksWithoutEnd: what a server asks and does not read the answers of is bounded; its connection ends.
func TestAServerThatAsksWithoutEnd(t *testing.T) {
	t.Parallel()
	var log lockedText
	r := runWith(t, Server{Name: "flood", Command: self(t, "flood")}, &log)
	r.offers("flood.big")
	for end := time.Now().Add(patience); !strings.Contains(log.String(), "is away"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the connection stands, whatever comes over it")
		}
	}
}

// lockedText is a log.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
