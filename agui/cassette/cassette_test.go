package cassette_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"aqueduct/agui/cassette"
	"aqueduct/internal/bubbletest"
	"aqueduct/internal/fault"
	"aqueduct/internal/pace"
)

// log is what a thread's log has: two Runs with pauses, and bytes that a JSON encoder would write otherwise.
var log = []struct {
	at    time.Duration
	event string
}{
	{0, `{"type":"RUN_STARTED","threadId":"T","runId":"R1"}`},
	{10 * time.Millisecond, `{"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}`},
	{2 * time.Second, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"<é& \u2028   1.50"}`},
	{42 * time.Second, `{"type":"TEXT_MESSAGE_END","messageId":"m1"}`},
	{42 * time.Second, `{"type":"RUN_FINISHED","threadId":"T","runId":"R1","outcome":{"type":"success"}}`},
	{time.Hour, `{"type":"RUN_STARTED","threadId":"T","runId":"R2"}`},
	{time.Hour + time.Second, `{"type":"RUN_ERROR","message":"no","code":"x"}`},
}

// written is the cassette of the log, whose first event stands at position 5.
func written(t *testing.T) string {
	t.Helper()
	var file bytes.Buffer
	w := cassette.NewWriter(&file, cassette.Header{ThreadID: "T"})
	for i, e := range log {
		if err := w.Add(int64(5+i), time.Unix(1000, 0).Add(e.at), []byte(e.event)); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := w.Close(); left != 0 || err != nil || w.Runs != 2 || w.Events != int64(len(log)) {
		t.Fatalf("%d left of %d runs, %d events: %v", left, w.Runs, w.Events, err)
	}
	return file.String()
}

// TestRoundTrip: what is read is what was written, byte for byte, and the hash is that of positions and bytes.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	file := written(t)
	tape, err := cassette.Read(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	var tail strings.Builder
	i := 0
	for _, run := range tape.Runs {
		for _, e := range run {
			if e.Seq != int64(5+i) || e.At != log[i].at || string(e.JSON) != log[i].event {
				t.Errorf("%d: %d %v %s", i, e.Seq, e.At, e.JSON)
			}
			fmt.Fprintf(&tail, "%d\t%s\n", e.Seq, e.JSON)
			i++
		}
	}
	sum := sha256.Sum256([]byte(tail.String()))
	if i != len(log) || tape.Header != (cassette.Header{Version: 1, ThreadID: "T"}) || !strings.Contains(file, hex.EncodeToString(sum[:])) {
		t.Errorf("%d events, %+v\n%s", i, tape.Header, file)
	}
}

// TestUnfinished: a Run that is under way leaves nothing in the file, and a clock that was set back no time before the
// event in front.
func TestUnfinished(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	w := cassette.NewWriter(&file, cassette.Header{ThreadID: "T"})
	for i, e := range log[:len(log)-1] {
		if err := w.Add(int64(1+i), time.Unix(1000, 0).Add(-e.at), []byte(e.event)); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := w.Close(); left != 1 || err != nil || w.Runs != 1 {
		t.Fatalf("%d left, %d runs: %v", left, w.Runs, err)
	}
	tape, err := cassette.Read(&file)
	if err != nil || len(tape.Runs) != 1 || tape.Runs[0][4].At != 0 {
		t.Errorf("%+v %v", tape, err)
	}
	var empty bytes.Buffer
	w = cassette.NewWriter(&empty, cassette.Header{ThreadID: "T"})
	_ = w.Add(1, time.Unix(1000, 0), []byte(log[0].event))
	if left, err := w.Close(); left != 1 || err != nil || empty.Len() != 0 {
		t.Errorf("%d left, %v, and there is %q", left, err, &empty)
	}
	large := cassette.NewWriter(io.Discard, cassette.Header{})
	if err := large.Add(1, time.Now(), make([]byte, cassette.MaxEvent+1)); fault.CodeOf(err) != cassette.TooLarge {
		t.Errorf("an event that no reader takes: %v", err)
	}
	full := cassette.NewWriter(failing{}, cassette.Header{})
	_ = full.Add(1, time.Now(), []byte(log[6].event))
	if _, err := full.Close(); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a disk that is full: %v", err)
	}
}

// failing is a disk that is full.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// TestBroken: every file that is cut or changed, or something else, has an error with its code.
func TestBroken(t *testing.T) {
	t.Parallel()
	file := written(t)
	lines := strings.SplitAfter(file, "\n")
	without := func(i int) string { return strings.Join(lines[:i], "") + strings.Join(lines[i+1:], "") }
	for name, c := range map[string]struct{ file, code string }{
		"empty":                  {"", cassette.Foreign},
		"text":                   {"id: 1\ndata: {}\n\n", cassette.Foreign},
		"a HAR":                  {`{"log":{"version":"1.2"}}` + "\n", cassette.Foreign},
		"a line of JSON":         {`{"log":{}}`, cassette.Foreign},
		"a version as text":      {`{"aqueduct_cassette":"1"}` + "\n", cassette.Foreign},
		"a newer one":            {strings.Replace(file, `_cassette":1`, `_cassette":2`, 1), cassette.Newer},
		"version 0":              {strings.Replace(file, `_cassette":1`, `_cassette":0`, 1), cassette.Broken},
		"no header":              {without(0), cassette.Foreign},
		"no trailer":             {without(8), cassette.Broken},
		"no first event":         {without(1), cassette.Broken},
		"an event less":          {without(3), cassette.Broken},
		"the last event less":    {without(7), cassette.Broken},
		"an event twice":         {strings.Join(lines[:3], "") + lines[2] + strings.Join(lines[3:], ""), cassette.Broken},
		"a position changed":     {strings.Replace(file, `"seq":7`, `"seq":9`, 1), cassette.Broken},
		"a time that goes back":  {strings.Replace(file, `"atMs":42000`, `"atMs":1`, 1), cassette.Broken},
		"a time below zero":      {strings.Replace(file, `"atMs":10`, `"atMs":-1`, 1), cassette.Broken},
		"a time beyond any":      {strings.Replace(file, `"atMs":3601000`, `"atMs":9300000000000000`, 1), cassette.Broken},
		"one byte of an event":   {strings.Replace(file, "1.50", "1.51", 1), cassette.Broken},
		"the count":              {strings.Replace(file, `"events":7`, `"events":8`, 1), cassette.Broken},
		"more behind it":         {file + "{}\n", cassette.Broken},
		"an event that is none":  {strings.Replace(file, `{"type":"TEXT_MESSAGE_END","messageId":"m1"}`, `"x"`, 1), cassette.Broken},
		"a Run inside a Run":     {strings.Replace(file, `TEXT_MESSAGE_END`, `RUN_STARTED`, 1), cassette.Broken},
		"a Run without a start":  {strings.Replace(file, `RUN_STARTED","threadId":"T","runId":"R2"`, `STEP_STARTED","threadId":"T","runId":"R2"`, 1), cassette.Broken},
		"an event that is large": {strings.Replace(file, "1.50", strings.Repeat("x", cassette.MaxEvent+2<<10), 1), cassette.TooLarge},
		"cut in the middle":      {file[:len(file)/2], cassette.Broken},
		"cut at its last byte":   {file[:len(file)-1], cassette.Broken},
		"zeroes at its end":      {file[:len(file)/2] + strings.Repeat("\x00", 100) + "\n", cassette.Broken},
	} {
		if _, err := cassette.Read(strings.NewReader(c.file)); fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := cassette.Read(&endless{first: file[:len(file)-100]}); fault.CodeOf(err) != cassette.TooLarge {
		t.Errorf("a file without end: %v", err)
	}
}

// endless is a file whose last line has no end.
type endless struct {
	first string
	given bool
}

func (e *endless) Read(p []byte) (int, error) {
	if !e.given {
		e.given = true
		return copy(p, e.first), nil
	}
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// recorder notes when each write came.
type recorder struct {
	*httptest.ResponseRecorder
	began time.Time
	at    []string
}

func (r *recorder) Write(p []byte) (int, error) {
	r.at = append(r.at, fmt.Sprintf("%v:%d", time.Since(r.began).Truncate(time.Millisecond), bytes.Count(p, []byte("data: "))))
	return r.ResponseRecorder.Write(p)
}

func post(p http.Handler, body string) *recorder {
	r := &recorder{ResponseRecorder: httptest.NewRecorder(), began: time.Now()}
	p.ServeHTTP(r, httptest.NewRequest(http.MethodPost, "/api/agui/chat", strings.NewReader(body)))
	return r
}

// TestPauses: events come at their times, divided; in silence there are comments.
func TestPauses(t *testing.T) {
	t.Parallel()
	tape, err := cassette.Read(strings.NewReader(written(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		speed pace.Speed
		want  string
	}{
		{1, "[0s:1 10ms:1 2s:1 17s:0 32s:0 42s:2]"},
		{10, "[0s:1 1ms:1 200ms:1 4.2s:2]"},
		{pace.Max, "[0s:5]"},
	} {
		bubbletest.Test(t, func(t *testing.T) {
			r := post(cassette.NewPlayer(tape, c.speed), `{"threadId":"x","protocolVersion":"1.0"}`)
			if got := fmt.Sprint(r.at); got != c.want {
				t.Errorf("at %v: %s, want %s", c.speed, got, c.want)
			}
		})
	}
}

// TestPlayer: each thread gets the Runs in order, under their positions, in the form that the body asks for.
func TestPlayer(t *testing.T) {
	t.Parallel()
	tape, err := cassette.Read(strings.NewReader(written(t)))
	if err != nil {
		t.Fatal(err)
	}
	p := cassette.NewPlayer(tape, pace.Max)
	var want [2]string
	for i, e := range log {
		want[min(i/5, 1)] += fmt.Sprintf("id: %d\ndata: %s\n\n", 5+i, e.event)
	}
	for i, body := range []string{`{"threadId":"a","protocolVersion":"1.0"}`, `{"threadId":"a"}`, `{"threadId":"a","protocolVersion":"1.0"}`} {
		r := post(p, body)
		if r.Body.String() != want[i%2] || r.Code != http.StatusOK || r.Header().Get("Content-Type") != "text/event-stream" {
			t.Errorf("%d: %d %s", i, r.Code, r.Body)
		}
	}
	if r := post(p, `{"threadId":"b","messages":[]}`); r.Body.String() != want[0] {
		t.Errorf("another thread: %s", r.Body)
	}
	if r := post(p, `{"prompt":"hi"}`); !strings.Contains(r.Body.String(), "id: 9\n") {
		t.Errorf("a page of TDesign: %s", r.Body)
	}
	// It had text in its bubble before, but a new Run has a new one: the error is one of the Run.
	if r := post(p, `{"prompt":"hi"}`); !strings.Contains(r.Body.String(), "RUN_ERROR") {
		t.Errorf("its second Run: %s", r.Body)
	}
	for _, body := range []string{`[`, `{"messages":42}`} {
		if r := post(p, body); r.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", body, r.Code, r.Body)
		}
	}
	get := httptest.NewRecorder()
	if p.ServeHTTP(get, httptest.NewRequest(http.MethodGet, "/", nil)); get.Code != http.StatusMethodNotAllowed || get.Header().Get("Allow") != http.MethodPost {
		t.Errorf("GET: %d", get.Code)
	}
}

// TestPlayerCuts: a client that leaves, and one whose connection fails, does not get a clean end.
func TestPlayerCuts(t *testing.T) {
	t.Parallel()
	tape, err := cassette.Read(strings.NewReader(written(t)))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(cassette.NewPlayer(tape, 1))
	defer srv.Close()
	resp, err := http.Post(srv.URL, "application/json", strings.NewReader(`{"protocolVersion":"1.0"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, 8)
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		t.Fatal(err)
	}
	srv.CloseClientConnections()
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("the stream that was cut ends well")
	}
}
