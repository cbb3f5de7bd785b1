package main

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"aqueduct/agui/doctor"
)

// patient is an AG-UI server of the test, which is sound but for what spoils it.
type patient struct {
	head   func(http.Header)                            // before the answer begins
	events func(events []string) []string               // what is sent
	frame  func(event string) string                    // how
	send   func(w http.ResponseWriter, frames []string) // and when
	accept bool                                         // takes any input
	cors   bool                                         // lets in any page, with credentials
}

// ServeHTTP implements http.Handler.
func (p patient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodOptions {
		if p.cors {
			w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
			w.Header().Set("Access-Control-Allow-Credentials", "true")
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	var in struct {
		ThreadID, RunID string
		Messages        json.RawMessage
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || !p.accept && !strings.HasPrefix(string(in.Messages), "[") {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	events := []string{
		fmt.Sprintf(`{"type":"RUN_STARTED","threadId":%q,"runId":%q,"protocolVersion":"1.0"}`, in.ThreadID, in.RunID),
		`{"type":"STATE_SNAPSHOT","snapshot":{"n":1}}`,
		`{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/n","value":2}]}`,
		`{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Hello."}`,
		`{"type":"TEXT_MESSAGE_END","messageId":"m"}`,
		fmt.Sprintf(`{"type":"RUN_FINISHED","threadId":%q,"runId":%q}`, in.ThreadID, in.RunID),
	}
	if p.events != nil {
		events = p.events(events)
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	if p.head != nil {
		p.head(h)
	}
	var frames []string
	for _, event := range events {
		if p.frame != nil {
			frames = append(frames, p.frame(event))
		} else {
			frames = append(frames, "data: "+event+"\n\n")
		}
	}
	if p.send == nil {
		p.send = sendAll
	}
	p.send(w, frames)
}

// sendAll sends each frame for itself.
func sendAll(w http.ResponseWriter, frames []string) {
	for _, frame := range frames {
		_, _ = io.WriteString(w, frame)
		_ = http.NewResponseController(w).Flush()
	}
}

// without leaves an event out.
func without(i int) func([]string) []string {
	return func(events []string) []string { return slices.Delete(events, i, i+1) }
}

// examined runs the command and gives its report and exit code.
func examined(t *testing.T, args ...string) (report doctor.Report, code int) {
	t.Helper()
	out, err := program(t, env(), append([]string{"doctor", "--json"}, args...)...)
	if err != nil {
		code = exitCode(err)
	}
	if out != "" {
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return report, code
}

// TestDoctorFindsEachFault in a server that has it, under its code, and nothing else.
func TestDoctorFindsEachFault(t *testing.T) {
	t.Parallel()
	for code, p := range map[string]patient{
		"content_type":    {head: func(h http.Header) { h.Set("Content-Type", "text/plain") }},
		"accel_buffering": {head: func(h http.Header) { h.Del("X-Accel-Buffering") }},
		"compressed": {head: func(h http.Header) { h.Set("Content-Encoding", "gzip") }, send: func(w http.ResponseWriter, frames []string) {
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, strings.Join(frames, ""))
			_ = z.Close()
		}},
		"line_ends":     {frame: func(event string) string { return "data: " + event + "\r\n\r\n" }},
		"framing":       {frame: func(event string) string { return "seq 1\ndata: " + event + "\n\n" }},
		"data_not_json": {events: func(events []string) []string { return append(events, "[DONE]") }},
		"not_utf8": {events: func(events []string) []string {
			events[4] = strings.Replace(events[4], "Hello", "Hell\xf6", 1)
			return events
		}},
		"first_event":   {events: without(0)},
		"still_open":    {events: without(5)},
		"truncated":     {events: without(6)},
		"unknown_event": {events: func(events []string) []string { return slices.Insert(events, 1, `{"type":"PROGRESS","n":1}`) }},
		"patch_fails":   {events: without(1)},
		"request_ids": {events: func(events []string) []string {
			any := regexp.MustCompile(`"runId":"[^"]*"`)
			for _, i := range []int{0, 6} {
				events[i] = any.ReplaceAllString(events[i], `"runId":"mine"`)
			}
			return events
		}},
		"id_repeated": {frame: func(event string) string { return "id: 1\ndata: " + event + "\n\n" }},
		"connection_broken": {send: func(w http.ResponseWriter, frames []string) {
			sendAll(w, append(frames[:4], frames[4][:20]))
			panic(http.ErrAbortHandler)
		}},
		"not_closed": {send: func(w http.ResponseWriter, frames []string) {
			sendAll(w, frames)
			time.Sleep(5 * time.Second)
		}},
		"buffered": {send: func(w http.ResponseWriter, frames []string) {
			time.Sleep(1500 * time.Millisecond)
			sendAll(w, []string{strings.Join(frames, "")})
		}},
		"malformed_input":  {accept: true},
		"cors_credentials": {cors: true},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(p)
			defer srv.Close()
			report, exit := examined(t, srv.URL)
			if len(report.Findings) != 1 || report.Findings[0].Code != code || exit != exitFindings {
				t.Errorf("exit %d, found %+v", exit, report.Findings)
			}
		})
	}
}

// TestDoctorResumes: a server that gives positions, and to a client that comes back with one gives the last event alone.
func TestDoctorResumes(t *testing.T) {
	t.Parallel()
	whole, last := numbered(0), numbered(6)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Last-Event-ID") != "" {
			last.ServeHTTP(w, r)
			return
		}
		whole.ServeHTTP(w, r)
	}))
	defer srv.Close()
	report, exit := examined(t, srv.URL, "--resume")
	if len(report.Findings) != 1 || report.Findings[0].Code != "resume_incomplete" || exit != exitFindings {
		t.Errorf("exit %d, found %+v", exit, report.Findings)
	}
}

