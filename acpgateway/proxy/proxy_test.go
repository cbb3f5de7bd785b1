package proxy

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aqueduct/acpgateway/wire"
)

func TestRegisterAgentTellsWhatItCan(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	p := g.start(func(c *Config) { c.Heartbeat = 200 * time.Millisecond })
	if hb := want[*wire.Heartbeat](g); hb.AgentID != "p1" {
		t.Errorf("%+v", hb)
	}
	g.cut()
	reg := g.accept()
	if o := reg.Agent.Offers(); reg.Agent.ID != "p1" || !o.Seq || !o.PermissionCancelled || o.Epoch != p.epoch {
		t.Errorf("%+v", reg)
	}
}

func TestAcpOpenWithRunIDAloneThenPrompt(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(nil)
	g.send(`{"type":"acp_open","run_id":"r"}`)
	if s := signal[*wire.InstanceStatus](g); s.Status != "creating" || s.InstanceName != "tuixiu-run-r" {
		t.Errorf("%+v", s)
	}
	signal[*wire.TransportConnected](g)
	if o := want[*wire.Opened](g); !o.OK || !strings.Contains(string(o.Agent), "loadSession") {
		t.Fatalf("%+v", o)
	}
	g.send(`{"type":"prompt_send","run_id":"r","prompt_id":"p","context":"be kind","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":"v=1","prompt":[{"type":"text","text":"show"}]}`)
	created := want[*wire.ACPUpdate](g)
	if !strings.Contains(string(created.Update), `"session_created"`) || *created.PromptID != "p" || *created.SessionID != "s-1" {
		t.Errorf("%s", created.Update)
	}
	if options := want[*wire.ACPUpdate](g); !strings.Contains(string(options.Update), "config_option_update") {
		t.Errorf("%s", options.Update)
	}
	if state := want[*wire.ACPUpdate](g); !strings.Contains(string(state.Update), `"currentModeId":"code"`) {
		t.Errorf("%s", state.Update)
	}
	text, _ := g.said()
	if !strings.Contains(text, "tuixiu://context") || !strings.Contains(text, "be kind") {
		t.Errorf("no context: %s", text)
	}
	if !strings.Contains(text, `"_meta":{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":"v=1"}`) {
		t.Errorf("no trace context: %s", text)
	}
	res := want[*wire.PromptResult](g)
	if !res.OK || *res.StopReason != "end_turn" || res.SessionID != "s-1" || !res.SessionCreated {
		t.Errorf("%+v", res)
	}
	g.send(`{"type":"prompt_send","run_id":"r","prompt_id":"q","session_id":"s-1","context":"be kind","prompt":[{"type":"text","text":"show"}]}`)
	if text, _ := g.said(); strings.Contains(text, "be kind") || strings.Contains(text, "_meta") {
		t.Errorf("context in an old session: %s", text)
	}
	if res := want[*wire.PromptResult](g); res.PromptID != "q" || res.SessionCreated {
		t.Errorf("%+v", res)
	}
	g.prompt("p", "hello") // a prompt known is answered, not done again
	if again := want[*wire.PromptResult](g); again.PromptID != "p" || !again.OK {
		t.Errorf("%+v", again)
	}
	g.send(`{"type":"acp_close","run_id":"r"}`)
	if exit := want[*wire.Exit](g); exit.RunID != "r" {
		t.Errorf("%+v", exit)
	}
	if closed := want[*wire.Closed](g); !closed.OK {
		t.Errorf("%+v", closed)
	}
}

// TestCommandOutputIsAskedFor: codex sends the output of its commands only to who declares to take
// it.
func TestCommandOutputIsAskedFor(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(nil)
	g.prompt("p", "initialized")
	if said, _ := g.said(); !strings.Contains(said, `"_meta":{"terminal_output_delta":true}`) {
		t.Error(said)
	}
}

