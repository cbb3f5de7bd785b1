package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/test/npmmcp"
	"aqueduct/test/program"
)

// stdio is "aqueduct mcp" with a client at its standard streams.
type stdio struct {
	*mcp.ClientSession
	cmd *exec.Cmd

	mu  sync.Mutex
	err bytes.Buffer
}

// Write implements io.Writer for the program's standard error.
func (s *stdio) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err.Write(b)
}

func (s *stdio) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err.String()
}

// newStdio starts it.
func newStdio(t *testing.T, options *mcp.ClientOptions, version string, args ...string) *stdio {
	t.Helper()
	return newStdioBy(t, program.Shipped, nil, options, version, args...)
}

// newStdioBy is newStdio by one of the programs, with further variables.
func newStdioBy(t *testing.T, by func() (string, error), env []string, options *mcp.ClientOptions, version string, args ...string) *stdio {
	t.Helper()
	path, err := by()
	if err != nil {
		t.Fatal(err)
	}
	s := &stdio{cmd: exec.Command(path, append([]string{"mcp"}, args...)...)}
	s.cmd.Env = append(os.Environ(), env...)
	s.cmd.Stderr = s
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "judge", Version: "1"}, options)
	s.ClientSession, err = client.Connect(ctx, &mcp.CommandTransport{Command: s.cmd}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("%v\n%s", err, s.log())
	}
	t.Cleanup(func() {
		_ = s.ClientSession.Close()
		if t.Failed() {
			t.Log(s.log())
		}
	})
	return s
}

// page is where calls are approved, and the token that opens it.
func (s *stdio) page(t *testing.T, state string) (url, token string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if m := regexp.MustCompile(`approved at (http://127\.0\.0\.1:\d+)/#sign-in=\w+`).FindStringSubmatch(s.log()); m != nil {
			url = m[1]
			break
		}
		if time.Now().After(end) {
			t.Fatal("no page is named\n" + s.log())
		}
	}
	raw, err := os.ReadFile(filepath.Join(state, "token"))
	if err != nil {
		t.Fatal(err)
	}
	return url, strings.TrimSpace(string(raw))
}

