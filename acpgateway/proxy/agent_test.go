package proxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"aqueduct/internal/child"
)

// fakeVar makes this test program the scripted agent.
const fakeVar = "FAKE_ACP_AGENT"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == FilesArgument {
		os.Exit(ServeFiles())
	}
	if len(os.Args) > 1 && os.Args[1] == "confine" { // as the program's own helper
		confined, command, err := child.ReadArgs(os.Args[2:])
		if err == nil {
			err = confined.Confine(command)
		}
		panic(err)
	}
	if url := os.Getenv(urlVar); url != "" {
		if err := serveProxy(url, os.Getenv("WORKSPACES")); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	if os.Getenv(fakeVar) != "" {
		(&fakeAgent{out: bufio.NewWriter(os.Stdout), answers: map[string]chan json.RawMessage{}}).serve()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// fakeLoginURL is as long as real ones are.
func fakeLoginURL() string {
	return "https://login.example/auth?state=" + strings.Repeat("x", 700) + "&end=1"
}

// fakeAgent does what the first word of a prompt names.
type fakeAgent struct {
	mu      sync.Mutex
	out     *bufio.Writer
	asked   int
	answers map[string]chan json.RawMessage
	cancel  chan struct{}
	login   bool

	initialize json.RawMessage // what the proxy sent
	session    string
}

type fakeMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func (f *fakeAgent) serve() {
	fmt.Fprintln(os.Stderr, "fake agent is up")
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m fakeMessage
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		switch {
		case m.Method == "session/prompt":
			f.mu.Lock()
			f.cancel = make(chan struct{})
			f.mu.Unlock()
			go f.prompt(m)
		case m.Method != "":
			f.answer(m)
		default:
			f.mu.Lock()
			ch := f.answers[string(m.ID)]
			f.mu.Unlock()
			if ch != nil {
				ch <- append(m.Result, m.Error...)
			}
		}
	}
}

func (f *fakeAgent) answer(m fakeMessage) {
	switch m.Method {
	case "initialize":
		f.initialize = m.Params
		resume := "null"
		if os.Getenv("FAKE_RESUME") != "" {
			resume = "{}"
		}
		f.reply(m, `{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"promptCapabilities":{"embeddedContext":true},"sessionCapabilities":{"resume":`+resume+
			`}},"authMethods":[{"id":"key","name":"Key"}]}`)
	case "authenticate":
		if os.Getenv("FAKE_LOGIN") == "never" {
			f.write("\x1b[?1049h\x1b[2JPlease visit the following URL:\n\n%s\n", fakeLoginURL())
			f.refuse(m, -32603, "nobody came")
			return
		}
		f.login = true
		f.reply(m, `{}`)
	case "session/new":
		if os.Getenv("FAKE_LOGIN") != "" && !f.login {
			f.refuse(m, -32000, "login first")
			return
		}
		f.session = "s-1"
		f.reply(m, `{"sessionId":"s-1","modes":{"currentModeId":"code","availableModes":[{"id":"code"},{"id":"m"}]},"configOptions":[{"id":"llm","category":"model"}]}`)
	case "session/load":
		if strings.Contains(string(m.Params), "lost") {
			f.refuse(m, -32002, "session not found")
			return
		}
		f.session = "s-0"
		if os.Getenv("FAKE_LATE_HISTORY") != "" {
			f.lateHistory(m)
			return
		}
		f.send("old words")
		f.reply(m, `{}`)
	case "session/resume":
		if os.Getenv("FAKE_RESUME") == "broken" {
			f.refuse(m, -32601, "method not found")
			return
		}
		f.session = "s-0"
		f.reply(m, `{}`)
	case "session/set_mode":
		f.reply(m, `{}`)
	case "session/set_config_option":
		if strings.Contains(string(m.Params), "missing") {
			f.refuse(m, -32601, "method not found")
			return
		}
		f.reply(m, `{"configOptions":[{"id":"llm","category":"model","currentValue":"big"}]}`)
	case "session/cancel":
		f.mu.Lock()
		close(f.cancel)
		f.mu.Unlock()
	default:
		if len(m.ID) > 0 {
			f.refuse(m, -32601, "method not found")
		}
	}
}

// lateHistory is what gemini does: the first update comes before the answer, the others after
// it, and the agent's part follows each of the user's.
func (f *fakeAgent) lateHistory(m fakeMessage) {
	user := func(text string) {
		f.write(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-0","update":{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":%q}}}}`, text)
	}
	user("one")
	f.reply(m, `{}`)
	go func() {
		for _, words := range []string{"old ", "words", "two", "older"} {
			<-time.After(historyPause / 3)
			if words == "two" {
				user(words)
				<-time.After(historyReply / 2)
				continue
			}
			f.send(words)
		}
	}()
}

func (f *fakeAgent) prompt(m fakeMessage) {
	var p struct{ Prompt []struct{ Text string } }
	_ = json.Unmarshal(m.Params, &p)
	words := strings.Fields(p.Prompt[len(p.Prompt)-1].Text)
	stop := "end_turn"
	switch words[0] {
	case "hello":
		f.send("hi")
	case "show":
		f.send(string(m.Params))
	case "initialized":
		f.send(string(f.initialize))
	case "pwd":
		dir, _ := os.Getwd()
		f.send(dir)
	case "env":
		f.send(os.ExpandEnv(words[1]))
	case "flood":
		f.flood(words[1])
	case "ask":
		f.send("before")
		wait := f.ask()
		if len(words) > 1 {
			f.flood(words[1])
		}
		f.send(string(<-wait))
	case "elicit":
		wait := f.request("elicitation/create", fmt.Sprintf(`{"sessionId":%q,"mode":"form","message":"Which?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`, f.session))
		f.send(string(<-wait))
	case "withdraw":
		wait := f.ask()
		f.write(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%d}}`, f.asked)
		f.send(string(<-wait))
	case "read":
		f.send(string(<-f.request("fs/read_text_file", fmt.Sprintf(`{"sessionId":"s-1","path":%q}`, words[1]))))
	case "run":
		created := <-f.request("terminal/create", `{"sessionId":"s-1","command":"sh","args":["-c","printf done"]}`)
		<-f.request("terminal/wait_for_exit", string(created))
		f.send(string(<-f.request("terminal/output", string(created))))
	case "notify":
		f.write(`{"jsonrpc":"2.0","method":"_weather","params":{"rain":1}}`)
	case "child":
		cmd := exec.Command("sleep", "1000")
		_ = cmd.Start()
		f.send(strconv.Itoa(cmd.Process.Pid))
	case "daemon":
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = cmd.Start()
		f.send(fmt.Sprint(os.Getpid(), " ", cmd.Process.Pid))
	case "wait":
		f.send("waiting")
		<-f.cancel
		stop = "cancelled"
	case "die":
		f.send("last words")
		os.Exit(3)
	}
	f.reply(m, fmt.Sprintf(`{"stopReason":%q}`, stop))
}

func (f *fakeAgent) flood(n string) {
	count, _ := strconv.Atoi(n)
	for i := range count {
		f.send(strconv.Itoa(i))
	}
}

func (f *fakeAgent) ask() <-chan json.RawMessage {
	return f.request("session/request_permission", fmt.Sprintf(
		`{"sessionId":%q,"toolCall":{"toolCallId":"t"},"options":[{"optionId":"yes","name":"Yes","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]}`, f.session))
}

func (f *fakeAgent) request(method, params string) <-chan json.RawMessage {
	f.mu.Lock()
	f.asked++
	id, ch := f.asked, make(chan json.RawMessage, 1)
	f.answers[strconv.Itoa(id)] = ch
	f.mu.Unlock()
	f.write(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
	return ch
}

func (f *fakeAgent) send(text string) {
	quoted, _ := json.Marshal(text)
	f.write(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%s}}}}`, f.session, quoted)
}

func (f *fakeAgent) reply(m fakeMessage, result string) {
	f.write(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func (f *fakeAgent) refuse(m fakeMessage, code int, text string) {
	f.write(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, m.ID, code, text)
}

func (f *fakeAgent) write(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(f.out, format+"\n", args...)
	_ = f.out.Flush()
}