func TestInitScriptAndInputsComeBeforeTheAgent(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	p := g.start(nil)
	g.send(`{"type":"acp_open","run_id":"r","init":{"script":"cat a/b; echo $TUIXIU_X >&2","env":{"TUIXIU_X":"y"},"agentInputs":{"version":1,"items":[
		{"id":"1","apply":"writeFile","source":{"type":"inlineText","text":"inside\n"},"target":{"root":"WORKSPACE","path":"a/b"}},
		{"id":"2","apply":"copy","source":{"type":"hostPath","path":"/workspace/a"},"target":{"root":"WORKSPACE","path":"c"}},
		{"id":"3","apply":"bindMount","source":{"type":"hostPath","path":"a"},"target":{"root":"WORKSPACE","path":"d"}}]}}}`)
	texts := map[string]bool{signal[*wire.Text](g).Text: true, signal[*wire.Text](g).Text: true}
	if !texts["[init] inside"] || !texts["[init] y"] {
		t.Errorf("%v", texts)
	}
	if r := signal[*wire.InitResult](g); !r.OK || *r.ExitCode != 0 {
		t.Errorf("%+v", r)
	}
	if s := signal[*wire.Text](g); s.Text != "[agent:stderr] fake agent is up" {
		t.Errorf("%+v", s)
	}
	for _, name := range []string{"c/b", "d/b"} {
		if data, err := os.ReadFile(filepath.Join(p.cfg.Workspaces, "r", name)); err != nil || string(data) != "inside\n" {
			t.Errorf("%s: %q %v", name, data, err)
		}
	}
}

func TestAFailedInitScriptFailsTheOpen(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(nil)
	g.send(`{"type":"acp_open","run_id":"r","init":{"script":"exit 7"}}`)
	if r := signal[*wire.InitResult](g); r.OK || *r.ExitCode != 7 {
		t.Errorf("%+v", r)
	}
	if s := signal[*wire.InstanceStatus](g); s.Status != "error" || s.LastError == nil {
		t.Errorf("%+v", s)
	}
	if o := want[*wire.Opened](g); o.OK || !strings.Contains(o.Error, "code 7") {
		t.Errorf("%+v", o)
	}
}

