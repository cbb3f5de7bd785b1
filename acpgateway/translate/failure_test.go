package translate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"aqueduct/acpgateway/translate"
)

// TestCauseChain: proxy error, stderr's tail, exit code or signal, the sandbox's last
// error; and the error of a missing command names the remedy.
func TestCauseChain(t *testing.T) {
	t.Parallel()
	code := func(n int) *int { return &n }
	text := func(s string) string { b, _ := json.Marshal(s); return `{"type":"text","text":` + string(b) + `}` }
	for name, c := range map[string]struct {
		said  []string
		cause translate.Cause
		code  string
		holds []string
	}{
		"an error of the agent": {nil, translate.Cause{Error: "Error: model overloaded"}, "agent_error", []string{"model overloaded"}},
		"our own cause": {[]string{text("[agent:stderr] trouble")}, translate.Cause{Code: "agent_timeout", Message: "Too slow."}, "agent_timeout",
			[]string{"Too slow.", "stderr: trouble"}},
		"killed": {
			[]string{text("[agent:stderr] one\n"), text("[agent:stderr] two"), text("[proxy:error] agent closed"),
				`{"type":"sandbox_instance_status","status":"error","last_error":"out of memory"}`,
				`{"type":"transport_disconnected","code":null,"signal":"SIGKILL"}`},
			translate.Cause{Error: "Error: agent closed"}, "agent_exited",
			[]string{"error: Error: agent closed", "exit: signal SIGKILL", "sandbox: out of memory", "stderr: one\ntwo"}},
		"init failed": {[]string{`{"type":"init_step","stage":"clone","status":"failed","message":"no route"}`, `{"type":"init_result","ok":false,"exitCode":2,"error":"exit 2"}`},
			translate.Cause{Error: "init failed"}, "agent_init_failed", []string{"init: clone: no route: exit 2"}},
		"init failed, in its script's own words": {[]string{text("[init] cloning"), text("[init:stderr] npm ERR! boom"), `{"type":"init_step","stage":"script","status":"failed","message":"ended with code 4"}`,
			`{"type":"init_result","ok":false,"exitCode":4,"error":"ended with code 4"}`}, translate.Cause{Error: "init failed"}, "agent_init_failed",
			[]string{"init: script: ended with code 4\nscript: cloning\nnpm ERR! boom"}},
		"not found by bwrap": {[]string{text("[agent:stderr] bwrap: execvp npx: No such file or directory"), `{"type":"transport_disconnected","code":1}`},
			translate.Cause{}, "agent_command_not_found", []string{`"npx"`, "agent_command", "Install it"}},
		"not found by node": {nil, translate.Cause{Error: "Error: spawn codex-acp ENOENT"}, "agent_command_not_found", []string{`"codex-acp"`}},
		"not found by Go":   {nil, translate.Cause{Error: `exec: "gemini": executable file not found in $PATH`}, "agent_command_not_found", []string{`"gemini"`}},
		"not found by a shell": {[]string{text("[agent:stderr] sh: 1: opencode: not found")}, translate.Cause{ExitCode: code(127)},
			"agent_command_not_found", []string{`"opencode"`, "exit: code 127"}},
		"where to log in, in full": {[]string{text("[agent:stdout] Please visit:"), text("[agent:stdout] https://login.example/?a=" + strings.Repeat("x", 800) + "&end=1"), text("[agent:stderr] " + strings.Repeat("later ", 400))},
			translate.Cause{Error: "Error: the agent did not log in in time"}, "agent_error", []string{"https://login.example/?a=" + strings.Repeat("x", 800) + "&end=1"}},
		"a tool's command, not the agent's": {[]string{text("[agent:stderr] sh: foo: not found")}, translate.Cause{Error: "session: not found"}, "agent_error", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := translate.New(translate.Config{})
			for _, s := range c.said {
				tr.ProxyUpdate(nil, json.RawMessage(s))
			}
			outs := tr.Failed(nil, c.cause)
			f := outs[len(outs)-1].End.Failure
			if f.Code != c.code {
				t.Errorf("%s: %s", f.Code, f.Message)
			}
			for _, want := range c.holds {
				if !strings.Contains(f.Message, want) {
					t.Errorf("%q is missing in %q", want, f.Message)
				}
			}
		})
	}
}

// TestAFailureIsNoCauseOfTheNext: what led to one is forgotten with it.
func TestAFailureIsNoCauseOfTheNext(t *testing.T) {
	t.Parallel()
	tr := translate.New(translate.Config{})
	tr.ProxyUpdate(nil, json.RawMessage(`{"type":"text","text":"[proxy:error] first"}`))
	tr.Failed(nil, translate.Cause{})
	outs := tr.Failed(nil, translate.Cause{})
	if m := outs[len(outs)-1].End.Failure.Message; strings.Contains(m, "first") {
		t.Error(m)
	}
}

// TestCauseOfThisDeath checks the cause of a failure after an agent has opened. It has nothing of an earlier process's output
// or exit. It does have the output that the process itself wrote since it was connected.
func TestCauseOfThisDeath(t *testing.T) {
	t.Parallel()
	code := 3
	const (
		connected    = `{"type":"transport_connected"}`
		disconnected = `{"type":"transport_disconnected","code":1,"signal":"SIGSEGV"}`
		first        = `{"type":"text","text":"[agent:stderr] first process: https://login.example/first"}`
		proxy        = `{"type":"text","text":"[proxy:error] first proxy error"}`
		second       = `{"type":"text","text":"[agent:stderr] second process"}`
		init         = `{"type":"init_result","ok":false,"exitCode":2,"error":"first init"}`
	)
	for name, before := range map[string][]string{
		"the first ended":                        {connected, first, proxy, disconnected},
		"the first ended, and was not connected": {first, proxy, disconnected},
		"the first is replaced, unreported":      {connected, first, proxy},
		"the first could not be prepared":        {init, first, proxy},
		"the second wrote before it opened":      {connected, first, proxy, disconnected, connected, second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := translate.New(translate.Config{})
			for _, s := range before {
				tr.ProxyUpdate(nil, json.RawMessage(s))
			}
			if before[len(before)-1] != second {
				if name != "the first could not be prepared" {
					tr.ProxyUpdate(nil, json.RawMessage(connected))
				}
				tr.Opened()
				tr.ProxyUpdate(nil, json.RawMessage(second))
			} else {
				tr.Opened()
			}
			tr.ProxyUpdate(nil, json.RawMessage(`{"type":"transport_disconnected","code":3}`))
			outs := tr.Failed(nil, translate.Cause{ExitCode: &code})
			f := outs[len(outs)-1].End.Failure
			if f.Code != translate.CodeAgentExited || strings.Contains(f.Message, "first") || strings.Contains(f.Message, "SIGSEGV") {
				t.Errorf("%s: %s", f.Code, f.Message)
			}
			for _, want := range []string{"stderr: second process", "exit: code 3"} {
				if !strings.Contains(f.Message, want) {
					t.Errorf("%q is missing in %q", want, f.Message)
				}
			}
		})
	}
}
