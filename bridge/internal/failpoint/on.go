//go:build failpoints

package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// armed is what AQUEDUCT_FAILPOINT=name:n or name:n:stop asks for; it is read once.
var armed = sync.OnceValue(func() *fuse {
	parts := strings.Split(os.Getenv("AQUEDUCT_FAILPOINT")+"::", ":")
	n, err := strconv.Atoi(parts[1])
	if err != nil || n < 1 {
		n = 1
	}
	f := &fuse{name: parts[0], left: n, signal: syscall.SIGKILL}
	if parts[2] == "stop" {
		f.signal = syscall.SIGSTOP
	}
	return f
})

type fuse struct {
	name   string
	signal syscall.Signal
	mu     sync.Mutex
	left   int
}

// Here kills the process the n-th time it comes to the named place, as kill -9 would, or stops it until it gets SIGCONT.
func Here(name string) {
	f := armed()
	if f.name != name {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left--; f.left == 0 {
		_ = syscall.Kill(syscall.Getpid(), f.signal) // this process, which may always
		time.Sleep(50 * time.Millisecond)            // a stop takes a moment to reach every thread
	}
}