func TestNothingLeavesTheWorkspace(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	p := g.start(nil)
	if err := os.MkdirAll(filepath.Join(p.cfg.Workspaces, "link"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(p.cfg.Workspaces, "link", "out")); err != nil {
		t.Fatal(err)
	}
	const item = `"init":{"script":"","agentInputs":{"version":1,"items":[{"id":"x",`
	for _, open := range []string{
		`"run_id":"r","cwd":"../.."`,
		`"run_id":"r","cwd":"/etc"`,
		`"run_id":"link","cwd":"out"`,
		`"run_id":".."`,
		`"run_id":"a/b"`,
		`"run_id":"r",` + item + `"apply":"writeFile","source":{"type":"inlineText"},"target":{"root":"WORKSPACE","path":"../x"}}]}}`,
		`"run_id":"link",` + item + `"apply":"writeFile","source":{"type":"inlineText"},"target":{"root":"WORKSPACE","path":"out/tmp/x"}}]}}`,
		`"run_id":"r",` + item + `"apply":"bindMount","source":{"type":"hostPath","path":"/etc"},"target":{"root":"WORKSPACE","path":"e"}}]}}`,
		`"run_id":"r",` + item + `"apply":"writeFile","source":{"type":"inlineText"},"target":{"root":"USER_HOME","path":"x"}}]}}`,
	} {
		g.send(`{"type":"acp_open",` + open + `}`)
		if o := want[*wire.Opened](g); o.OK {
			t.Errorf("opened: %s", open)
		}
	}
}

func TestPermissionOpenWhileUpdatesFlow(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(nil)
	g.openRun()
	g.prompt("p", "ask 10000")
	if text, _ := g.said(); text != "before" {
		t.Errorf("%s came before the words before the question", text)
	}
	q := signal[*wire.PermissionRequest](g)
	if q.SessionID != "s-1" || *q.PromptID != "p" || len(q.Options) != 2 {
		t.Errorf("%+v", q)
	}
	for i := range 10000 {
		if text, _ := g.said(); text != strconv.Itoa(i) {
			t.Fatalf("update %d is %s", i, text)
		}
	}
	answer := func(outcome string) {
		g.send(`{"type":"session_permission","run_id":"r","session_id":"s-1","request_id":"` + string(q.RequestID) + `",` + outcome + `}`)
	}
	answer(`"outcome":"selected","option_id":"everything"`)
	if s := signal[*wire.Text](g); !strings.Contains(s.Text, "stays open") {
		t.Errorf("%+v", s)
	}
	answer(`"outcome":"selected","option_id":"yes"`)
	if text, _ := g.said(); text != `{"outcome":{"outcome":"selected","optionId":"yes"}}` {
		t.Error(text)
	}
	if res := want[*wire.PromptResult](g); !res.OK {
		t.Errorf("%+v", res)
	}
}

// TestARequestForInput: it is offered to agents where the gateway takes it, passed on, and answered
// once.
func TestARequestForInput(t *testing.T) {
	t.Parallel()
	g := newGateway(t, strings.Replace(newAck, `"seq":true`, `"seq":true,"elicitation":true`, 1))
	g.start(nil)
	g.openRun()
	g.prompt("p", "initialized")
	if said, _ := g.said(); !strings.Contains(said, `"elicitation":{"form":{},"url":{}}`) {
		t.Error(said)
	}
	for i, answer := range []struct{ sent, heard string }{
		{`"action":"accept","content":{"name":"x"}`, `{"action":"accept","content":{"name":"x"}}`}, {`"action":"decline"`, `{"action":"decline"}`},
	} {
		g.prompt("q"+strconv.Itoa(i), "elicit")
		q := signal[*wire.ElicitationRequest](g)
		if q.Message != "Which?" || q.Mode != "form" || q.SessionID != "s-1" || *q.PromptID != "q"+strconv.Itoa(i) || !strings.Contains(string(q.RequestedSchema), `"name"`) {
			t.Errorf("%+v", q)
		}
		for _, action := range []string{`"action":"dance"`, answer.sent} { // the first does not count
			g.send(`{"type":"session_elicitation","run_id":"r","session_id":"s-1","request_id":"` + string(q.RequestID) + `",` + action + `}`)
		}
		if said, _ := g.said(); said != answer.heard {
			t.Errorf("the agent hears %s", said)
		}
	}
	g.prompt("z", "elicit")
	signal[*wire.ElicitationRequest](g)
	g.send(`{"type":"session_cancel","run_id":"r","control_id":"c","session_id":"s-1"}`)
	if said, _ := g.said(); said != `{"action":"cancel"}` {
		t.Errorf("after a cancel the agent hears %s", said)
	}
}

// TestInputIsNotOfferedToOldGateways: no person could answer.
func TestInputIsNotOfferedToOldGateways(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(nil)
	g.prompt("p", "initialized")
	if said, _ := g.said(); strings.Contains(said, "elicitation") {
		t.Error(said)
	}
	g.prompt("q", "elicit")
	if said, _ := g.said(); !strings.Contains(said, "-32601") {
		t.Error(said)
	}
}

func TestAWithdrawnQuestionIsTold(t *testing.T) {
	t.Parallel()
	g := newGateway(t, newAck)
	g.start(nil)
	g.openRun()
	g.prompt("p", "withdraw")
	q := signal[*wire.PermissionRequest](g)
	if c := signal[*wire.PermissionCancelled](g); c.RequestID != q.RequestID {
		t.Errorf("%+v", c)
	}
	if text, _ := g.said(); !strings.Contains(text, "-32800") {
		t.Error(text)
	}
}

func TestSessionCancelEndsPromptAndQuestion(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(nil)
	g.openRun()
	g.prompt("p", "ask")
	signal[*wire.PermissionRequest](g)
	g.send(`{"type":"session_cancel","run_id":"r","control_id":"c","session_id":"s-1"}`)
	for seen := 0; seen < 2; { // the control's result and what the agent received have no order
		switch f := g.next().frame.(type) {
		case *wire.SessionControlResult:
			if seen++; !f.OK || f.ControlID != "c" {
				t.Errorf("%+v", f)
			}
		case *wire.ACPUpdate:
			if text, _ := chunk(f); strings.Contains(text, "cancelled") {
				seen++
			}
		}
	}
	want[*wire.PromptResult](g)
	g.prompt("q", "wait")
	g.said()
	g.send(`{"type":"session_cancel","run_id":"r","control_id":"d","session_id":"s-1"}`)
	if res := want[*wire.PromptResult](g); !res.OK || *res.StopReason != "cancelled" {
		t.Errorf("%+v", res)
	}
}

func TestSessionControls(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(nil)
	g.openRun()
	g.prompt("p", "hello")
	want[*wire.PromptResult](g)
	control := func(rest string) *wire.SessionControlResult {
		g.send(`{"run_id":"r","control_id":"c","session_id":"s-1",` + rest + `}`)
		return want[*wire.SessionControlResult](g)
	}
	if res := control(`"type":"session_set_mode","mode_id":"m"`); !res.OK {
		t.Errorf("%+v", res)
	}
	if res := control(`"type":"session_set_mode","mode_id":"invented"`); res.OK || !strings.Contains(res.Error, wire.NotOffered) {
		t.Errorf("%+v", res)
	}
	g.send(`{"run_id":"r","control_id":"c","session_id":"s-1","type":"session_set_model","model_id":"big"}`)
	if u := want[*wire.ACPUpdate](g); !strings.Contains(string(u.Update), `"currentValue":"big"`) || u.PromptID != nil {
		t.Errorf("%s", u.Update)
	}
	if res := want[*wire.SessionControlResult](g); !res.OK {
		t.Errorf("%+v", res)
	}
	if res := control(`"type":"session_set_config_option","config_id":"missing","value":true`); res.OK || !strings.Contains(res.Error, "-32601") {
		t.Errorf("%+v", res)
	}
	g.send(`{"type":"session_cancel","run_id":"nobody","control_id":"c","session_id":"s"}`)
	if res := want[*wire.SessionControlResult](g); res.OK {
		t.Errorf("%+v", res)
	}
}

func TestSessionLoadMarksTheReplay(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(nil)
	g.send(`{"type":"prompt_send","run_id":"r","prompt_id":"p","session_id":"s-0","prompt":[{"type":"text","text":"hello"}]}`)
	if text, u := g.said(); text != "old words" || !u.Replay {
		t.Errorf("%s %+v", text, u)
	}
	if text, u := g.said(); text != "hi" || u.Replay {
		t.Errorf("%s %+v", text, u)
	}
	if res := want[*wire.PromptResult](g); !res.OK || res.SessionID != "s-0" || res.SessionCreated {
		t.Errorf("%+v", res)
	}
	g.send(`{"type":"prompt_send","run_id":"r","prompt_id":"q","session_id":"lost","prompt":[{"type":"text","text":"hello"}]}`)
	if res := want[*wire.PromptResult](g); !res.OK || res.SessionRecreatedFrom == nil || *res.SessionRecreatedFrom != "lost" {
		t.Errorf("%+v", res)
	}
}

// TestHistoryAfterTheAnswerIsMarked: an agent that answers session/load first and repeats the
// conversation afterwards gets its prompt when that is over, and nothing of it is unmarked.
func TestHistoryAfterTheAnswerIsMarked(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(func(c *Config) { c.Env = append(c.Env, "FAKE_LATE_HISTORY=1") })
	g.send(`{"type":"prompt_send","run_id":"r","prompt_id":"p","session_id":"s-0","prompt":[{"type":"text","text":"hello"}]}`)
	for _, old := range []string{"old ", "words", "older"} {
		if text, u := g.said(); text != old || !u.Replay {
			t.Errorf("%q marked %v, want %q", text, u.Replay, old)
		}
	}
	if text, u := g.said(); text != "hi" || u.Replay {
		t.Errorf("%s %+v", text, u)
	}
	if res := want[*wire.PromptResult](g); !res.OK {
		t.Errorf("%+v", res)
	}
}

// TestResumeRepeatsNothing: where an agent offers session/resume it is used, and session/load
// when that fails.
func TestResumeRepeatsNothing(t *testing.T) {
	t.Parallel()
	for how, words := range map[string][]string{"1": {"hi"}, "broken": {"old words", "hi"}} {
		g := newGateway(t, oldAck)
		g.start(func(c *Config) { c.Env = append(c.Env, "FAKE_RESUME="+how) })
		g.send(`{"type":"prompt_send","run_id":"r","prompt_id":"p","session_id":"s-0","prompt":[{"type":"text","text":"hello"}]}`)
		for _, want := range words {
			if text, u := g.said(); text != want || u.Replay != (want != "hi") {
				t.Errorf("%s: %q marked %v, want %q", how, text, u.Replay, want)
			}
		}
		if res := want[*wire.PromptResult](g); !res.OK || res.SessionID != "s-0" || res.SessionCreated {
			t.Errorf("%+v", res)
		}
	}
}

func TestAuthenticateWhenTheAgentAsksForIt(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(func(c *Config) { c.Env = append(c.Env, "FAKE_LOGIN=1") })
	g.prompt("p", "hello")
	if res := want[*wire.PromptResult](g); !res.OK {
		t.Errorf("%+v", res)
	}
}

// TestALoginThatFailsSaysWhy: the chat gets the whole address that an agent prints, without what
// steers a terminal, and the cause begins with what the agent answered, not with the login the proxy tried.
func TestALoginThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(func(c *Config) { c.Env = append(c.Env, "FAKE_LOGIN=never") })
	g.prompt("p", "hello")
	var console []string
	for len(console) < 2 {
		if s := signal[*wire.Text](g); strings.HasPrefix(s.Text, wire.PrefixStdout) {
			console = append(console, strings.TrimPrefix(s.Text, wire.PrefixStdout))
		}
	}
	if console[0] != "Please visit the following URL:" || console[1] != fakeLoginURL() {
		t.Errorf("%q", console)
	}
	res := want[*wire.PromptResult](g)
	first, login := strings.Index(res.Error, "login first (-32000)"), strings.Index(res.Error, "authenticate (key): nobody came")
	if res.OK || first < 0 || login < first {
		t.Errorf("%+v", res)
	}
}

