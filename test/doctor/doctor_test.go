// Package doctor_test has aqueduct doctor examine AG-UI servers that others wrote, each with a scripted model: what it finds
// there is true of them, and stands in docs/doctor.md.
package doctor_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ag-ui-protocol/ag-ui/sdks/community/go/pkg/core/events"
	"github.com/ag-ui-protocol/ag-ui/sdks/community/go/pkg/core/types"
	"github.com/ag-ui-protocol/ag-ui/sdks/community/go/pkg/encoding/sse"

	"aqueduct/test/nodetest"
	"aqueduct/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// patience bounds the wait for what is started.
const patience = 30 * time.Second

// report is what doctor prints.
type report struct {
	Findings []struct {
		Code  string
		Count int
		Seen  string
	}
	Sound  []string
	Notes  []string
	Events map[string]int
}

// codes are what was found, in the order of the alphabet.
func (r report) codes() []string {
	codes := []string{}
	for _, f := range r.Findings {
		codes = append(codes, f.Code)
	}
	slices.Sort(codes)
	return codes
}

// doctor examines an endpoint.
func doctor(t *testing.T, args ...string) (r report) {
	t.Helper()
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), path, append([]string{"doctor", "--json", "--patience", "30s"}, args...)...).Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("%v: %v\n%s%s", args, err, out, stderr(exit))
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return r
}

// stderr is what a command wrote beside its output.
func stderr(exit *exec.ExitError) []byte {
	if exit == nil {
		return nil
	}
	return exit.Stderr
}

// found compares what was found with what is known of a server, and prints it.
func found(t *testing.T, r report, want ...string) {
	t.Helper()
	for _, f := range r.Findings {
		t.Logf("%s (%d): %s", f.Code, f.Count, f.Seen)
	}
	t.Logf("events %v; notes %q", r.Events, r.Notes)
	slices.Sort(want)
	if !slices.Equal(r.codes(), want) {
		t.Errorf("found %v, and known is %v", r.codes(), want)
	}
	for code, event := range map[string]string{"still_open": "RUN_FINISHED", "truncated": "RUN_FINISHED"} {
		if r.Events[event] == 0 || !slices.Contains(r.Sound, code) && !slices.Contains(want, code) {
			t.Errorf("%s was not looked at", code)
		}
	}
}

// node starts a server of this folder or another that prints its port.
func node(t *testing.T, file string, env ...string) (url string) {
	t.Helper()
	cmd := exec.Command("node", file)
	cmd.Env = append(append(os.Environ(), "COPILOTKIT_TELEMETRY_DISABLED=true", "DO_NOT_TRACK=1"), env...)
	return "http://127.0.0.1:" + started(t, cmd, `^listening on (\d+)$`)
}

// started starts a command that prints where it listens, and gives the port, which the pattern finds.
func started(t *testing.T, cmd *exec.Cmd, pattern string) (port string) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if _, err := cmd.StdinPipe(); err != nil { // stays open for as long as the test runs
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ports, read := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		line := regexp.MustCompile(pattern)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			if m := line.FindStringSubmatch(sc.Text()); m != nil {
				ports <- m[1]
				break
			}
			t.Log(sc.Text())
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	select {
	case port = <-ports:
	case <-read:
		t.Fatalf("%s ended before it listened", cmd)
	case <-time.After(patience):
		t.Fatalf("%s does not listen", cmd)
	}
	return port
}