// numbered sends the events of a sound run from one on, under their positions.
func numbered(from int) patient {
	return patient{send: func(w http.ResponseWriter, frames []string) {
		for i, frame := range frames[from:] {
			sendAll(w, []string{fmt.Sprintf("id: %d\n%s", from+i+1, frame)})
		}
	}}
}

// TestDoctorFindsNothing in a server that is sound, slow or fast, nor in our own with the demo agent, in a cassette of
// it, and behind its CORS.
func TestDoctorFindsNothing(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(patient{send: func(w http.ResponseWriter, frames []string) {
		for _, frame := range frames {
			sendAll(w, []string{frame})
			time.Sleep(200 * time.Millisecond)
		}
	}})
	defer srv.Close()
	if report, exit := examined(t, srv.URL); exit != 0 || !slices.Contains(report.Sound, "buffered") {
		t.Errorf("exit %d: %+v", exit, report)
	}
	r := start(t, "--demo", "--database", "sqlite:"+filepath.Join(t.TempDir(), "a.db"), "--cors-origin", "https://app.example.com")
	seen := make(map[string]int)
	for _, word := range []string{"text", "think", "tool", "state", "activity", "step", "ask", "asks", "hold", "prefs", "client_tool", "all", "error"} {
		args := []string{r.URL + "/api/agui/chat", "--token-file", r.tokens, "--prompt", word, "--origin", "https://app.example.com", "--resume"}
		report, exit := examined(t, args...)
		if exit != 0 {
			t.Errorf("%s: exit %d: %+v", word, exit, report.Findings)
		}
		for _, code := range report.Sound {
			seen[code]++
		}
		if report, exit := examined(t, append(args, "--old")...); exit != 0 {
			t.Errorf("%s, 0.x: exit %d: %+v", word, exit, report.Findings)
		}
	}
	for _, code := range []string{"patch_fails", "activity_fails", "tool_unanswered", "step_owner", "id_reused", "cors_headers", "malformed_input"} {
		if seen[code] == 0 {
			t.Errorf("%s was never looked at", code)
		}
	}
	if _, exit := examined(t, r.URL+"/api/agui/chat", "--token-file", r.tokens, "--origin", "https://evil.example"); exit != exitFindings {
		t.Errorf("a page that may not call: exit %d", exit)
	}
	r.post("/api/agui/chat", hello)
	// Its ids are those of the run that was recorded, which is all that can be found.
	report, _ := examined(t, replaying(t, r.export("R"), "--speed", "max"))
	if len(report.Findings) != 1 || report.Findings[0].Code != "request_ids" {
		t.Errorf("a cassette: %+v", report.Findings)
	}
}

// TestDoctorCannotSay distinguishes what cannot be examined from what is wrong.
func TestDoctorCannotSay(t *testing.T) {
	t.Parallel()
	held := httptest.NewServer(patient{send: func(w http.ResponseWriter, frames []string) {
		sendAll(w, frames[:3])
		time.Sleep(2 * time.Second)
	}})
	defer held.Close()
	mute := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			time.Sleep(2 * time.Second)
		}
	}))
	defer mute.Close()
	r := start(t, "--demo", "--database", "sqlite:"+filepath.Join(t.TempDir(), "a.db"))
	for name, args := range map[string][]string{
		"nobody listens":        {"http://127.0.0.1:1/"},
		"no URL":                {"::"},
		"without the token":     {r.URL + "/api/agui/chat"},
		"not there":             {r.URL + "/nothing", "--token-file", r.tokens},
		"far and not encrypted": {"http://198.51.100.7/agui"},
		"a header that is none": {r.URL, "--header", "x"},
		"no such file":          {r.URL, "--token-file", "/nowhere"},
		"a flag that is none":   {r.URL, "--what"},
		"no end in time":        {held.URL, "--patience", "500ms"},
		"no answer in time":     {mute.URL, "--patience", "500ms"},
	} {
		if report, exit := examined(t, args...); exit != exitUnchecked || len(report.Findings) > 0 {
			t.Errorf("%s: exit %d, %+v", name, exit, report.Findings)
		}
	}
}

// TestDoctorReadable: what is printed for people names every finding, and what was not seen.
func TestDoctorReadable(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(patient{events: without(5), head: func(h http.Header) { h.Del("Cache-Control") }})
	defer srv.Close()
	out, err := program(t, env(), "doctor", srv.URL)
	var coded *exitError
	if !errors.As(err, &coded) || coded.code != exitFindings {
		t.Errorf("%v", err)
	}
	for _, part := range []string{"2 findings", "error    still_open\n         seen:   event 6: RUN_FINISHED of \"m\"", "warning  cache_control", "why:", "source: AG-UI 1.0, ", "1 RUN_FINISHED", "rules kept", "tool call: tool_arguments", "note: "} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is not in\n%s", part, out)
		}
	}
}

// TestDoctorDocumented: docs/doctor.md has every code, with its level, and none that there is not.
func TestDoctorDocumented(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, have []string
	for _, r := range doctor.Rules() {
		want = append(want, fmt.Sprintf("`%s` %s", r.Code, r.Level))
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_0-9]+)` \\| (error|warning) \\|").FindAllStringSubmatch(string(raw), -1) {
		have = append(have, fmt.Sprintf("`%s` %s", m[1], m[2]))
	}
	if !slices.Equal(have, want) {
		t.Errorf("the page has\n%s\nand there is\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}
