// Package goclients_test drives aqueduct with Go clients of others: the community client of
// AG-UI, and r3labs/sse as a reader of the log.
package goclients_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"aqueduct/store/storetest"
	"aqueduct/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// patience bounds every wait of these tests.
const patience = 30 * time.Second

// server is aqueduct with its demo agent on one address and one database, which may be killed
// and started again.
type server struct {
	t       *testing.T
	address string
	args    []string
	cmd     *exec.Cmd
	ended   chan struct{}
}

func newServer(t *testing.T) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	_ = ln.Close()
	s := &server{t: t, address: address, args: []string{
		"serve", "--demo", "--demo-pace", "2ms", "--listen", address, "--database", "sqlite:" + storetest.SQLite(t),
	}}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// start starts the program and waits until it listens.
func (s *server) start() {
	s.t.Helper()
	path, err := program.Shipped()
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd = exec.Command(path, s.args...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd.Stderr = s.cmd.Stdout
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	listens := make(chan struct{}, 1)
	s.ended = make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			if strings.HasPrefix(sc.Text(), "listening on") {
				listens <- struct{}{}
			}
		}
	}(s.ended)
	select {
	case <-listens:
	case <-s.ended:
		s.t.Fatal("aqueduct ended before it listened")
	case <-time.After(patience):
		s.t.Fatal("aqueduct does not listen")
	}
}

// kill ends the program without a chance to say anything.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
	_ = s.cmd.Wait()
}

func (s *server) url(path string) string { return "http://" + s.address + path }

// prompt starts a Run by plain HTTP and gives its id; what it streams is left to others.
func (s *server) prompt(text string) string {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{
		"protocolVersion": "1.0", "threadId": "", "runId": "", "messages": []any{map[string]any{"id": "u", "role": "user", "content": text}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.Post(s.url("/api/agui/chat"), "application/json", bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		s.t.Fatalf("%s: %s", resp.Status, text)
	}
	return resp.Header.Get("X-Run-Id")
}

// log is what is kept of a Run that is over: each event's bytes by its id.
func (s *server) log(run string) map[string]string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url("/api/runs/"+run+"/events"), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("the log of %s: %s %v", run, resp.Status, err)
	}
	kept := make(map[string]string)
	for block := range strings.SplitSeq(string(raw), "\n\n") {
		if id, data, ok := strings.Cut(strings.TrimPrefix(block, "id: "), "\ndata: "); ok {
			kept[id] = data
		}
	}
	if len(kept) == 0 {
		s.t.Fatal(fmt.Errorf("the log of %s is empty", run))
	}
	return kept
}
