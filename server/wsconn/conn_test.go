package wsconn

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"aqueduct/server/limit"
	"aqueduct/server/problem"
)

// env is a server with one WebSocket, which handle serves, and its client.
type env struct {
	*testing.T
	client *websocket.Conn
	ended  chan struct{} // closed when handle has returned
}

func newEnv(t *testing.T, limits limit.Limits, handle func(c *Conn)) *env {
	t.Helper()
	h := &env{T: t, ended: make(chan struct{})}
	router := echo.New()
	router.GET("/", func(c echo.Context) error {
		defer close(h.ended)
		conn, err := Open(c, limits.WithDefaults())
		if err != nil {
			return err
		}
		handle(conn)
		return nil
	})
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	client, resp, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(server.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	t.Cleanup(func() { _ = client.Close() })
	h.client = client
	return h
}

// next is the next message for the client, or the code and the reason with which the connection ended.
func (h *env) next() string {
	h.Helper()
	_ = h.client.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, raw, err := h.client.ReadMessage()
	var closed *websocket.CloseError
	if errors.As(err, &closed) {
		return closed.Error()
	}
	if err != nil {
		h.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}

func (h *env) send(text string) {
	h.Helper()
	if err := h.client.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		h.Fatal(err)
	}
}

// echoing answers each message by its length, and a message that was too large by "too large".
func echoing(c *Conn) {
	c.Serve(context.Background(), func() {
		_ = c.Read(func(raw []byte) error {
			if raw == nil {
				return c.Send("too large")
			}
			return c.Send(map[string]any{"bytes": len(raw), "text": string(raw[:min(len(raw), 8)])})
		})
	})
}

// If this fails, one message that is too large ends a page's whole connection, or takes the server's memory.
func TestReadSkipsWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	h := newEnv(t, limit.Limits{}, echoing)
	for _, c := range []struct{ text, want string }{
		{"hi", `{"bytes":2,"text":"hi"}`},
		{"", `{"bytes":0,"text":""}`},
		{strings.Repeat("x", maxMessage), `{"bytes":1048576,"text":"xxxxxxxx"}`},
		{strings.Repeat("x", maxMessage+1), `"too large"`},
		{"<&>", `{"bytes":3,"text":"<&>"}`},
	} {
		h.send(c.text)
		if got := h.next(); got != c.want {
			t.Errorf("%d bytes are answered by %s, want %s", len(c.text), got, c.want)
		}
	}
}

// If this fails, a client cannot tell why its connection ended, and comes back at once where it must not.
func TestTheFirstReasonEndsTheConnection(t *testing.T) {
	t.Parallel()
	waits := func(c *Conn) { c.Serve(context.Background(), func() { c.Discard(64) }) }
	for name, c := range map[string]struct {
		handle func(c *Conn)
		want   string
	}{
		"ended twice": {func(c *Conn) {
			c.End(websocket.ClosePolicyViolation, "first")
			c.End(websocket.CloseGoingAway, "second")
			waits(c)
		}, "websocket: close 1008 (policy violation): first"},
		"the server goes away": {func(c *Conn) {
			draining, drain := context.WithCancel(context.Background())
			drain()
			c.Serve(draining, func() { c.Discard(64) })
		}, "websocket: close 1001 (going away): shutting_down"},
		"the credential is revoked": {func(c *Conn) {
			caller, revoke := context.WithCancel(context.Background())
			c.EndWith(caller)
			revoke()
			waits(c)
		}, "websocket: close 1008 (policy violation): unauthorized"},
		"the credential has ended": {func(c *Conn) {
			c.EndAt(time.Now().Add(-time.Second))
			waits(c)
		}, "websocket: close 1008 (policy violation): unauthorized"},
		"the reader is done": {func(c *Conn) {
			c.EndAt(time.Time{}) // a credential without an end
			c.Serve(context.Background(), func() {})
		}, "websocket: close 1000 (normal)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newEnv(t, limit.Limits{}, c.handle)
			if got := h.next(); got != c.want {
				t.Errorf("the client gets %q, want %q", got, c.want)
			}
			<-h.ended
		})
	}
}

