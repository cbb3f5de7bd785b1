// This file runs commands for agents that leave that to their client (ACP, terminal/create and its like). A command is
// a process group that ends with its agent at the latest.

package proxy

import (
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"sync"

	"aqueduct/acpgateway/wire"
	"aqueduct/internal/child"
)

const (
	terminalOutput = 1 << 20 // kept of a terminal's output when the agent names no limit
	terminalMost   = 16 << 20
	terminalCount  = 32 // of one agent
)

// terminal is a command an agent runs through us. It starts in the workspace; what it does
// there is its own, as with the agent itself.
// Its output is kept, the last of it, until the agent releases it: ACP lets an agent ask for it at any time.
type terminal struct {
	stop context.CancelFunc
	done chan struct{}

	mu        sync.Mutex
	out       []byte
	limit     int
	truncated bool
	status    *wire.ExitStatus
}

// terminals are the commands that run for one agent. They end with it: ctx is the agent's. mu is for byID.
type terminals struct {
	launch *launcher
	space  workspace
	dir    string // where the agent works
	mark   string // in the environment of all the agent's processes
	ctx    context.Context
	wg     *sync.WaitGroup
	newID  func() string

	mu   sync.Mutex
	byID map[string]*terminal
}

// call answers terminal/*. Kill and release both stop the command; only release forgets its output, which ACP lets an
// agent read after a kill. An id of another agent, or one that was released, is not found.
func (ts *terminals) call(ctx context.Context, method string, params json.RawMessage) (any, error) {
	if method == wire.MethodTerminalCreate {
		return ts.create(params)
	}
	var id wire.TerminalID
	if err := json.Unmarshal(params, &id); err != nil {
		return nil, invalid(err)
	}
	ts.mu.Lock()
	t := ts.byID[id.TerminalID]
	if method == wire.MethodTerminalRelease {
		delete(ts.byID, id.TerminalID)
	}
	ts.mu.Unlock()
	if t == nil {
		return nil, &wire.Error{Code: wire.CodeNotFound, Message: "no such terminal"}
	}
	switch method {
	case wire.MethodTerminalOutput:
		return t.output(), nil
	case wire.MethodTerminalWait:
		return t.wait(ctx)
	}
	t.stop() // kill and release
	return struct{}{}, nil
}

// The number is bounded, because an agent that never releases would collect processes.
func (ts *terminals) create(params json.RawMessage) (any, error) {
	var q wire.TerminalCreateParams
	if err := json.Unmarshal(params, &q); err != nil {
		return nil, invalid(err)
	}
	dir := ts.dir
	if q.Cwd != "" {
		var err error
		if dir, err = ts.space.dir(q.Cwd); err != nil {
			return nil, invalid(err)
		}
	}
	cmd := ts.launch.command(q.Command, q.Args...)
	cmd.Dir, cmd.Env = dir, ts.launch.environment(nil)
	for _, v := range q.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	// Last, as in starter.spawn: an agent could otherwise start what its end does not reach.
	cmd.Env = append(cmd.Env, child.MarkName+"="+ts.mark)
	ctx, stop := context.WithCancel(ts.ctx)
	t := &terminal{stop: stop, done: make(chan struct{}), limit: terminalOutput}
	if q.OutputByteLimit != nil {
		t.limit = min(max(*q.OutputByteLimit, 0), terminalMost)
	}
	id := ts.newID()
	ts.mu.Lock()
	full := len(ts.byID) >= terminalCount
	if !full {
		ts.byID[id] = t
	}
	ts.mu.Unlock()
	if full {
		stop()
		return nil, &wire.Error{Code: wire.CodeInternal, Message: "too many terminals are open"}
	}
	ts.wg.Go(func() { t.run(ctx, cmd) })
	return wire.TerminalID{TerminalID: id}, nil
}

// A command that cannot be started ends like one that failed: the agent shows the reason to its model.
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
			code := 127 // as a shell exits for what it cannot start
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

// It may be cut within a character at its beginning, so what is no UTF-8 is left out.
func (t *terminal) output() wire.TerminalOutputResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	return wire.TerminalOutputResult{Output: strings.ToValidUTF8(string(t.out), ""), Truncated: t.truncated, ExitStatus: t.status}
}

// wait returns how the command ended. It holds one of the agent's open requests and nothing else; $/cancel_request or
// the agent's end frees it.
func (t *terminal) wait(ctx context.Context) (any, error) {
	select {
	case <-t.done:
		return t.output().ExitStatus, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// releaseAll ends what an agent that is gone has left.
// None is added any more: the agent's reader has ended, and with it all requests that it took.
func (ts *terminals) releaseAll() {
	ts.mu.Lock()
	left := ts.byID
	ts.byID = map[string]*terminal{}
	ts.mu.Unlock()
	for _, t := range left {
		t.stop()
		<-t.done
	}
}
