package proxy

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"aqueduct/acpgateway/wire"
)

// process is a child in a process group of its own. The group ends with it: agents are often
// started by a shell or a shim, and what they leave behind would work on unseen.
//
// It is a group of its own so that one signal reaches the agent and what it started. A process that has left the group
// is found by its mark (leftover.go).
type process struct {
	cmd    *exec.Cmd
	pid    int
	exited chan struct{} // closed when it was waited for and its group was killed
}

// startProcess starts cmd. Its thread stays locked until the child has ended: the kernel sends
// the parent-death signal when the thread that forked ends, not the process.
func startProcess(cmd *exec.Cmd) (*process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	p := &process{cmd: cmd, exited: make(chan struct{})}
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
func (p *process) reap() {
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

// end asks the group to end, kills it when it does not, and waits.
// SIGTERM first: an agent may have something to save.
func (p *process) end(grace time.Duration) {
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

// status is how it ended; good after exited.
func (p *process) status() wire.ExitStatus {
	ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		name := unix.SignalName(ws.Signal())
		return wire.ExitStatus{Signal: &name}
	}
	code := p.cmd.ProcessState.ExitCode()
	return wire.ExitStatus{ExitCode: &code}
}

// lingerLast is how long a stream may stay silent after its process has ended: a process that
// left the group may hold it open for ever.
const lingerLast = 200 * time.Millisecond

// stream is our end of a child's output. After the child's end it gives what is left and then
// ends, even if another process still holds the other end.
// A read would otherwise wait until the last holder of the pipe is gone, which may be a daemon that the agent started.
type stream struct{ *os.File }

// Read implements io.Reader.
func (s stream) Read(b []byte) (int, error) {
	// The first deadline may have passed while the reader was busy with what it had. So there is one more read with a
	// deadline of its own: only one that waited for all of it in vain is the end.
	n, err := s.File.Read(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	if err := s.SetReadDeadline(time.Now().Add(lingerLast)); err != nil {
		return 0, err
	}
	if n, err = s.File.Read(b); errors.Is(err, os.ErrDeadlineExceeded) {
		return n, io.EOF
	}
	return n, err
}

// ending makes reads return when nothing comes.
func (s stream) ending() {
	_ = s.SetReadDeadline(time.Now().Add(lingerLast)) // closed already: its reader has ended
}

// pipes are a child's standard streams.
type pipes struct {
	stdin          *os.File
	stdout, stderr stream
	theirs         []*os.File
}

// newPipes makes the three pipes and gives the child its ends. They are os.Pipe and not cmd.StdoutPipe, because
// cmd.Wait would close ours before what is in them has been read.
func newPipes(cmd *exec.Cmd) (*pipes, error) {
	var files []*os.File
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(files)
			return nil, err
		}
		files = append(files, r, w)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[3], files[5]
	return &pipes{
		stdin: files[1], stdout: stream{files[2]}, stderr: stream{files[4]},
		theirs: []*os.File{files[0], files[3], files[5]},
	}, nil
}

// started closes the child's ends here, so that its end is seen.
func (p *pipes) started() { closeAll(p.theirs) }

func (p *pipes) close() { closeAll([]*os.File{p.stdin, p.stdout.File, p.stderr.File}) }

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // nothing is left to be learnt from it
	}
}
