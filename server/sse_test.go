package server_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// frame is one SSE frame, read to the letter: id first, one line of data, LF only.
type frame struct{ id, data, event string }

// typ is the event's type.
func (f frame) typ() string { return f.field("type") }

// field is a string member of the event.
func (f frame) field(name string) string {
	var members map[string]any
	if json.Unmarshal([]byte(f.data), &members) != nil {
		return ""
	}
	s, _ := members[name].(string)
	return s
}

// reader reads frames as they come.
type reader struct {
	t    testing.TB
	resp *http.Response
	in   *bufio.Reader
	// comments counts heartbeats.
	comments int
}

// open begins a stream.
func (h *env) open(req *http.Request) *reader {
	h.t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		raw, _ := io.ReadAll(resp.Body)
		h.t.Fatalf("no stream: %s %s", resp.Status, raw)
	}
	return newReader(h.t, resp)
}

func newReader(t testing.TB, resp *http.Response) *reader {
	return &reader{t: t, resp: resp, in: bufio.NewReaderSize(resp.Body, 64<<10)}
}

// next reads a frame; io.EOF after the last, another error when the stream was cut.
func (r *reader) next() (f frame, err error) {
	for {
		line, err := r.in.ReadString('\n')
		if err != nil {
			if errors.Is(err, io.EOF) && line != "" {
				err = io.ErrUnexpectedEOF
			}
			return f, err
		}
		switch line = strings.TrimSuffix(line, "\n"); {
		case line == "" && f.data != "":
			return f, nil
		case line == "" || strings.HasPrefix(line, "retry: "):
		case strings.HasPrefix(line, ":"):
			r.comments++
		case strings.HasPrefix(line, "id: ") && f.data == "":
			f.id = line[len("id: "):]
		case strings.HasPrefix(line, "event: ") && f.data == "":
			f.event = line[len("event: "):]
		case strings.HasPrefix(line, "data: ") && f.data == "":
			f.data = line[len("data: "):]
		default:
			r.t.Errorf("a line that is not SSE as clients read it: %q", line)
		}
	}
}

// rest reads all frames there are; the stream must end whole.
func (r *reader) rest() []frame {
	r.t.Helper()
	frames, err := r.until(func(frame) bool { return false })
	if !errors.Is(err, io.EOF) {
		r.t.Fatalf("after %d frames: %v", len(frames), err)
	}
	return frames
}

// until reads frames up to the first for which stop is true.
func (r *reader) until(stop func(frame) bool) (frames []frame, err error) {
	for {
		f, err := r.next()
		if err != nil {
			return frames, err
		}
		frames = append(frames, f)
		if stop(f) {
			return frames, nil
		}
	}
}

// close leaves.
func (r *reader) close() { r.resp.Body.Close() }

// chat posts a RunAgentInput of AG-UI 1.0 with one message and reads the stream.
func (h *env) chat(thread, run, text string) []frame {
	h.t.Helper()
	return h.open(h.prompt(thread, run, text)).rest()
}

func (h *env) prompt(thread, run, text string) *http.Request {
	h.t.Helper()
	return h.request("POST", "/api/agui/chat", inputBody(thread, run, text))
}

// chatAnswer answers a question in the chat, by a tool message.
func (h *env) chatAnswer(thread, run, id, answer string) []frame {
	h.t.Helper()
	return h.open(h.request("POST", "/api/agui/chat", fmt.Sprintf(`{"threadId":%q,"runId":%q,"protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{},`+
		`"messages":[{"id":"t-%s","role":"tool","toolCallId":%q,"content":%q}]}`, thread, run, run, id, answer))).rest()
}

func inputBody(thread, run, text string) string {
	return fmt.Sprintf(`{"threadId":%q,"runId":%q,"protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{},`+
		`"messages":[{"id":"u-%s","role":"user","content":%q}]}`, thread, run, run, text)
}

// stream parses what a response body held.
func stream(t testing.TB, body string) []frame {
	t.Helper()
	r := &reader{t: t, in: bufio.NewReader(strings.NewReader(body))}
	return r.rest()
}

// types are the frames' types, equal ones in a row listed once.
func types(frames []frame) string {
	var out []string
	for _, f := range frames {
		if len(out) == 0 || out[len(out)-1] != f.typ() {
			out = append(out, f.typ())
		}
	}
	return strings.Join(out, " ")
}

func typed(frames []frame, typ string) frame {
	for _, f := range frames {
		if f.typ() == typ {
			return f
		}
	}
	return frame{}
}

// chained is the running hash over (id, data): equal when nothing is missing, doubled,
// moved or changed.
func chained(sum [32]byte, frames []frame) [32]byte {
	for _, f := range frames {
		var b bytes.Buffer
		b.Write(sum[:])
		b.WriteString(f.id + "\n" + f.data)
		sum = sha256.Sum256(b.Bytes())
	}
	return sum
}