// model is a scripted model of OpenAI's API. A prompt that begins with "weather" has it call that tool, once.
func model(t *testing.T) (url string) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Messages []struct {
				Role    string
				Content json.RawMessage
			}
		}
		_ = json.NewDecoder(r.Body).Decode(&body)
		last := body.Messages[len(body.Messages)-1]
		w.Header().Set("Content-Type", "text/event-stream")
		send := func(delta, finish string) {
			fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"scripted","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, finish)
		}
		if last.Role == "user" && strings.Contains(string(last.Content), "weather") {
			send(`{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":""}}]}`, "null")
			send(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}}]}`, "null")
			send(`{"tool_calls":[{"index":0,"function":{"arguments":"\"Oslo\"}"}}]}`, "null")
			send(`{}`, `"tool_calls"`)
		} else {
			send(`{"role":"assistant","content":""}`, "null")
			for _, word := range []string{"It ", "is ", "seven ", "degrees."} {
				send(fmt.Sprintf(`{"content":%q}`, word), "null")
			}
			send(`{}`, `"stop"`)
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/v1"
}

// TestTanStack: the server of TanStack AI.
func TestTanStack(t *testing.T) {
	t.Parallel()
	nodetest.Need(t, "../aguiagents/node_modules/.installed", "make setup-aguiagents")
	url := node(t, "../aguiagents/tanstack.mjs", "MODEL_URL="+model(t))
	found(t, doctor(t, url, "--prompt", "hello"), "accel_buffering", "request_ids")
	// With a tool it ends the run in front of the tool's result, and goes on.
	found(t, doctor(t, url, "--prompt", "weather in Oslo"), "accel_buffering", "request_ids", "run_finished", "tool_unanswered")
}

// TestCopilotKit: CopilotKit's runtime with its built-in agent.
func TestCopilotKit(t *testing.T) {
	t.Parallel()
	nodetest.Need(t, "../../examples/copilotkit/node_modules/.installed", "make setup-copilotkit")
	url := node(t, "copilotkit.mjs", "MODEL_URL="+model(t)) + "/api/agent/default/run"
	found(t, doctor(t, url, "--prompt", "hello"), "accel_buffering", "unknown_member")
	found(t, doctor(t, url, "--prompt", "weather in Oslo"), "accel_buffering", "unknown_member")
}

// TestAqueduct: nothing is found in Aqueduct, be its agent one in which a lot is, or one that thinks for so long that the
// stream would be cut without heartbeats.
func TestAqueduct(t *testing.T) {
	t.Parallel()
	nodetest.Need(t, "../aguiagents/node_modules/.installed", "make setup-aguiagents")
	mute := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.URL.Path != "/invoke" {
			return
		}
		fmt.Fprint(w, "event: delta\ndata: {\"text\":\"Let me think. \"}\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(32 * time.Second): // longer than a silence that counts
		case <-r.Context().Done():
		}
		fmt.Fprint(w, "event: delta\ndata: {\"text\":\"Done.\"}\n\nevent: done\ndata: {}\n\n")
	}))
	t.Cleanup(mute.Close)
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	serve := exec.Command(path, "serve", "--listen", "127.0.0.1:0", "--auth", "none", "--database", "sqlite:"+filepath.Join(t.TempDir(), "a.db"),
		"--agent", "tanstack="+node(t, "../aguiagents/tanstack.mjs", "MODEL_URL="+model(t))+"/,protocol=agui", "--agent", "mute="+mute.URL)
	url := "http://127.0.0.1:" + started(t, serve, `listening on .*?127\.0\.0\.1:(\d+)`) + "/api/agui/chat?agent="
	found(t, doctor(t, url+"tanstack", "--prompt", "hello"))
	found(t, doctor(t, url+"tanstack", "--prompt", "weather in Oslo"))
	r := doctor(t, url+"mute", "--patience", "60s")
	found(t, r)
	if !slices.Contains(r.Sound, "no_heartbeat") || !slices.Contains(r.Sound, "buffered") {
		t.Errorf("the silence was not looked at: %v", r.Sound)
	}
}

// TestCommunityGo: a server that reads its input and writes its events with the community SDK for Go. Its ids are made of
// type and millisecond.
func TestCommunityGo(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in types.RunAgentInput
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&in) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("X-Accel-Buffering", "no")
		said := []events.Event{events.NewRunStartedEvent(in.ThreadID, in.RunID), events.NewTextMessageStartEvent("m", events.WithRole("assistant"))}
		for range 100 {
			said = append(said, events.NewTextMessageContentEvent("m", "degrees "))
		}
		said = append(said, events.NewTextMessageEndEvent("m"), events.NewRunFinishedEvent(in.ThreadID, in.RunID))
		out := sse.NewSSEWriter()
		for _, event := range said {
			if err := out.WriteEvent(r.Context(), w, event); err != nil {
				return
			}
		}
	}))
	t.Cleanup(srv.Close)
	found(t, doctor(t, srv.URL), "id_repeated")
}
