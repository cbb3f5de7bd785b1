// This file prepares a workspace before an agent starts in it: it places the inputs that a run_open came with, and runs
// the script. Each stage is reported as it begins and ends, because the chat shows them; what the script prints goes
// there as well.

package proxy

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"aqueduct/acpgateway/wire"
	"aqueduct/internal/child"
)

// Stages and their statuses, as init_step names them.
const (
	stageInputs = "agent_inputs"
	stageScript = "init_script"
	stageAgent  = "agent_start"

	stepStarted = "started"
	stepDone    = "done"
	stepFailed  = "failed"
)

// prepare places the inputs and runs the script.
// Both report their steps as they go, since installing dependencies may take minutes and the chat would seem dead.
func (st *starter) prepare(ctx context.Context, report *reporter, w workspace, dir string, init *wire.Init) error {
	if init == nil {
		return nil
	}
	if init.AgentInputs != nil && len(init.AgentInputs.Items) > 0 {
		if err := report.step(stageInputs, func() error { return st.workspaces.place(ctx, w, init.AgentInputs) }); err != nil {
			report.signal(&wire.InitResult{Error: err.Error()})
			return err
		}
	}
	if strings.TrimSpace(init.Script) == "" {
		return nil
	}
	result := &wire.InitResult{}
	err := report.step(stageScript, func() error { return st.script(ctx, report, w, dir, init, result) })
	if result.OK = err == nil; err != nil {
		result.Error = err.Error()
	}
	report.signal(result)
	return err
}

// script runs the init script in a group of its own.
func (st *starter) script(ctx context.Context, report *reporter, w workspace, dir string, init *wire.Init, result *wire.InitResult) error {
	timeout := initTimeout
	if init.TimeoutSeconds > 0 {
		timeout = time.Duration(min(init.TimeoutSeconds, 3600)) * time.Second
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the init script took longer than %s", timeout))
	defer cancel()
	cmd := st.launcher.of(w).command("sh", "-c", init.Script)
	cmd.Dir, cmd.Env = dir, st.launcher.environment(init)
	status, err := runGroup(ctx, cmd, report.console(ctx, wire.PrefixInit), report.console(ctx, wire.PrefixInit))
	if err != nil {
		return err
	}
	result.ExitCode = status.ExitCode
	return failed("the init script", status)
}

// failed turns how a command ended into an error; nil for code 0. It names the signal or the code, and no output,
// which the chat has already.
func failed(what string, status wire.ExitStatus) error {
	switch {
	case status.Signal != nil:
		return fmt.Errorf("%s was ended by %s", what, *status.Signal)
	case *status.ExitCode != 0:
		return fmt.Errorf("%s ended with code %d", what, *status.ExitCode)
	}
	return nil
}

// runGroup runs a command to its end, or ctx's, and gives its output to two readers.
// stdin is closed: a script that asks something gets an end instead of waiting for ever.
func runGroup(ctx context.Context, cmd *exec.Cmd, stdout, stderr func(io.Reader)) (wire.ExitStatus, error) {
	streams, err := child.NewPipes(cmd)
	if err != nil {
		return wire.ExitStatus{}, err
	}
	proc, err := child.Start(cmd)
	streams.Started()
	if err != nil {
		streams.Close()
		return wire.ExitStatus{}, err
	}
	_ = streams.Stdin.Close() // it gets none
	var readers sync.WaitGroup
	readers.Go(func() { stdout(streams.Stdout) })
	readers.Go(func() { stderr(streams.Stderr) })
	select {
	case <-proc.Exited():
	case <-ctx.Done():
		proc.End(stopGrace)
	}
	streams.Stdout.Ending()
	streams.Stderr.Ending()
	readers.Wait()
	streams.Close()
	// A command that a signal ended has run out of time. One that exits, in the same moment or because it caught
	// SIGTERM, has a status of its own.
	if err := context.Cause(ctx); err != nil && statusOf(proc).Signal != nil {
		return wire.ExitStatus{}, err
	}
	return statusOf(proc), nil
}

// statusOf is how a process ended, as ACP has it; good after its end.
func statusOf(p *child.Process) wire.ExitStatus {
	signal, code := p.Status()
	if signal != "" {
		return wire.ExitStatus{Signal: &signal}
	}
	return wire.ExitStatus{ExitCode: &code}
}
