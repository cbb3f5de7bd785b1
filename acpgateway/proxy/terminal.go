package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"

	"aqueduct/acpgateway/acp"
)

const (
	terminalOutput = 1 << 20 // kept of a terminal's output when the agent names no limit
	terminalMost   = 16 << 20
	terminalCount  = 32 // of one agent
)

// terminal is a command an agent runs through us. It starts in the workspace; what it does
// there is its own, as with the agent itself.
type terminal struct {
	stop context.CancelFunc
	done chan struct{}

	mu        sync.Mutex
	out       []byte
	limit     int
	truncated bool
	status    *acp.ExitStatus
}

func (a *agent) terminalCall(ctx context.Context, method string, params json.RawMessage) (any, error) {
	if method == acp.MethodTerminalCreate {
		return a.createTerminal(params)
	}
	var id acp.TerminalID
	if err := json.Unmarshal(params, &id); err != nil {
		return nil, invalid(err)
	}
	a.mu.Lock()
	t := a.terminals[id.TerminalID]
	if method == acp.MethodTerminalRelease {
		delete(a.terminals, id.TerminalID)
	}
	a.mu.Unlock()
	if t == nil {
		return nil, &acp.Error{Code: acp.CodeNotFound, Message: "no such terminal"}
	}
	switch method {
	case acp.MethodTerminalOutput:
		return t.output(), nil
	case acp.MethodTerminalWait:
		return t.wait(ctx)
	}
	t.stop() // kill and release
	return struct{}{}, nil
}

func (a *agent) createTerminal(params json.RawMessage) (any, error) {
	var q acp.TerminalCreateParams
	if err := json.Unmarshal(params, &q); err != nil {
		return nil, invalid(err)
	}
	dir := a.dir
	if q.Cwd != "" {
		var err error
		if dir, err = a.space.dir(q.Cwd); err != nil {
			return nil, invalid(err)
		}
	}
	cmd := a.run.p.command(q.Command, q.Args...)
	cmd.Dir, cmd.Env = dir, a.run.p.environment(nil)
	for _, v := range q.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	cmd.Env = append(cmd.Env, markName+"="+a.mark)
	ctx, stop := context.WithCancel(a.ctx)
	t := &terminal{stop: stop, done: make(chan struct{}), limit: terminalOutput}
	if q.OutputByteLimit != nil {
		t.limit = min(max(*q.OutputByteLimit, 0), terminalMost)
	}
	id := fmt.Sprintf("term-%d", a.run.p.asks.Add(1))
	a.mu.Lock()
	full := len(a.terminals) >= terminalCount
	if !full {
		a.terminals[id] = t
	}
	a.mu.Unlock()
	if full {
		stop()
		return nil, &acp.Error{Code: acp.CodeInternal, Message: "too many terminals are open"}
	}
	a.run.p.wg.Go(func() { t.run(ctx, cmd) })
	return acp.TerminalID{TerminalID: id}, nil
}

func (t *terminal) run(ctx context.Context, cmd *exec.Cmd) {
	defer close(t.done)
	defer t.stop()
	status, err := runGroup(ctx, cmd, t.read, t.read)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && status.ExitCode == nil && status.Signal == nil {
		if ctx.Err() != nil {
			signal := "SIGTERM"
			status.Signal = &signal
		} else {
			code := 127 // as a shell says of what it cannot start
			status.ExitCode = &code
			t.out = append(t.out, err.Error()...)
		}
	}
	t.status = &status
}

func (t *terminal) read(r io.Reader) { _, _ = io.Copy(t, r) } // Write never fails; a read error is the end

// Write keeps the last of the output.
func (t *terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out = append(t.out, b...)
	if over := len(t.out) - t.limit; over > 0 {
		t.truncated = true
		t.out = append(t.out[:0], t.out[over:]...)
	}
	return len(b), nil
}

func (t *terminal) output() acp.TerminalOutputResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	return acp.TerminalOutputResult{Output: strings.ToValidUTF8(string(t.out), ""), Truncated: t.truncated, ExitStatus: t.status}
}

func (t *terminal) wait(ctx context.Context) (any, error) {
	select {
	case <-t.done:
		return t.output().ExitStatus, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// releaseAll ends what an agent that is gone has left.
func (a *agent) releaseAll() {
	a.mu.Lock()
	terminals := a.terminals
	a.terminals = map[string]*terminal{}
	a.mu.Unlock()
	for _, t := range terminals {
		t.stop()
		<-t.done
	}
}