func TestUnsupportedContentIsRefused(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(nil)
	g.send(`{"type":"prompt_send","run_id":"r","prompt_id":"p","prompt":[{"type":"image","data":"","mimeType":"image/png"}]}`)
	if res := want[*wire.PromptResult](g); res.OK || !strings.Contains(res.Error, "image") {
		t.Errorf("%+v", res)
	}
}

func TestUnknownNotificationsAreToldAndUnknownMessagesIgnored(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(nil)
	g.send(`{"type":"weather"}`)
	g.send(`not json`)
	g.send(`{"type":"prompt_send","run_id":"r","prompt":"text"}`)
	g.prompt("p", "notify")
	if n := signal[*wire.AgentNotification](g); n.Method != "_weather" || string(n.Params) != `{"rain":1}` {
		t.Errorf("%+v", n)
	}
}

func TestAgentDeathIsToldInOrder(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(nil)
	g.openRun()
	g.prompt("p", "die")
	if text, _ := g.said(); text != "last words" {
		t.Error(text)
	}
	if d := signal[*wire.TransportDisconnected](g); *d.Code != 3 || d.Reason != "agent_exit" {
		t.Errorf("%+v", d)
	}
	if e := want[*wire.Exit](g); *e.Code != 3 || e.InstanceName != "tuixiu-run-r" {
		t.Errorf("%+v", e)
	}
	if s := signal[*wire.Text](g); s.Text != "[proxy:error] agent closed" {
		t.Errorf("%+v", s)
	}
	if res := want[*wire.PromptResult](g); res.OK || res.Error != "Error: agent closed" {
		t.Errorf("%+v", res)
	}
	g.prompt("q", "hello") // a new process takes it
	if res := want[*wire.PromptResult](g); !res.OK {
		t.Errorf("%+v", res)
	}
}

