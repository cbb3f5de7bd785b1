package server_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/bridge/livefeed"
	"aqueduct/server/limit"
	"aqueduct/store"
)

// page connects to /ws/client; header holds pairs.
func (h *env) page(query string, header ...string) (*websocket.Conn, *http.Response, error) {
	head := make(http.Header)
	for i := 0; i < len(header); i += 2 {
		head.Set(header[i], header[i+1])
	}
	conn, resp, err := websocket.DefaultDialer.DialContext(h.t.Context(), "ws"+strings.TrimPrefix(h.URL, "http")+"/ws/client"+query, head)
	if err == nil {
		h.t.Cleanup(func() { _ = conn.Close() })
	}
	return conn, resp, err
}

func (h *env) watch(query string, header ...string) *websocket.Conn {
	h.t.Helper()
	conn, resp, err := h.page(query, header...)
	if err != nil {
		h.t.Fatal(err, resp)
	}
	return conn
}

// hint is a frame with some text in it.
func hint(session, text string) []byte {
	return livefeed.InitStep(session, fmt.Appendf(nil, `{"type":"init_step","stage":%q,"status":"running"}`, text))
}

// receives reads frames and compares.
func receives(t *testing.T, conn *websocket.Conn, want ...string) {
	t.Helper()
	for _, w := range want {
		kind, got, err := conn.ReadMessage()
		// That the Run before has ended may come in between, unless it is waited for.
		for err == nil && !strings.Contains(w, "thread_changed") && strings.Contains(string(got), `"type":"thread_changed"`) {
			kind, got, err = conn.ReadMessage()
		}
		if err != nil || kind != websocket.TextMessage || string(got) != w {
			t.Fatalf("heard %d %q %v, want %q", kind, got, err, w)
		}
	}
}

// sessionOf is a thread's Session.
func (h *env) sessionOf(thread string) string {
	h.t.Helper()
	s, err := h.store.SessionByExternalID(h.t.Context(), scope(), thread)
	if err != nil {
		h.t.Fatal(err)
	}
	return s.ID
}

// foreign is a Session that this server's one caller may not see.
func (h *env) foreign() string {
	h.t.Helper()
	s := store.Session{ID: "01890000-0000-7000-8000-000000000000", Tenant: "other", User: "carol", ExternalID: "F", AgentID: "x",
		CreatedAt: time.UnixMilli(1), UpdatedAt: time.UnixMilli(1)}
	if err := h.store.InTx(h.t.Context(), func(tx store.Tx) error { return tx.InsertSession(h.t.Context(), s) }); err != nil {
		h.t.Fatal(err)
	}
	return s.ID
}

// TestHints get to those who may see them and asked for them.
func TestHints(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	h.chat("T", "R1", "hi")
	h.chat("U", "R2", "hi")
	one, two, foreign := h.sessionOf("T"), h.sessionOf("U"), h.foreign()
	all, thread, run := h.watch(""), h.watch("?thread_id=U"), h.watch("?run_id="+one)
	for i, id := range []string{one, foreign, two, one} {
		h.hints.Publish(id, hint(id, strconv.Itoa(i)))
	}
	listed := livefeed.WorkspaceInventory("p", "i", "", []byte(`[]`))
	h.hints.PublishAll(listed)
	n0, n2, n3 := string(hint(one, "0")), string(hint(two, "2")), string(hint(one, "3"))
	receives(t, all, n0, n2, n3, string(listed))
	receives(t, thread, n2)
	receives(t, run, n0, n3)
	for query, want := range map[string]int{"?thread_id=F": 404, "?run_id=" + foreign: 404, "?thread_id=none": 404, "?run_id=a&thread_id=T": 400} {
		if _, resp, err := h.page(query); err == nil || resp.StatusCode != want {
			t.Errorf("%s: %v", query, resp)
		}
	}
}

// TestWhoMayWatch: a token or a cookie, never in the URL, and no stranger's page.
func TestWhoMayWatch(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{auth: static(t), origins: []string{"https://app.example"}})
	session := h.signedIn(goodToken)
	bearer := "Bearer " + goodToken
	for name, c := range map[string]struct {
		query  string
		header []string
		status int
	}{
		"bearer":           {"", []string{"Authorization", bearer}, 101},
		"cookie":           {"", session.all(), 101},
		"cookie, own page": {"", session.all("Origin", h.URL), 101},
		"cookie alone":     {"", session.cookie(), 401},
		"a listed page":    {"", []string{"Authorization", bearer, "Origin", "https://app.example"}, 101},
		"a stranger's":     {"", session.all("Origin", "https://evil.example"), 403},
		"another port's":   {"", session.all("Origin", "http://localhost:3000"), 403},
		"nothing":          {"", nil, 401},
		"in the URL":       {"?token=" + goodToken, nil, 401},
		"a wrong one":      {"", []string{"Authorization", bearer + "x"}, 401},
	} {
		conn, resp, err := h.page(c.query, c.header...)
		if resp == nil || resp.StatusCode != c.status || (err == nil) != (c.status == 101) {
			t.Errorf("%s: %v %v", name, resp, err)
		}
		if conn != nil {
			_ = conn.Close()
		}
	}
}

