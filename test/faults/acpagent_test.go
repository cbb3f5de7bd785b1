package faults_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// bookVar makes this test program an ACP agent, and names the file where it writes what it
// was asked. Programs of ours take what begins with AQUEDUCT_ from the agents they start.
const bookVar = "FAULTS_ACP_BOOK"

// acpAgent speaks ACP on stdin and stdout and does what a prompt's words say.
type acpAgent struct {
	book    *os.File
	session string
	prompts int

	mu      sync.Mutex
	asked   int
	answers map[string]chan struct{}
}

type acpMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
}

func serveAgent(path string) int {
	book, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	a := &acpAgent{book: book, session: fmt.Sprint("s-", os.Getpid()), answers: make(map[string]chan struct{})}
	a.note("start %d", os.Getpid())
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		var m acpMessage
		if json.Unmarshal(line, &m) == nil {
			a.heard(m)
		}
	}
}

// note writes one line of the book, in one write: several agents share it.
func (a *acpAgent) note(format string, args ...any) { fmt.Fprintf(a.book, format+"\n", args...) }

func (a *acpAgent) heard(m acpMessage) {
	switch m.Method {
	case "initialize":
		a.reply(m, `{"protocolVersion":1,"agentCapabilities":{"loadSession":true},"agentInfo":{"name":"scripted","version":"1"}}`)
	case "session/new":
		a.note("new")
		a.reply(m, fmt.Sprintf(`{"sessionId":%q}`, a.session))
	case "session/load":
		a.note("load")
		var p struct{ SessionID string }
		_ = json.Unmarshal(m.Params, &p)
		a.session = p.SessionID
		a.send("m1", "1 2 3 ") // it repeats its output of its life before
		a.reply(m, `{}`)
	case "session/prompt":
		var p struct{ Prompt []struct{ Text string } }
		_ = json.Unmarshal(m.Params, &p)
		text := p.Prompt[len(p.Prompt)-1].Text
		a.note("prompt %s", text)
		a.prompts++
		go a.act(m, fmt.Sprint("m", a.prompts), text)
	case "": // an answer to a request of ours
		a.note("answer %s", m.Result)
		a.mu.Lock()
		done := a.answers[string(m.ID)]
		delete(a.answers, string(m.ID))
		a.mu.Unlock()
		if done != nil {
			close(done)
		}
	}
}

// act does a prompt: "count N pace", "die N pace", or "ask N pace M L", which sends M more
// while its question is open and L after it.
func (a *acpAgent) act(m acpMessage, message, text string) {
	var (
		name          string
		n, more, last int
		every         string
	)
	_, _ = fmt.Sscan(text, &name, &n, &every, &more, &last) // what is not there is 0
	pace, _ := time.ParseDuration(every)
	said := a.count(message, 0, n, pace)
	switch name {
	case "die":
		fmt.Fprintln(os.Stderr, "these are my last words")
		os.Exit(7)
	case "ask":
		answered := a.ask()
		said = a.count(message, said, more, pace)
		a.note("waits")
		<-answered
		a.count(message, said, last, pace)
	}
	a.reply(m, `{"stopReason":"end_turn"}`)
}

// count sends the next n numbers.
func (a *acpAgent) count(message string, said, n int, pace time.Duration) int {
	for range n {
		said++
		a.send(message, fmt.Sprint(said, " "))
		time.Sleep(pace)
	}
	return said
}

// send sends text. Its messages have the same ids in each of its lives.
func (a *acpAgent) send(message, text string) {
	a.write(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"agent_message_chunk",`+
		`"messageId":%q,"content":{"type":"text","text":%q}}}}`, a.session, message, text)
}

func (a *acpAgent) ask() <-chan struct{} {
	answered := make(chan struct{})
	a.mu.Lock()
	a.asked++
	id := a.asked
	a.answers[fmt.Sprint(id)] = answered
	a.mu.Unlock()
	a.write(`{"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":{"sessionId":%q,`+
		`"toolCall":{"toolCallId":"call-%d","title":"Go on?","kind":"execute"},"options":[`+
		`{"optionId":"yes","name":"Yes","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]}}`, id, a.session, id)
	return answered
}

func (a *acpAgent) reply(m acpMessage, result string) {
	a.write(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func (a *acpAgent) write(format string, args ...any) {
	line := fmt.Sprintf(format+"\n", args...)
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = os.Stdout.WriteString(line) // a proxy that is gone ends this process
}