func TestTheWholeProcessGroupIsKilled(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(nil)
	g.openRun()
	g.prompt("p", "child")
	text, _ := g.said()
	pid, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	g.send(`{"type":"acp_close","run_id":"r"}`)
	want[*wire.Closed](g)
	// A killed orphan stays in the table until init has reaped it: dead is what counts.
	deadline := time.Now().Add(patience)
	for alive(pid) {
		if time.Now().After(deadline) {
			t.Fatal("the agent's child lives")
		}
		syscall.Sync()
	}
}

func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestNothingIsLostOrDoubledAcrossACutLink(t *testing.T) {
	t.Parallel()
	g := newGateway(t, newAck)
	g.start(nil)
	g.openRun()
	const n = 5000
	g.prompt("p", "flood "+strconv.Itoa(n))
	var (
		seen  int64
		texts []string
		over  bool
	)
	// The gateway's part: what has a number it has seen is dropped.
	take := func(r received) {
		if r.head.RunID != "r" || r.head.Seq == 0 || r.head.Seq <= seen {
			return
		}
		if seen != 0 && r.head.Seq != seen+1 {
			t.Fatalf("%d follows %d", r.head.Seq, seen)
		}
		seen = r.head.Seq
		switch f := r.frame.(type) {
		case *wire.ACPUpdate:
			if text, ok := chunk(f); ok {
				texts = append(texts, text)
			}
		case *wire.PromptResult:
			over = true
		}
	}
	for range 3 {
		for range 200 {
			take(g.next())
		}
		g.send(`{"type":"ack","run_id":"r","seq":` + strconv.FormatInt(seen-50, 10) + `}`)
		g.cut()
		g.accept()
	}
	for !over {
		take(g.next())
	}
	if len(texts) != n {
		t.Fatalf("%d of %d updates", len(texts), n)
	}
	for i, text := range texts {
		if text != strconv.Itoa(i) {
			t.Fatalf("update %d is %s", i, text)
		}
	}
}

