package faults_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

const (
	abuseVar    = "AQUEDUCT_ABUSE" // how long the abuse lasts, as a duration
	abuseToken  = "a-token-that-nobody-guesses"
	abuseConns  = 1500
	abuseMemory = 150 << 20
	wrongTokens = 50 // a second
	// Each of the 20 normal streams is a run of so many events at a model's pace.
	abusePrompt = "count 60 5ms"
)

// TestS27Abuse: callers without a credential hold 1500 connections, with slow bodies, idle sockets
// or nothing, and try wrong tokens. Beside them 20 normal streams keep their pace, memory stays
// bounded, and no client with a good token is kept out.
func TestS27Abuse(t *testing.T) {
	span := 8 * time.Second
	if given := os.Getenv(abuseVar); given != "" {
		var err error
		if span, err = time.ParseDuration(given); err != nil {
			t.Fatal(err)
		}
	}
	s := startGuarded(t)
	s.streams(t, "warm", 500*time.Millisecond)
	ok := false
	var calm, beside time.Duration
	for try := 0; try < 3 && !ok && !t.Failed(); try++ { // others may use the machine
		without := s.streams(t, fmt.Sprintf("calm-%d", try), span/4)
		before := s.peak()
		a := startAbuse(t, s)
		stop := s.comesIn(t)
		with := s.streams(t, fmt.Sprintf("beside-%d", try), span)
		stop()
		grown := s.peak() - before
		a.stop()
		without = append(without, s.streams(t, fmt.Sprintf("calm-%d-b", try), span/4)...)
		calm, beside = p99(without), p99(with)
		ok = beside <= calm*5/4+5*time.Millisecond
		t.Logf("%v: p99 of %d runs %v beside %d connections (%d opened in all) and %d wrong tokens, of %d without %v (%.2f); memory + %d MiB",
			span, len(with), beside, abuseConns, a.opened.Load(), a.refused.Load(), len(without), calm, float64(beside)/float64(calm), grown>>20)
		if grown > abuseMemory {
			t.Errorf("memory grew by %d MiB", grown>>20)
		}
		if a.refused.Load() == 0 || a.opened.Load() < abuseConns {
			t.Errorf("the abuse did not take place: %d connections, %d refusals", a.opened.Load(), a.refused.Load())
		}
	}
	if !ok {
		t.Errorf("abuse holds the others up: p99 %v, without it %v", beside, calm)
	}
}

// startGuarded starts a server that wants a token.
func startGuarded(t *testing.T) *server {
	t.Helper()
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(abuseToken), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, exited: make(chan struct{})}
	s.cmd = exec.Command(path, "serve", "--listen", "127.0.0.1:0", "--database", "sqlite:"+storetest.SQLite(t),
		"--agent", "fake="+newAgent(t).URL, "--auth", "token", "--token-file", token)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.begin()
	t.Cleanup(s.kill)
	return s
}

// request makes one with a token, on a connection of its own or a kept one.
func (s *server) asOwner(client *http.Client, method, path, body string) (int, error) {
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+abuseToken)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && strings.HasSuffix(path, "/chat") && !bytes.Contains(raw, []byte("RUN_FINISHED")) {
		err = fmt.Errorf("status %d: %.300s", resp.StatusCode, raw)
	}
	return resp.StatusCode, err
}

// streams has 20 clients run prompts for a while, and gives the spans from request to end.
func (s *server) streams(t *testing.T, name string, span time.Duration) []time.Duration {
	t.Helper()
	const clients = 20
	spans := make([][]time.Duration, clients)
	end := time.Now().Add(span)
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for i := 0; time.Now().Before(end); i++ {
				body := fmt.Sprintf(`{"protocolVersion":"1.0","threadId":"%s-%d","runId":"r%d","messages":[{"id":"m%d","role":"user","content":%q}]}`, name, c, i, i, abusePrompt)
				begun := time.Now()
				if status, err := s.asOwner(client, "POST", "/api/agui/chat", body); err != nil || status != http.StatusOK {
					t.Errorf("a normal stream: %d %v", status, err)
					return
				}
				spans[c] = append(spans[c], time.Since(begun))
			}
		})
	}
	all.Wait()
	return slices.Concat(spans...)
}

// comesIn checks, until it is stopped, that a client with a good token comes in by a new connection.
func (s *server) comesIn(t *testing.T) (stop func()) {
	quit := make(chan struct{})
	var running sync.WaitGroup
	tries := 0
	running.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
		for {
			tries++
			if status, err := s.asOwner(client, "GET", "/api/threads", ""); status != http.StatusOK {
				t.Errorf("a good token is kept out: %d %v", status, err)
			}
			if status, err := s.asOwner(client, "POST", "/api/session", `{"token":"`+abuseToken+`"}`); status != http.StatusNoContent {
				t.Errorf("nobody can sign in: %d %v", status, err)
			}
			if err := s.hello(); err != nil {
				t.Errorf("no hello at /ws/ingress: %v", err)
			}
			select {
			case <-tick.C:
			case <-quit:
				return
			}
		}
	})
	return func() {
		close(quit)
		running.Wait()
		if tries < 2 {
			t.Errorf("only %d newcomers were tried", tries)
		}
	}
}

