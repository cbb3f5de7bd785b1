package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/server/limit"
	"aqueduct/store"
)

// picture is bytes that nothing compresses, the same for the same number.
func picture(n, size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(data)
	return data
}

func pictureMessage(id string, data []byte) string {
	return fmt.Sprintf(`{"id":%q,"role":"user","content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"data","value":%q,"mimeType":"image/png"}}]}`,
		id, base64.StdEncoding.EncodeToString(data))
}

// talk is an official client's: it sends all it has with each message.
type talk struct {
	h        *env
	thread   string
	messages []string
	runs     int
}

// send adds a message and reads the answer.
func (c *talk) send(message string) []frame {
	c.h.t.Helper()
	c.messages = append(c.messages, message)
	c.runs++
	return c.h.open(c.h.request("POST", "/api/agui/chat", c.body())).rest()
}

func (c *talk) body() string {
	return fmt.Sprintf(`{"threadId":%q,"runId":"R%d","protocolVersion":"1.0","messages":[%s],"state":{}}`, c.thread, c.runs, strings.Join(c.messages, ","))
}

// snapshotOf is the messages of a join, and the history_cut beside them.
func (h *env) snapshotOf(thread string) (messages []agui.Message, cut map[string]any) {
	h.t.Helper()
	for _, f := range h.open(h.request("POST", "/api/agui/connect", fmt.Sprintf(`{"threadId":%q,"runId":"J","protocolVersion":"1.0","messages":[]}`, thread))).rest() {
		if len(f.data) > 8<<20 {
			h.t.Errorf("a frame of %d bytes", len(f.data))
		}
		ev, err := agui.Decode([]byte(f.data))
		if err != nil {
			h.t.Fatal(err)
		}
		switch e := ev.(type) {
		case *agui.MessagesSnapshot:
			messages = e.Messages
		case *agui.Custom:
			if e.Name == bridge.HistoryCut {
				if err := json.Unmarshal(e.Value, &cut); err != nil {
					h.t.Fatal(err)
				}
			}
		}
	}
	return messages, cut
}

// TestPartIsServed so that it never runs as a page of ours, and is fetched once.
func TestPartIsServed(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{public: "https://chat.example/"})
	data := picture(1, 100<<10)
	for mime, want := range map[string][2]string{
		"image/png": {"image/png", "inline"}, "image/svg+xml": {"image/svg+xml", "attachment"}, "text/html": {"text/html; charset=utf-8", "attachment"},
		"application/pdf": {"application/pdf", "attachment"}, "text/plain": {"text/plain; charset=utf-8", "inline"},
		"": {"application/octet-stream", "attachment"}, "x\r\ny: z": {"application/octet-stream", "attachment"}, "multipart/mixed; boundary=a": {"application/octet-stream", "attachment"},
	} {
		thread := fmt.Sprintf("T%x", sha256.Sum256([]byte(mime)))[:10]
		quoted, _ := json.Marshal(mime)
		c := &talk{h: h, thread: thread}
		c.send(strings.Replace(pictureMessage("u", data), `"image/png"`, string(quoted), 1))
		messages, _ := h.snapshotOf(thread)
		path, ours := strings.CutPrefix(messages[0].Content.Parts[1].Source.Value, "https://chat.example")
		if !ours {
			t.Errorf("%s: not at the address that people reach us at: %s", mime, path)
		}
		got := h.do("GET", path, "")
		policy := got.header.Get("Content-Security-Policy")
		if got.header.Get("Content-Type") != want[0] || got.header.Get("Content-Disposition") != want[1] || got.header.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.Contains(policy, "sandbox") || !strings.Contains(policy, "default-src 'none'") || !strings.Contains(got.header.Get("Cache-Control"), "private") {
			t.Errorf("%q: %v", mime, got.header)
		}
		if beyond := h.do("GET", path, "", "Range", "bytes=999999999-"); beyond.status != 416 {
			t.Errorf("a range beyond the end: %d", beyond.status)
		}
		if part := h.do("GET", path, "", "Range", "bytes=10-19"); part.status != 206 || part.body != string(data[10:20]) {
			t.Errorf("a range: %d %d", part.status, len(part.body))
		}
		if same := h.do("GET", path, "", "If-None-Match", got.header.Get("ETag")); same.status != 304 || same.body != "" {
			t.Errorf("with its ETag: %d", same.status)
		}
		isProblem(t, h.do("GET", strings.Replace(path, "/parts/", "/parts/0", 1), ""), 404)
	}
}

// insert keeps messages in a transcript as they are.
func (h *env) insert(sessionID string, bodies ...string) {
	h.t.Helper()
	err := h.store.InTx(h.t.Context(), func(tx store.Tx) error {
		for _, body := range bodies {
			var m agui.Message
			if err := json.Unmarshal([]byte(body), &m); err != nil {
				return err
			}
			row := store.Message{ID: uuid.Must(uuid.NewV7()).String(), SessionID: sessionID, ExternalID: m.ID, Role: m.Role, Output: m.Role != "user", Data: []byte(body), CreatedAt: time.Now()}
			if err := tx.InsertMessage(h.t.Context(), row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// TestSnapshotKeepsCallsWithResults: the page before gets the results whose calls it has.
func TestSnapshotKeepsCallsWithResults(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	h.chat("T", "R", "hi")
	filler := strings.Repeat("x", 900<<10)
	bodies := []string{fmt.Sprintf(`{"id":"a","role":"assistant","content":%q,"toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}`, filler),
		`{"id":"r","role":"tool","toolCallId":"c","content":"7"}`}
	for n := range 4 {
		bodies = append(bodies, fmt.Sprintf(`{"id":"f%d","role":"user","content":%q}`, n, filler))
	}
	h.insert(h.sessionOf("T"), bodies...)
	messages, cut := h.snapshotOf("T")
	if len(messages) != 4 || messages[0].ID != "f0" || cut["before"] == nil {
		t.Errorf("%d messages, the first %s, %v", len(messages), messages[0].ID, cut)
	}
}

// memoryPeak is about the most that was allocated at a time while fn ran. The test's own connection is in it on both sides.
func memoryPeak(fn func()) uint64 {
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var peak atomic.Uint64
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		var now runtime.MemStats
		for ctx.Err() == nil {
			runtime.GC() // what is garbage is no need of the request's
			runtime.ReadMemStats(&now)
			peak.Store(max(peak.Load(), now.HeapAlloc))
		}
	}()
	fn()
	stop()
	<-done
	return peak.Load() - min(peak.Load(), before.HeapAlloc)
}

// TestSlowLargeBody: what is larger than a body may come slowly, but not as slowly as it likes.
func TestSlowLargeBody(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{limits: limit.Limits{BodyTime: 50 * time.Millisecond}})
	pr, pw := io.Pipe()
	go func() {
		_, _ = io.WriteString(pw, `{"messages":[`)
		// and then nothing more: the client waits for the server to give up
	}()
	defer pw.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL+"/api/agui/chat", pr)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return // the connection was cut: as good an answer
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("%s", resp.Status)
	}
}
