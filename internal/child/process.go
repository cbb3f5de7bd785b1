package child

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a child in a process group of its own. The group ends with it: such programs are often
// started by a shell or a shim, and what they leave behind would work on unseen.
//
// It is a group of its own so that one signal reaches the child and what it started. A process that has left the group
// is found by its mark (leftover.go).
type Process struct {
	cmd    *exec.Cmd
	pid    int
	exited chan struct{}
}

// Start starts cmd. Its thread stays locked until the child has ended: the kernel sends
// the parent-death signal when the thread that forked ends, not the process.
func Start(cmd *exec.Cmd) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			// It is written before the send below, and so seen by the caller.
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			p.reap()
		}
	}()
	return p, <-started
}

// reap kills the group before it takes the child's status: until then its number cannot be
// given to another process.
// WNOWAIT leaves the child as a zombie, which keeps its process id taken while the group is killed.
func (p *Process) reap() {
	for {
		err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = syscall.Kill(-p.pid, syscall.SIGKILL) // no such group: all ended by themselves
	_ = p.cmd.Wait()                          // how it ended is in ProcessState
	close(p.exited)
}

// Exited is closed when the child was waited for and its group was killed.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// End asks the group to end, kills it when it does not, and waits.
// SIGTERM first: the program may have something to save.
func (p *Process) End(grace time.Duration) {
	select {
	case <-p.exited:
		return
	default:
	}
	_ = syscall.Kill(-p.pid, syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		<-p.exited
	}
}

// Status is how it ended: the name of a signal, or a code. Good after Exited.
func (p *Process) Status() (signal string, code int) {
	ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		return unix.SignalName(ws.Signal()), 0
	}
	return "", p.cmd.ProcessState.ExitCode()
}
