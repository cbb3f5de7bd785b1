package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"aqueduct/acpgateway/acp"
)

// Stages and their statuses, as init_step tells them.
const (
	stageInputs = "agent_inputs"
	stageScript = "init_script"
	stageAgent  = "agent_start"

	stepStarted = "started"
	stepDone    = "done"
	stepFailed  = "failed"
)

// step does one stage and tells of it.
func (r *run) step(stage string, do func() error) error {
	r.signal(&acp.InitStep{Stage: stage, Status: stepStarted})
	if err := do(); err != nil {
		r.signal(&acp.InitStep{Stage: stage, Status: stepFailed, Message: err.Error()})
		return err
	}
	r.signal(&acp.InitStep{Stage: stage, Status: stepDone})
	return nil
}

// prepare places the inputs and runs the script.
func (r *run) prepare(ctx context.Context, w workspace, dir string, init *acp.Init) error {
	if init == nil {
		return nil
	}
	if init.AgentInputs != nil && len(init.AgentInputs.Items) > 0 {
		if err := r.step(stageInputs, func() error { return r.p.place(ctx, w, init.AgentInputs) }); err != nil {
			r.signal(&acp.InitResult{Error: err.Error()})
			return err
		}
	}
	if strings.TrimSpace(init.Script) == "" {
		return nil
	}
	result := &acp.InitResult{}
	err := r.step(stageScript, func() error { return r.script(ctx, dir, init, result) })
	if result.OK = err == nil; err != nil {
		result.Error = err.Error()
	}
	r.signal(result)
	return err
}

// script runs the init script in a group of its own.
func (r *run) script(ctx context.Context, dir string, init *acp.Init, result *acp.InitResult) error {
	timeout := initTimeout
	if init.TimeoutSeconds > 0 {
		timeout = time.Duration(min(init.TimeoutSeconds, 3600)) * time.Second
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the init script took longer than %s", timeout))
	defer cancel()
	cmd := r.p.command("sh", "-c", init.Script)
	cmd.Dir, cmd.Env = dir, r.p.environment(init)
	status, err := runGroup(ctx, cmd, r.console(ctx, acp.PrefixInit), r.console(ctx, acp.PrefixInit))
	if err != nil {
		return err
	}
	result.ExitCode = status.ExitCode
	return failed("the init script", status)
}

func failed(what string, status acp.ExitStatus) error {
	switch {
	case status.Signal != nil:
		return fmt.Errorf("%s was ended by %s", what, *status.Signal)
	case *status.ExitCode != 0:
		return fmt.Errorf("%s ended with code %d", what, *status.ExitCode)
	}
	return nil
}

// runGroup runs a command to its end, or ctx's, and gives its output to two readers.
func runGroup(ctx context.Context, cmd *exec.Cmd, stdout, stderr func(io.Reader)) (acp.ExitStatus, error) {
	streams, err := newPipes(cmd)
	if err != nil {
		return acp.ExitStatus{}, err
	}
	proc, err := startProcess(cmd)
	streams.started()
	if err != nil {
		streams.close()
		return acp.ExitStatus{}, err
	}
	_ = streams.stdin.Close() // it gets none
	var readers sync.WaitGroup
	readers.Go(func() { stdout(streams.stdout) })
	readers.Go(func() { stderr(streams.stderr) })
	select {
	case <-proc.exited:
	case <-ctx.Done():
		proc.end(stopGrace)
	}
	streams.stdout.ending()
	streams.stderr.ending()
	readers.Wait()
	streams.close()
	if err := context.Cause(ctx); err != nil && proc.status().Signal != nil {
		return acp.ExitStatus{}, err
	}
	return proc.status(), nil
}

// consoleLine bounds one line of a console text; a longer one comes in parts.
const consoleLine = 8 << 10

// console makes lines into texts. It waits when the outbox is full, as updates do.
func (r *run) console(ctx context.Context, prefix string) func(io.Reader) {
	return func(in io.Reader) {
		lines := bufio.NewReaderSize(in, consoleLine)
		for {
			line, err := lines.ReadSlice('\n')
			if text := strings.TrimRight(string(line), "\r\n"); text != "" {
				r.p.out.Room(ctx)
				r.text(prefix + strings.ToValidUTF8(text, "\uFFFD"))
			}
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				return
			}
		}
	}
}