// hello signs in at /ws/ingress, and receives something that is no refusal.
func (s *server) hello() error {
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprint(conn, upgradeRequest)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("upgrade: %v %v", resp, err)
	}
	for _, m := range []string{`{"type":"hello","api_key":"` + abuseToken + `"}`, `{"type":"none"}`} {
		if _, err := conn.Write(masked(m)); err != nil {
			return err
		}
	}
	head := make([]byte, 2) // the answer to the second message: an unknown type, which only a caller who is in receives
	if _, err := io.ReadFull(in, head); err != nil {
		return err
	}
	text := make([]byte, 64)
	n, err := in.Read(text)
	if head[0]&0x0f != 1 || !bytes.Contains(text[:n], []byte("error")) && n < 8 {
		return fmt.Errorf("frame %x %q %v", head, text[:n], err)
	}
	return nil
}

const upgradeRequest = "GET /ws/ingress HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"

// masked is a short text frame as clients send it, with a mask of zeros.
func masked(text string) []byte {
	return append([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...)
}

// abuse is many connections without a credential.
type abuse struct {
	s       *server
	quit    chan struct{}
	running sync.WaitGroup
	opened  atomic.Int64
	refused atomic.Int64
}

// opening is what a connection sends first; the slow bodies have a large beginning.
var opening = []string{
	"",
	upgradeRequest,
	slowPost("/api/session", slowStart),
	slowPost("/v1/ingress", slowStart),
	slowPost("/decide/none", slowStart),
	slowPost("/api/agui/chat", slowStart),
	slowPost("/v1/tools/x:invoke", slowStart),
	"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}

// Of the slow bodies most have begun, and some are all but there: what a server holds that reads
// before it asks who sends.
const (
	slowStart = 16 << 10
	slowMost  = 4<<20 - 1<<10
	mostSlow  = 150 // connections of slowMost
)

func slowPost(path string, size int) string {
	return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Aqueduct-Channel: im\r\nContent-Length: 4194304\r\n\r\n{\"token\":\"" +
		strings.Repeat("x", size)
}

func startAbuse(t *testing.T, s *server) *abuse {
	t.Helper()
	large := []string{slowPost("/api/session", slowMost), slowPost("/v1/ingress", slowMost), slowPost("/decide/none", slowMost)}
	a := &abuse{s: s, quit: make(chan struct{})}
	for i := range abuseConns {
		first, pause := opening[i%len(opening)], 3
		if i < mostSlow { // seldom: what is measured is the server's work, not copying on the loopback
			first, pause = large[i%len(large)], 30
		}
		a.running.Go(func() { a.hold(first, pause) })
	}
	a.running.Go(a.guess)
	for deadline := time.Now().Add(30 * time.Second); a.opened.Load() < abuseConns; {
		if time.Now().After(deadline) {
			t.Fatalf("only %d connections could be opened", a.opened.Load())
		}
		<-time.After(10 * time.Millisecond)
	}
	return a
}

// hold keeps one connection, opened again some seconds after the server closed it, and sends a byte
// a second.
func (a *abuse) hold(first string, pause int) {
	for {
		if conn, err := net.Dial("tcp", strings.TrimPrefix(a.s.url, "http://")); err == nil {
			a.opened.Add(1)
			a.drip(conn, first)
		}
		for range pause {
			if a.rests() {
				return
			}
		}
	}
}

func (a *abuse) drip(conn net.Conn, first string) {
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(time.Minute))
	if first != "" {
		if _, err := io.WriteString(conn, first); err != nil {
			return
		}
	}
	if strings.HasPrefix(first, "POST") {
		for !a.rests() {
			if _, err := conn.Write([]byte("x")); err != nil {
				return
			}
		}
		return
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, conn)
	}()
	select {
	case <-closed:
	case <-a.quit:
		_ = conn.Close()
		<-closed
	}
}

// rests waits a second, and reports whether it is over.
func (a *abuse) rests() bool {
	select {
	case <-time.After(time.Second):
		return false
	case <-a.quit:
		return true
	}
}

// guess tries wrong tokens.
func (a *abuse) guess() {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(time.Second / wrongTokens)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-tick.C:
		case <-a.quit:
			return
		}
		req, err := http.NewRequest("GET", a.s.url+"/api/threads", nil)
		if err != nil {
			return
		}
		req.Header.Set("Authorization", fmt.Sprintf("Bearer wrong-token-number-%d", i))
		if resp, err := client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusTooManyRequests {
				a.refused.Add(1)
			}
		}
	}
}

func (a *abuse) stop() {
	close(a.quit)
	a.running.Wait()
}
