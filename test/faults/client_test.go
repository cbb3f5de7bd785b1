package faults_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// event is one event as a client sees it.
type event struct {
	id   int64
	data string
}

func (e event) kind() string {
	var body struct{ Type string }
	_ = json.Unmarshal([]byte(e.data), &body) // what is no event has no kind
	return body.Type
}

func (e event) terminal() bool { return e.kind() == "RUN_FINISHED" || e.kind() == "RUN_ERROR" }

// stream reads SSE in the plainest way there is: it shares nothing with what wrote it.
type stream struct {
	cancel context.CancelFunc
	resp   *http.Response
	in     *bufio.Reader
}

func (s *stream) close() {
	s.cancel()
	_ = s.resp.Body.Close()
}

// next is the next event; io.EOF at a clean end, another error when the stream was cut.
func (s *stream) next() (event, error) {
	var e event
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			if err == io.EOF && (line != "" || e.data != "") {
				err = io.ErrUnexpectedEOF
			}
			return event{}, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "\n":
			if e.data != "" {
				return e, nil
			}
		case name == "id":
			if e.id, err = strconv.ParseInt(value, 10, 64); err != nil {
				return e, err
			}
		case name == "data":
			e.data = value
		}
	}
}

// client keeps connections of its own, so that killing a server leaves none for the next.
func (s *server) do(ctx context.Context, method, path string, body []byte, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Close = true
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return http.DefaultClient.Do(req)
}

func (s *server) stream(method, path string, body []byte, header ...string) (*stream, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	resp, err := s.do(ctx, method, path, body, append(header, "Accept", "text/event-stream")...)
	if err == nil && resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		err = fmt.Errorf("%s %s: HTTP %d %s", method, path, resp.StatusCode, text)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &stream{cancel: cancel, resp: resp, in: bufio.NewReader(resp.Body)}, nil
}

// prompt is a body of AG-UI 1.0.
func prompt(thread, run, text string) []byte {
	raw, err := json.Marshal(map[string]any{
		"threadId": thread, "runId": run, "protocolVersion": "1.0", "state": map[string]any{},
		"messages": []any{map[string]any{"id": run + "-m", "role": "user", "content": text}},
		"tools":    []any{}, "context": []any{}, "forwardedProps": map[string]any{},
	})
	if err != nil {
		panic(err)
	}
	return raw
}

// chat posts a prompt.
func (s *server) chat(thread, run, text string) (*stream, error) {
	return s.stream("POST", "/api/agui/chat", prompt(thread, run, text))
}

// get reads JSON; found is false for a 404.
func (s *server) get(path string, into any) (found bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	resp, err := s.do(ctx, "GET", path, nil)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return false, nil
	}
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("GET %s: HTTP %d", path, resp.StatusCode)
	}
	return true, json.NewDecoder(resp.Body).Decode(into)
}

type runInfo struct {
	RunID, TurnID, Status, ErrorCode string
	FirstSeq, LastSeq                int64
	Turn                             struct{ Status string }
}

type threadInfo struct {
	LastRun   *runInfo
	Questions []string
}

// settled waits until nothing of a thread is under way: its last Run is over, and its Turn
// too, or waits for an answer.
func (s *server) settled(t testing.TB, thread string) (info threadInfo, turn runInfo) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		found, err := s.get("/api/threads/"+thread, &info)
		if err != nil {
			t.Fatal(err)
		}
		if found && info.LastRun != nil {
			if _, err := s.get("/api/runs/"+info.LastRun.RunID, &turn); err != nil {
				t.Fatal(err)
			}
			// A further Run may have begun, and ended the Turn, between the two looks.
			var now threadInfo
			if _, err := s.get("/api/threads/"+thread, &now); err != nil {
				t.Fatal(err)
			}
			over := turn.Status != "RUNNING" && turn.Status != "RESERVED" && now.LastRun != nil && now.LastRun.RunID == info.LastRun.RunID
			switch turn.Turn.Status {
			case "DONE", "FAILED", "CANCELLED":
				if over {
					return info, turn
				}
			case "PAUSED_WAITING_APPROVAL", "PAUSED_WAITING_TOOL": // one that is answered goes on
				if over && len(info.Questions) > 0 {
					return info, turn
				}
			}
		}
		if time.Now().After(end) {
			t.Fatalf("thread %s does not settle: run %s, turn %s\n%s", thread, turn.Status, turn.Turn.Status, s.log())
		}
		info, turn = threadInfo{}, runInfo{}
	}
}

// whole is a thread's log up to a position.
func (s *server) whole(t testing.TB, thread string, until int64) []event {
	t.Helper()
	in, err := s.stream("GET", "/api/threads/"+thread+"/events?after=0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	var log []event
	for int64(len(log)) < until {
		e, err := in.next()
		if err != nil {
			t.Fatalf("thread %s breaks off after %d of %d: %v", thread, len(log), until, err)
		}
		if e.id != int64(len(log))+1 {
			t.Fatalf("thread %s: after event %d comes %d", thread, len(log), e.id)
		}
		log = append(log, e)
	}
	return log
}

// decide settles a Question over REST and gives the HTTP status and the answer.
func (s *server) decide(approval, decision string) (int, decided, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var out decided
	resp, err := s.do(ctx, "POST", "/api/approvals/"+approval+"/decision", []byte(`{"decision":"`+decision+`"}`))
	if err != nil {
		return 0, out, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, out, json.NewDecoder(resp.Body).Decode(&out)
}

type decided struct {
	Won, Repeated bool
	Status, Code  any
	DecidedBy     string `json:"decided_by"`
	DecidedVia    string `json:"decided_via"`
	DecidedAt     string `json:"decided_at"`
	Approval      struct{ Status string }
}

// text is all text of the assistant in a log.
func text(log []event) string {
	var all strings.Builder
	for _, e := range log {
		if e.kind() == "TEXT_MESSAGE_CONTENT" {
			var body struct{ Delta string }
			_ = json.Unmarshal([]byte(e.data), &body)
			all.WriteString(body.Delta)
		}
	}
	return all.String()
}

// codeOf is the code of a RUN_ERROR.
func codeOf(e event) string {
	var body struct{ Code string }
	_ = json.Unmarshal([]byte(e.data), &body)
	return body.Code
}
