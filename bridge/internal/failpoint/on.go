//go:build failpoints

package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// armed is what AQUEDUCT_FAILPOINT=name:n asks for; it is read once.
var armed = sync.OnceValue(func() *fuse {
	name, count, _ := strings.Cut(os.Getenv("AQUEDUCT_FAILPOINT"), ":")
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 {
		n = 1
	}
	return &fuse{name: name, left: n}
})

type fuse struct {
	name string
	mu   sync.Mutex
	left int
}

// Here kills the process the n-th time it comes to the named place, as kill -9 would.
func Here(name string) {
	f := armed()
	if f.name != name {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left--; f.left == 0 {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL) // of this process, by itself
		select {}                                           // nothing more is done, whatever a signal takes
	}
}
