package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

const (
	oneUserVar = "AQUEDUCT_ONE_USER" // how long each attack lasts in "make soak", as a duration, which has all of them
	// oneUserConns are the connections of the user who attacks, oneUserMemory is what the server's resident memory may grow by
	// in all. Another user's chat may take oneUserDelay longer than in a quiet moment of the same run, and oneUserTimes as long
	// where that is more: others may use the machine.
	oneUserConns  = 8
	oneUserMemory = 150 << 20
	oneUserDelay  = time.Second
	oneUserTimes  = 4
)

// wide is JSON that repeats an element up to most bytes.
func wide(head, element, tail string, most int) []byte {
	var b bytes.Buffer
	b.WriteString(head)
	for n := 0; b.Len()+len(element)+len(tail)+1 < most; n++ {
		if n > 0 {
			b.WriteByte(',')
		}
		b.WriteString(element)
	}
	b.WriteString(tail)
	return b.Bytes()
}

// oneUserAttack is one shape of requests. body is called for each request with its number, where it differs.
type oneUserAttack struct {
	name, method, path string
	body               func(n int64) []byte
	header             []string
	slow               bool // sends the body over the time of the attack
	short              bool // in "make test" too
}

func fixed(body []byte) func(int64) []byte { return func(int64) []byte { return body } }

// chatBody is a chat on a thread of its own with one more member.
func chatBody(member []byte) func(int64) []byte {
	return func(n int64) []byte {
		return append(fmt.Appendf(nil, `{"protocolVersion":"1.0","threadId":"mallory-%d","runId":"m-%d","messages":[{"id":"u%d","role":"user","content":"count 1"}],`, n, n, n), append(member, '}')...)
	}
}