// TestMCPWrap: one command gates a server that stays as it is: its tools keep their names, what is allowed runs, and everything
// else is asked for, of the person at the client where it can be, else on the page. Nothing is left when the client leaves.
func TestMCPWrap(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			_, command, _ := strings.Cut(s.flag(), "=")
			state := t.TempDir()
			answers := make(chan *mcp.ElicitResult, 4)
			changed := make(chan struct{}, 8)
			options := &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }, ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return <-answers, nil
			}}
			c := newStdio(t, options, version, "--wrap", command, "--state", state, "--allow", "lo*")
			// A client lists once, at once, and again when it is notified.
			if r, err := c.ListTools(t.Context(), nil); err != nil || names(r) != "big die env fail grow look pay" {
				t.Errorf("%v %v", r, err)
			}
			if caps := c.InitializeResult().Capabilities; caps.Tools == nil || !caps.Tools.ListChanged {
				t.Errorf("%+v", caps)
			}
			e := &env{t: t, server: &server{}}
			e.server.url, e.user = c.page(t, state)
			if o := e.ended(begin(t.Context(), c.ClientSession, "look", `{}`)); o.text() != `{"open":true}` {
				t.Errorf("allowed: %s", o.text())
			}
			answers <- &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "approve"}}
			if o := e.ended(begin(t.Context(), c.ClientSession, "pay", `{"amount":1}`)); o.text() != "paid 1" {
				t.Errorf("approved: %s", o.text())
			}
			answers <- &mcp.ElicitResult{Action: "decline"}
			if o := e.ended(begin(t.Context(), c.ClientSession, "pay", `{"amount":2}`)); o.err != nil || !o.result.IsError {
				t.Errorf("declined: %s", o.text())
			}
			answers <- &mcp.ElicitResult{Action: "cancel"}
			done := begin(t.Context(), c.ClientSession, "pay", `{"amount":3}`)
			e.decide(e.asked("wrapped.pay").ID, `{"approved":true}`)
			if o := e.ended(done); o.text() != "paid 3" {
				t.Errorf("on the page: %s", o.text())
			}
			answers <- &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "approve"}}
			e.ended(begin(t.Context(), c.ClientSession, "grow", `{}`))
			for grown := false; !grown; {
				select {
				case <-changed:
				case <-time.After(patience):
					t.Fatal("the client is not notified that the list has changed")
				}
				r, err := c.ListTools(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				grown = names(r) == "die env extra fail grow look pay"
			}
			child := s.pid()
			if err := c.ClientSession.Close(); err != nil {
				t.Error(err)
			}
			if alive(child) {
				t.Error("the server outlives its client")
			}
			if left, _ := filepath.Glob(filepath.Join(state, "run-*")); len(left) != 0 {
				t.Errorf("%v is left", left)
			}
			if got := s.notes("pay"); len(got) != 2 {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestMCPWrapKilled: what a killed gate leaves behind is gone: the server at once, its folder with the next start. Gates of one
// user run side by side.
func TestMCPWrapKilled(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	_, command, _ := strings.Cut(s.flag(), "=")
	state := t.TempDir()
	first := newStdio(t, nil, "", "--wrap", command, "--state", state)
	first.page(t, state)
	e := &env{t: t, server: &server{}}
	e.eventually("the shop does not start", func() error {
		if len(s.notes("start")) != 1 {
			return errors.New("no note")
		}
		return nil
	})
	child := s.pid()
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	e.eventually("the shop outlives the gate", func() error {
		if alive(child) {
			return errors.New("it lives")
		}
		return nil
	})
	folders := func() int {
		left, _ := filepath.Glob(filepath.Join(state, "run-*"))
		return len(left)
	}
	second, third := newStdio(t, nil, "", "--wrap", command, "--state", state), newStdio(t, nil, "", "--wrap", command, "--state", state)
	second.page(t, state)
	third.page(t, state)
	if folders() != 2 {
		t.Errorf("%d folders for two gates", folders())
	}
}

// TestMCPStdio: "aqueduct mcp" before a running server, by the Go client and by npm's.
func TestMCPStdio(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	e := newEnv(t, "--mcp", s.flag(), "--mcp", "every="+npmmcp.Command(t, "server-everything")+" stdio", "--policy-file", policyFile(t))
	e.offers("shop.pay", true)
	e.offers("every.get-tiny-image", true)
	c := newStdio(t, nil, "", "--url", e.server.url, "--thread", "of stdio")
	done := begin(t.Context(), c.ClientSession, "shop.pay", `{"amount":1}`)
	e.decide(e.asked("shop.pay").ID, `{"approved":true}`)
	if o := e.ended(done); o.text() != "paid 1" {
		t.Errorf("%s", o.text())
	}
	// The list is the server's: it changes while the client is there.
	done = begin(t.Context(), c.ClientSession, "shop.grow", `{}`)
	e.decide(e.asked("shop.grow").ID, `{"approved":true}`)
	e.ended(done)
	e.eventually("the new tool", func() error {
		r, err := c.ListTools(t.Context(), nil)
		if err == nil && !strings.Contains(names(r), "shop.extra") {
			err = errors.New(names(r))
		}
		return err
	})
	// The calls are in the thread that the flag names.
	e.eventually("the calls in their thread", func() error {
		var messages []json.RawMessage
		e.request(http.MethodGet, "/api/threads/of%20stdio/messages", "", "", &messages)
		raw, _ := json.Marshal(messages)
		if !strings.Contains(string(raw), "shop.pay") || !strings.Contains(string(raw), "paid 1") {
			return errors.New(string(raw))
		}
		return nil
	})
	e.node("clients.test.mjs")
	// Without a server the client gets an error for what it asks, and the program stays.
	e.server.end(syscall.SIGKILL)
	if _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "shop.look"}); err == nil {
		t.Error("a call without a server has no error")
	}
}

func names(r *mcp.ListToolsResult) string {
	var all []string
	for _, tool := range r.Tools {
		all = append(all, tool.Name)
	}
	return strings.Join(all, " ")
}