// If this fails, connections of clients that have left stay open, and the server cannot shut down.
func TestServeEndsWithItsClient(t *testing.T) {
	t.Parallel()
	task := make(chan struct{})
	h := newEnv(t, limit.Limits{}, func(c *Conn) {
		c.Tasks.Go(func() { <-c.Ctx.Done(); close(task) })
		echoing(c)
	})
	_ = h.client.Close()
	<-h.ended
	select {
	case <-task:
	default:
		t.Error("a task of the connection is still at work")
	}
}

// If this fails, a client that sends no credential holds a connection for as long as it likes.
func TestReadFirstIsShortAndSoon(t *testing.T) {
	t.Parallel()
	type result struct {
		raw string
		err error
	}
	for name, c := range map[string]struct {
		send string
		want string
		ok   bool
	}{
		"a hello":  {`{"type":"hello"}`, `{"type":"hello"}`, true},
		"too long": {strings.Repeat("x", 65), "", false},
		"never":    {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan result, 1)
			within := time.Minute
			if c.send == "" {
				within = time.Millisecond
			}
			h := newEnv(t, limit.Limits{}, func(conn *Conn) {
				raw, err := conn.ReadFirst(64, within)
				got <- result{string(raw), err}
				conn.Goodbye()
			})
			if c.send != "" {
				h.send(c.send)
			}
			if r := <-got; (r.err == nil) != c.ok || r.raw != c.want {
				t.Errorf("read is %q, %v", r.raw, r.err)
			}
		})
	}
}

// If this fails, a client gets a null or half a message, or one behind its close frame.
func TestSendMadeSendsNothingForNil(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	h := newEnv(t, limit.Limits{}, func(c *Conn) {
		defer c.Goodbye()
		if err := c.SendMade(func() (any, error) { return nil, nil }); err != nil {
			t.Errorf("nothing to send is %v", err)
		}
		if err := c.SendMade(func() (any, error) { return "x", refused }); !errors.Is(err, refused) {
			t.Errorf("a message that cannot be made is %v", err)
		}
		if err := c.SendRaw([]byte(`{"raw":true}`)); err != nil {
			t.Error(err)
		}
		c.End(websocket.CloseNormalClosure, "")
		if err := c.Send("late"); !errors.Is(err, context.Canceled) {
			t.Errorf("a message behind the end is %v", err)
		}
		if err := c.SendRaw([]byte(`"late"`)); !errors.Is(err, context.Canceled) {
			t.Errorf("a raw message behind the end is %v", err)
		}
	})
	if got := h.next(); got != `{"raw":true}` {
		t.Errorf("the client gets %s", got)
	}
	if got := h.next(); got != "websocket: close 1000 (normal)" {
		t.Errorf("the client gets %s", got)
	}
}

// If this fails, a page that opens the address in a tab gets a broken answer in place of upgrade_required.
func TestAPlainRequestIsRefused(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if err := CheckUpgrade(r); problem.Of(err).Code != problem.Upgrade {
		t.Errorf("a plain request gives %v", err)
	}
	w := httptest.NewRecorder()
	if _, err := Open(echo.New().NewContext(r, w), limit.Limits{}); problem.Of(err).Code != problem.Upgrade || w.Body.Len() > 0 {
		t.Errorf("a plain request gives %v, with the body %q", err, w.Body)
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	if err := CheckUpgrade(r); err != nil {
		t.Errorf("a WebSocket's request gives %v", err)
	}
}

// If this fails, pages show \u003c in place of < wherever a message comes by a socket.
func TestMarshalKeepsTheText(t *testing.T) {
	t.Parallel()
	raw, err := Marshal("<a href=\"x&y\">")
	if err != nil || strings.TrimSpace(string(raw)) != `"<a href=\"x&y\">"` {
		t.Errorf("%s, %v", raw, err)
	}
	if _, err := Marshal(func() {}); err == nil {
		t.Error("what is no JSON is written")
	}
}