func oneUserAttacks() []oneUserAttack {
	const body = 4<<20 - 512
	chat := func(name string, member []byte) oneUserAttack {
		return oneUserAttack{name: "chat: " + name, method: "POST", path: "/api/agui/chat", body: chatBody(member)}
	}
	numbered := func(element string) []byte {
		var b bytes.Buffer
		b.WriteString(`"messages2":0`)
		for n := 0; b.Len() < body; n++ {
			fmt.Fprintf(&b, element, n)
		}
		return b.Bytes()
	}
	object := func() []byte {
		var b bytes.Buffer
		b.WriteString(`"state":{"a":0`)
		for n := 0; b.Len() < body; n++ {
			fmt.Fprintf(&b, `,"%x":0`, n)
		}
		b.WriteByte('}')
		return b.Bytes()
	}
	messages := func() []byte {
		var b bytes.Buffer
		b.WriteString(`{"protocolVersion":"1.0","threadId":"mallory-history","messages":[`)
		for n := 0; b.Len() < body; n++ {
			fmt.Fprintf(&b, `{"id":"%x","role":"user","content":""},`, n)
		}
		b.WriteString(`{"id":"last","role":"user","content":"count 1"}]}`)
		return b.Bytes()
	}
	// These are in "make test": each of them took hundreds of MiB or seconds, or stands for a way of its own.
	short := []string{
		"chat: context", "chat: resume", "chat: messages", "chat: text", "chat: a result in a string", "decisions", "mcp", "attachments", "search", "joins",
		"small requests", "slow bodies",
	}
	deep := strings.Repeat("[", 60) + strings.Repeat("]", 60)
	all := []oneUserAttack{
		chat("context", wide(`"context":[`, `{}`, `]`, body)),
		chat("tools", wide(`"tools":[`, `{"name":"a"}`, `]`, body)),
		chat("tools without names", wide(`"tools":[`, `{}`, `]`, body)),
		chat("resume", wide(`"resume":[`, `{"interruptId":"a","status":"resolved"}`, `]`, body)),
		chat("state of arrays", wide(`"state":[`, `[]`, `]`, body)),
		chat("state of objects", wide(`"state":[`, `{}`, `]`, body)),
		chat("state of numbers", wide(`"state":[`, `0`, `]`, body)),
		chat("state of members", object()),
		chat("state, deep", wide(`"state":[`, deep, `]`, body)),
		chat("props of arrays", wide(`"forwardedProps":{"a":[`, `[]`, `]}`, body)),
		chat("command", wide(`"forwardedProps":{"command":{"resume":[`, `{}`, `]}}`, body)),
		chat("a string of escapes", wide(`"state":"`, `\n\n\n\n\n\n\n\n`, `"`, body)),
		chat("a string of controls", wide(`"context":[{"value":"`, `\u0001\u0001`, `"}]`, body)),
		chat("unknown members", numbered(`,"u%d":[]`)),
		{name: "chat: messages", method: "POST", path: "/api/agui/chat", body: fixed(messages())},
		{name: "chat: parts", method: "POST", path: "/api/agui/chat", body: fixed(wide(`{"messages":[{"id":"a","role":"user","content":[`, `{"type":"text","text":""}`, `]}]}`, body))},
		{name: "chat: calls of tools", method: "POST", path: "/api/agui/chat", body: fixed(wide(`{"messages":[{"id":"a","role":"assistant","toolCalls":[`, `{"id":"a","function":{"name":"f","arguments":""}}`, `]}]}`, body))},
		{name: "chat: attachments of TDesign", method: "POST", path: "/api/agui/chat", body: fixed(wide(`{"prompt":"a","attachments":[`, `{}`, `]}`, body))},
		{name: "chat: a result in a string", method: "POST", path: "/api/agui/chat", body: fixed(wide(`{"toolCallMessage":{"toolCallId":"a","result":"[`, `[]`, `]"}}`, body))},
		{name: "chat: text", method: "POST", path: "/api/agui/chat", body: func(n int64) []byte {
			return wide(fmt.Sprintf(`{"threadId":"mallory-text-%d","messages":[{"id":"u%d","role":"user","content":"count 1 `, n, n), "some words", `"}]}`, body)
		}},
		{name: "connect", method: "POST", path: "/api/agui/connect", body: chatBody(wide(`"context":[`, `{}`, `]`, body))},
		{name: "decisions", method: "POST", path: "/api/approvals/decisions", body: fixed(wide(`{"decisions":[`, `{}`, `]}`, body))},
		{name: "Decisions", method: "POST", path: "/api/approvals/decisions", body: fixed(wide(`{"Decisions":[`, `{}`, `]}`, body))},
		{name: "a decision's arguments", method: "POST", path: "/api/approvals/x/decision", body: fixed(wide(`{"approved":true,"args":[`, `[]`, `]}`, body))},
		{name: "a grant", method: "POST", path: "/api/grants", body: fixed(wide(`{"tool":"x","constraint":[`, `{}`, `]}`, body))},
		{name: "shares", method: "POST", path: "/api/threads/x/shares", body: fixed(wide(`{"user":"a","rights":[`, `""`, `]}`, body))},
		{name: "the queue", method: "POST", path: "/v1/runs", body: fixed(wide(`{"agent_id":"fake","message":{"content":"x"},"tools":[`, `{"name":"a"}`, `]}`, body))},
		{name: "the queue, text", method: "POST", path: "/v1/runs", body: func(n int64) []byte {
			return wide(fmt.Sprintf(`{"agent_id":"fake","session_id":"mallory-q-%d","input":{"content":"count 1 `, n), "some words", `"}}`, 1<<20-8<<10)
		}},
		{name: "mcp", method: "POST", path: "/mcp", body: fixed(wide(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":[`, `{}`, `]}}}`, 1<<20-512)), header: []string{"Accept", "application/json, text/event-stream"}},
		{name: "mcp, a batch", method: "POST", path: "/mcp", body: fixed(wide(`[`, `{}`, `]`, 1<<20-512)), header: []string{"Accept", "application/json, text/event-stream"}},
		{name: "context entries", method: "POST", path: "/v1/context", body: fixed(wide(`{"key":"k","content":[`, `[]`, `]}`, body))},
		{name: "context bytes", method: "PUT", path: "/v1/context/big", body: fixed(bytes.Repeat([]byte("x"), 16<<20-512)), header: []string{"Content-Type", "application/octet-stream"}},
		{name: "attachments", method: "POST", path: "/api/attachments?name=a.bin", body: func(n int64) []byte { return append(bytes.Repeat([]byte{byte(n)}, 16<<20-512), fmt.Sprint(n)...) }, header: []string{"Content-Type", "application/octet-stream"}},
		{name: "a patch", method: "PATCH", path: "/api/threads/mallory-1", body: fixed(wide(`{"metadata":{"a":[`, `[]`, `]}}`, body))},
		{name: "a patch of a title", method: "PATCH", path: "/api/threads/mallory-1", body: fixed([]byte(`{"title":"t"}`))},
		{name: "an import", method: "POST", path: "/v1/sessions/mallory-i/messages", body: fixed(wide(`{"role":"user","content":[`, `{"type":"text","text":""}`, `]}`, body))},
		{name: "search", method: "GET", path: "/api/threads?q=words+some+count"},
		{name: "threads", method: "GET", path: "/api/threads?limit=1000"},
		{name: "an export", method: "GET", path: "/api/threads/mallory-text-0/events?limit=1000"},
		{name: "messages", method: "GET", path: "/api/threads/mallory-text-0/messages"},
		{name: "a trace", method: "GET", path: "/v1/sessions/mallory-text-0/events"},
		{name: "joins", method: "POST", path: "/api/agui/connect", body: fixed([]byte(`{"threadId":"mallory-text-0","messages":[]}`))},
		{name: "small requests", method: "POST", path: "/api/agui/chat", body: chatBody([]byte(`"state":{}`))},
		{name: "small refusals", method: "POST", path: "/api/agui/chat", body: fixed([]byte(`{"messages":7}`))},
		{name: "slow bodies", method: "POST", path: "/api/agui/chat", body: chatBody(wide(`"context":[`, `{}`, `]`, body)), slow: true},
	}
	for i := range all {
		all[i].short = slices.Contains(short, all[i].name)
	}
	return all
}

// TestOneUserHoldsNobodyUp: a user without any role but that has 8 connections, and sends on each what is dear to read, one
// shape after the other. The server's memory stays bounded and another user's chat keeps its pace.
func TestOneUserHoldsNobodyUp(t *testing.T) {
	span, soak := 700*time.Millisecond, false
	if given := os.Getenv(oneUserVar); given != "" {
		var err error
		if span, err = time.ParseDuration(given); err != nil {
			t.Fatal(err)
		}
		soak = true
	}
	h := &serverEnv{t: t, database: "sqlite:" + storetest.SQLite(t), agent: newAgent(t)}
	h.start(program.Shipped)
	mallory, alice := h.userToken("mallory"), h.userToken("alice")
	var chats atomic.Int64
	talk := func(until time.Time) (longest time.Duration) {
		for time.Now().Before(until) {
			n := chats.Add(1)
			began := time.Now()
			in, err := h.stream("POST", "/api/agui/chat", prompt(fmt.Sprint("alice-", n), fmt.Sprint("alice-", n), "count 3"), "Authorization", "Bearer "+alice)
			if err != nil {
				t.Error(err)
				return longest
			}
			for {
				e, err := in.next()
				if err != nil {
					t.Error(err)
				}
				if err != nil || e.terminal() {
					break
				}
			}
			in.close()
			longest = max(longest, time.Since(began))
		}
		return longest
	}
	talk(time.Now().Add(span))
	calm := talk(time.Now().Add(span))
	before := h.peak()
	attacks := oneUserAttacks()
	for _, attack := range attacks { // what later ones read, and search
		if attack.name == "chat: text" {
			in, err := h.stream(attack.method, attack.path, attack.body(0), "Authorization", "Bearer "+mallory)
			if err != nil {
				t.Fatal(err)
			}
			for err == nil {
				_, err = in.next()
			}
			in.close()
		}
	}
	for _, attack := range attacks {
		if !soak && !attack.short {
			continue
		}
		var statuses []string
		for try := range 3 { // others may use the machine
			until := time.Now().Add(span)
			sent := h.attackAs(mallory, attack, until)
			beside := talk(until)
			statuses = sent()
			t.Logf("%-32s longest chat %6v (calm %v), memory %+d MiB; %v", attack.name, beside.Round(time.Millisecond), calm.Round(time.Millisecond), (h.peak()-before)>>20, statuses)
			if beside <= max(calm+oneUserDelay, calm*oneUserTimes) {
				break
			}
			if try == 2 {
				t.Errorf("%s: another user's chat takes %v, %v without", attack.name, beside, calm)
			}
			calm = max(calm, talk(time.Now().Add(span)))
		}
		if grown := h.peak() - before; grown > oneUserMemory {
			t.Errorf("%s: the server grew by %d MiB", attack.name, grown>>20)
		}
		if len(statuses) == 0 {
			t.Errorf("%s: no request was answered", attack.name)
		}
	}
}

// userToken is a token of a user with the role user alone.
func (s *server) userToken(user string) string {
	s.t.Helper()
	resp, err := s.do(context.Background(), "POST", "/api/tokens", fmt.Appendf(nil, `{"type":"user","user":%q,"roles":["user"]}`, user))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var made struct{ Token string }
	if raw, _ := io.ReadAll(resp.Body); json.Unmarshal(raw, &made) != nil || made.Token == "" {
		s.t.Fatalf("no token: %d %s", resp.StatusCode, raw)
	}
	return made.Token
}

// attackAs sends an attack's requests on each connection until then. sent waits for the end and lists the statuses.
func (s *server) attackAs(token string, a oneUserAttack, until time.Time) (sent func() []string) {
	var (
		all sync.WaitGroup
		n   atomic.Int64
		mu  sync.Mutex
		got = make(map[string]int)
	)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: oneUserConns, MaxIdleConnsPerHost: oneUserConns}, Timeout: time.Minute}
	for range oneUserConns {
		all.Go(func() {
			for time.Now().Before(until) {
				var body io.Reader
				var size int64
				if a.body != nil {
					raw := a.body(n.Add(1))
					body, size = bytes.NewReader(raw), int64(len(raw))
					if a.slow {
						body = &dripping{raw: raw, until: until}
					}
				}
				req, err := http.NewRequest(a.method, s.url+a.path, body)
				if err != nil {
					s.t.Error(err)
					return
				}
				req.ContentLength = size
				req.Header.Set("Authorization", "Bearer "+token)
				if a.body != nil {
					req.Header.Set("Content-Type", "application/json")
				}
				for i := 0; i < len(a.header); i += 2 {
					req.Header.Set(a.header[i], a.header[i+1])
				}
				word := "cut"
				if resp, err := client.Do(req); err == nil {
					word = fmt.Sprint(resp.StatusCode)
					raw, _ := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					var p struct{ Code string }
					if resp.StatusCode >= 400 && json.Unmarshal(raw, &p) == nil {
						word += " " + p.Code
					}
				}
				mu.Lock()
				got[word]++
				mu.Unlock()
			}
		})
	}
	return func() (statuses []string) {
		all.Wait()
		client.CloseIdleConnections()
		for word, n := range got {
			statuses = append(statuses, fmt.Sprintf("%d× %s", n, word))
		}
		slices.Sort(statuses)
		return statuses
	}
}

// dripping gives all but the last bytes at once, and those only in the end.
type dripping struct {
	raw   []byte
	until time.Time
}

func (d *dripping) Read(p []byte) (int, error) {
	if len(d.raw) == 0 {
		return 0, io.EOF
	}
	if len(d.raw) <= 64 {
		time.Sleep(time.Until(d.until))
	}
	n := copy(p, d.raw[:max(len(d.raw)-64, min(64, len(d.raw)))])
	d.raw = d.raw[n:]
	return n, nil
}