// TestDrainClosesSockets with the reason, and lets none in.
func TestDrainClosesSockets(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	pages := []*websocket.Conn{h.watch(""), h.watch("")}
	h.server.Drain()
	for _, conn := range pages {
		if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
			t.Error(err)
		}
	}
	if _, resp, err := h.page(""); err == nil || resp.StatusCode != 503 {
		t.Error(resp, err)
	}
}

// TestSocketsAreCounted: one too many is refused, one that leaves makes room.
func TestSocketsAreCounted(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{limits: limit.Limits{Sockets: 1}})
	first := h.watch("")
	_, resp, err := h.page("")
	if err == nil || resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Error(resp, err)
	}
	if err := first.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	// The server answers and closes; only then is the place free.
	for err == nil || !errors.Is(err, io.EOF) && !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		if _, _, err = first.ReadMessage(); err == nil {
			t.Fatal("a frame")
		}
	}
	h.hintsAreUnwatched()
	for {
		conn, resp, err := h.page("")
		if err == nil {
			_ = conn.Close()
			return
		}
		if resp == nil || resp.StatusCode != 503 {
			t.Fatal(resp, err)
		}
	}
}

// hintsAreUnwatched waits until the last page has left.
func (h *env) hintsAreUnwatched() {
	for h.hints.Watched() && h.t.Context().Err() == nil {
		h.do("GET", "/healthz", "")
	}
}

// TestPageThatTalks: small frames are ignored, a large one ends it.
func TestPageThatTalks(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	h.chat("T", "R1", "hi")
	conn := h.watch("")
	for range 100 {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"prompt_run"}`)); err != nil {
			t.Fatal(err)
		}
	}
	session := h.sessionOf("T")
	h.hints.Publish(session, hint(session, "x"))
	receives(t, conn, string(hint(session, "x")))
	if err := conn.WriteMessage(websocket.TextMessage, make([]byte, 5<<10)); err != nil {
		t.Fatal(err)
	}
	_, _, err := conn.ReadMessage()
	for err == nil { // a frame that was on its way
		_, _, err = conn.ReadMessage()
	}
	if !websocket.IsCloseError(err, websocket.CloseMessageTooBig, websocket.CloseNormalClosure) {
		t.Error(err)
	}
	h.hintsAreUnwatched()
}

// TestPings keep it open both ways; a page that answers none is left.
func TestPings(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{limits: limit.Limits{Heartbeat: 10 * time.Millisecond, WriteTime: 500 * time.Millisecond}})
	conn := h.watch("")
	pings := 0
	answer := conn.PingHandler()
	conn.SetPingHandler(func(data string) error {
		if pings++; pings > 10 {
			return nil
		}
		return answer(data)
	})
	_, _, err := conn.ReadMessage()
	if err == nil || pings < 10 {
		t.Errorf("%d pings, %v", pings, err)
	}
	h.hintsAreUnwatched()
}

// TestSlowPage: it loses hints; publishers, other watchers and a server that shuts down do not notice.
func TestSlowPage(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	h.chat("T", "R1", "hi")
	session := h.sessionOf("T")
	h.watch("?thread_id=T") // never reads
	quick := h.watch("?thread_id=T")
	frame := hint(session, strings.Repeat("x", 64<<10))
	for range 10 { // more than the buffers between here and there hold, whatever this system gives a connection
		for range 400 {
			h.hints.Publish(session, frame)
			receives(t, quick, string(frame))
		}
		if page := h.do("GET", "/metrics", "").body; !strings.Contains(page, "aqueduct_hints_dropped_total 0\n") {
			return
		}
	}
	t.Error("nothing was lost")
}

// TestSlowPageIsCut when it takes nothing for too long.
func TestSlowPageIsCut(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{limits: limit.Limits{WriteTime: 50 * time.Millisecond}})
	h.chat("T", "R1", "hi")
	session := h.sessionOf("T")
	h.watch("")
	frame := hint(session, strings.Repeat("x", 64<<10))
	for h.hints.Watched() {
		h.hints.Publish(session, frame)
		h.do("GET", "/healthz", "")
	}
}