func TestFilesAndTerminalsAreOffUnlessSaid(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(nil)
	g.prompt("p", "read f")
	if text, _ := g.said(); !strings.Contains(text, "-32601") {
		t.Error(text)
	}
	g.prompt("q", "run")
	if text, _ := g.said(); !strings.Contains(text, "-32601") {
		t.Error(text)
	}
}

func TestFilesAndTerminalsAreConfined(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(func(c *Config) { c.FS, c.Terminal = true, true })
	g.send(`{"type":"acp_open","run_id":"r","init":{"script":"echo text > f; ln -s /etc/passwd l"}}`)
	want[*wire.Opened](g)
	for i, c := range []struct{ prompt, part string }{
		{"read /workspace/f", `"content":"text\n"`}, {"read l", "error"}, {"read /etc/passwd", "-32602"},
		{"read nothing", "-32002"}, {"run", `"output":"done"`},
	} {
		g.prompt(strconv.Itoa(i), c.prompt)
		if text, _ := g.said(); !strings.Contains(text, c.part) && !(c.part == "error" && strings.Contains(text, "code")) {
			t.Errorf("%s: %s", c.prompt, text)
		}
	}
}

func TestSandboxControlActions(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	p := g.start(nil)
	control := func(rest string) *wire.SandboxControlResult {
		t.Helper()
		g.send(`{"type":"sandbox_control","request_id":"q",` + rest + `}`)
		res := want[*wire.SandboxControlResult](g)
		if *res.RequestID != "q" {
			t.Errorf("%+v", res)
		}
		return res
	}
	for _, c := range []struct {
		ask, status string
		ok          bool
	}{
		{`"action":"inspect","run_id":"r"`, "missing", true},
		{`"action":"ensure_running","run_id":"r"`, "running", true},
		{`"action":"inspect","instance_name":"tuixiu-run-r"`, "running", true},
		{`"action":"stop","run_id":"r"`, "stopped", true},
		{`"action":"inspect","run_id":"r"`, "stopped", true},
		{`"action":"remove_image","image":"i"`, "", false},
		{`"action":"prune_orphans"`, "", false},
		{`"action":"git_push","run_id":"r","branch":"--force"`, "", false},
		{`"action":"git_push","run_id":"r","branch":"main"`, "", false},
		{`"action":"prune_orphans","expected_instances":[{"instance_name":"tuixiu-run-r"}]`, "", true},
		{`"action":"inspect","run_id":"r"`, "stopped", true},
		{`"action":"gc","expected_instances":[],"dry_run":true,"gc":{"remove_orphans":true,"remove_workspaces":true}`, "", true},
		{`"action":"inspect","run_id":"r"`, "stopped", true},
		{`"action":"remove","run_id":"r"`, "missing", true},
		{`"action":"remove_workspace","run_id":"r"`, "missing", true},
		{`"action":"remove_workspace","run_id":".."`, "", false},
		{`"action":"dance","run_id":"r"`, "", false},
	} {
		if res := control(c.ask); res.OK != c.ok || res.Status != c.status {
			t.Errorf("%s: %+v", c.ask, res)
		}
	}
	if _, err := os.Stat(filepath.Join(p.cfg.Workspaces, "r")); !os.IsNotExist(err) {
		t.Errorf("the workspace is there: %v", err)
	}
	g.send(`{"type":"sandbox_control","action":"report_inventory"}`)
	want[*wire.SandboxInventory](g)
	want[*wire.WorkspaceInventory](g)
}

func TestMaxConcurrentIsKept(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(func(c *Config) { c.MaxConcurrent = 1 })
	g.openRun()
	g.send(`{"type":"acp_open","run_id":"other"}`)
	if o := want[*wire.Opened](g); o.OK {
		t.Errorf("%+v", o)
	}
}

func TestKeepaliveEndsAnIdleAgent(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	p := g.start(nil)
	g.openRun()
	p.runs.find("r").expire() // what the timer calls
	if d := signal[*wire.TransportDisconnected](g); d.Reason != "keepalive_expired" {
		t.Errorf("%+v", d)
	}
	want[*wire.Exit](g)
}

func TestAMissingCommandIsTold(t *testing.T) {
	t.Parallel()
	g := newGateway(t, oldAck)
	g.start(func(c *Config) { c.Command = []string{"no-such-agent-anywhere"} })
	g.send(`{"type":"acp_open","run_id":"r"}`)
	if o := want[*wire.Opened](g); o.OK || !strings.Contains(o.Error, "no-such-agent-anywhere") {
		t.Errorf("%+v", o)
	}
}
