package agents_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ordinary is the account that tests of root start the program as.
const ordinary = 65534

// as is how the program is started: by which account, and on a kernel without what.
type as struct {
	uid                  int
	noLandlock, noSpaces bool
	modules              string // folder over which the npm packages of this folder are laid, for accounts that do not see them
	varLib               string // folder that stands as /var/lib, in a mount namespace
}

// asFlag is the first argument by which the test's own binary becomes another program.
const asFlag = "start-as"

// command is the program with its arguments. The test's own binary takes away what the kernel shall not have, and the account,
// and becomes the program.
func (a as) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exec.Command(self, append([]string{asFlag, strconv.Itoa(a.uid), fmt.Sprint(a.noLandlock), fmt.Sprint(a.noSpaces), a.modules, a.varLib}, args...)...)
}

// become runs in the binary that command starts. It returns only with an error.
func become(args []string) error {
	runtime.LockOSThread() // filters and accounts are a thread's, and exec takes those of its own
	uid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	if args[3] != "" || args[4] != "" {
		err = errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	}
	if args[3] != "" {
		err = errors.Join(err, unix.Mount("node_modules", args[3], "", unix.MS_BIND, ""))
	}
	if args[4] != "" {
		err = errors.Join(err, unix.Mount(args[4], "/var/lib", "", unix.MS_BIND, ""))
	}
	if err == nil && uid != os.Getuid() {
		err = errors.Join(syscall.Setgroups(nil), syscall.Setgid(uid), syscall.Setuid(uid))
	}
	if err == nil {
		err = without(args[1] == "true", args[2] == "true")
	}
	if err != nil {
		return err
	}
	return syscall.Exec(args[5], args[5:], os.Environ())
}

// without installs a filter of system calls that answers as a kernel without Landlock, or one that makes no user namespaces.
func without(landlock, spaces bool) error {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	answer := func(errno uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | errno}
	}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	unless := func(call uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: skip}
	}
	filter := []unix.SockFilter{load(0)} // the number of the call
	if landlock {
		filter = append(filter, unless(unix.SYS_LANDLOCK_CREATE_RULESET, 1), answer(uint32(unix.ENOSYS)))
	}
	if spaces {
		filter = append(filter, unless(unix.SYS_CLONE3, 1), answer(uint32(unix.ENOSYS))) // its flags are out of a filter's reach
		for _, call := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
			filter = append(filter, unless(call, 4),
				load(16), // the flags, the first argument
				unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.CLONE_NEWUSER, Jf: 1}, answer(uint32(unix.EPERM)), allow)
		}
	}
	if len(filter) == 1 {
		return nil
	}
	filter = append(filter, allow)
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return errors.Join(
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
		unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0),
	)
}

// accounts are those that this test can start the program as.
func accounts() map[string]int {
	if os.Getuid() != 0 {
		return map[string]int{"an ordinary user": os.Getuid()}
	}
	return map[string]int{"root": 0, "an ordinary user": ordinary}
}

// kernelHas reports what the kernel of this machine lets an account have.
func kernelHas(t *testing.T, uid int) (landlock, spaces bool) {
	t.Helper()
	_, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1) // asks for the version
	out, err := as{uid: uid}.command(t, "/usr/bin/unshare", "-Um", "/bin/true").CombinedOutput()
	t.Logf("uid %d: Landlock %t, user namespaces %t %s", uid, errno == 0, err == nil, strings.TrimSpace(string(out)))
	return errno == 0, err == nil
}
