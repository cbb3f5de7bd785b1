package child

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// What a child starts may leave its process group, and then outlives the group: a CLI inside an adapter does. Every process
// of a child inherits a mark in its environment, by which it is found wherever it went. Where there is no /proc, or a
// process clears its environment, only the group ends.

// MarkName is the name of the mark. Its value begins with an epoch: a random id of the start of the program's part that runs
// the children.
const MarkName = "AQUEDUCT_AGENT_PROCESS"

// sweepRounds bounds how often marked processes are looked for: one that is just being forked is found in the next round.
const sweepRounds = 10

// KillMarked kills every process that has a mark, until none is left.
// Between reading the list and killing a process may fork; its child has the mark as well and is found in the next
// round.
func KillMarked(mark string) {
	entry := []byte(MarkName + "=" + mark)
	for range sweepRounds {
		found := false
		files, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is good
		for _, file := range files {
			raw, err := os.ReadFile(file) // gone, or another user's
			if err != nil || !hasEntry(raw, entry) {
				continue
			}
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err == nil && pid != os.Getpid() {
				found = syscall.Kill(pid, syscall.SIGKILL) == nil || found
			}
		}
		if !found {
			return
		}
	}
}

func hasEntry(environ, entry []byte) bool {
	for pair := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.Equal(pair, entry) {
			return true
		}
	}
	return false
}

// guardScript waits until this program is gone, whose end of its input then closes, and kills what has its mark.
// It looks for the epoch, with which the marks of all children of this start begin.
const guardScript = `cat >/dev/null
for round in 1 2 3; do
  found=$(grep -lsF "$1" /proc/[0-9]*/environ) # its status says only that some process has gone meanwhile
  for file in $found; do pid=${file#/proc/}; kill -9 "${pid%%/*}"; done
done 2>/dev/null`

// Guard is a shell that outlives a program which is killed, for as long as it takes to kill what its children left behind: a
// killed program cannot. It is nil where there is no shell.
// It does nothing until the pipe to it closes, which the kernel does when the program dies.
type Guard struct {
	cmd   *exec.Cmd
	input io.Closer
}

// StartGuard starts the guard of the children whose marks begin with an epoch.
func StartGuard(epoch string, log *slog.Logger) *Guard {
	cmd := exec.Command("/bin/sh", "-c", guardScript, "sh", MarkName+"="+epoch)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what is sent to this program's group is not for it
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		log.Warn("processes that leave their group will outlive this program if it is killed", "err", err)
		return nil
	}
	return &Guard{cmd, input}
}

// End dismisses the guard of a program that has ended its children itself.
func (g *Guard) End() {
	if g == nil {
		return
	}
	// It is killed before its input closes, since that is what it acts on.
	_ = g.cmd.Process.Kill() // it may be gone
	_ = g.input.Close()
	_ = g.cmd.Wait()
}
