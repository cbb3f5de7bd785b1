package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// An agent is a program that text from anywhere steers. It runs beside a process that holds the token, the keys and the
// database of its own judge, so that process keeps them from it by three means: a user of its own; Landlock, which takes
// paths away from a process and all it starts, and keeps it out of the memory of others; and namespaces (mount.go), where
// Landlock cannot take a path away. All hold for whatever runs for an agent: the agent itself, its init script, its
// terminals, git in its folder.

// Confinement is what an agent and all that runs for it are kept from.
//
// A nil Confinement confines nothing; all methods take one.
type Confinement struct {
	User *User
	// Helper is a command that mounts, applies Landlock and then becomes what follows "--"; see Confine. Without one only User
	// holds.
	Helper []string
	// Protect are files and directories that must not be read.
	Protect []string
	// ReadOnly are files, and links on the way to files, that must stay what they are. Agents may read them.
	ReadOnly []string
	// Apart starts agents in a user and a mount namespace of their own (mount.go). It needs the helper, and the next two and
	// SpacesMounted need it.
	Apart bool
	// Hide are those of Protect that Landlock cannot take away: there an empty folder, or an empty file, lies in the place of
	// each.
	Hide []string
	// Pinned are files that are mounted over themselves read-only, where Landlock cannot keep them.
	Pinned []string
	// Spaces is the folder with a folder for each agent, of which one sees its own alone: Space, which Within sets. "" keeps
	// none apart. SpacesMounted has a mount keep them apart, which hides their names as well, and works below folders that agents
	// write to; else Landlock does.
	Spaces, Space string
	SpacesMounted bool
}

// User is an account of this host.
type User struct {
	Name, Home string
	UID, GID   uint32
	Groups     []uint32
}

// LookupUser finds the account that agents are to run as.
func LookupUser(name string) (*User, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("only root can run agents as another user")
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	found := &User{Name: u.Username, Home: u.HomeDir}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, err
	}
	// The first two are the user and its group, the rest are the other groups.
	for _, id := range append([]string{u.Uid, u.Gid}, groups...) {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		found.Groups = append(found.Groups, uint32(n))
	}
	found.UID, found.GID, found.Groups = found.Groups[0], found.Groups[1], found.Groups[2:]
	if found.UID == 0 {
		return nil, fmt.Errorf("user %s is root", name)
	}
	return found, nil
}

// LandlockWorks reports whether this kernel has Landlock.
func LandlockWorks() bool {
	version, err := llsys.LandlockGetABIVersion()
	return err == nil && version > 0
}

// Unprotectable are the protected paths that Landlock cannot keep from an agent which works in the given directories: it
// takes a directory's paths away one by one, so that nothing new could be made beside them.
func (c *Confinement) Unprotectable(dirs []string) []string {
	var left []string
	for _, path := range c.Protect {
		if slices.ContainsFunc(dirs, func(dir string) bool { return dir != "" && Inside(RealPath(dir), RealPath(path)) }) {
			left = append(left, path)
		}
	}
	return left
}

// Below are those of the directories that lie in a protected path.
func (c *Confinement) Below(dirs []string) []string {
	return slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool {
		return dir == "" || !slices.ContainsFunc(c.Protect, func(path string) bool { return Inside(RealPath(path), RealPath(dir)) })
	})
}

// Wrap makes cmd run confined.
// The user is set by the kernel at the start of the process; Landlock by a helper, which is this program again,
// because Go cannot run code between fork and exec.
func (c *Confinement) Wrap(cmd *exec.Cmd) *exec.Cmd {
	if c == nil {
		return cmd
	}
	// What cannot be found fails as it would without us: the reason is in the error.
	if len(c.Helper) > 0 && cmd.Err == nil {
		if _, err := os.Stat(cmd.Path); err == nil || !filepath.IsAbs(cmd.Path) {
			cmd = exec.Command(c.Helper[0], slices.Concat(c.Helper[1:], c.args(), []string{"--", cmd.Path}, cmd.Args[1:])...)
			if c.Apart {
				cmd.SysProcAttr = ownNamespaces()
			}
		}
	}
	if c.User != nil {
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: c.User.UID, Gid: c.User.GID, Groups: c.User.Groups}
	}
	return cmd
}

// args are the confinement as the helper's arguments, which ReadArgs reads.
func (c *Confinement) args() (args []string) {
	for _, list := range c.lists() {
		for _, path := range *list.paths {
			args = append(args, list.flag, path)
		}
	}
	if c.Apart {
		args = append(args, "--apart")
	}
	switch {
	case c.Space == "":
	case c.SpacesMounted:
		args = append(args, "--mount-space", c.Spaces, c.Space)
	default:
		args = append(args, "--space", c.Spaces, c.Space)
	}
	return args
}

type pathList struct {
	flag  string
	paths *[]string
}

func (c *Confinement) lists() []pathList {
	return []pathList{{"--protect", &c.Protect}, {"--read-only", &c.ReadOnly}, {"--hide", &c.Hide}, {"--pin", &c.Pinned}}
}

// ReadArgs reads the arguments of the helper: the confinement that it applies, and the command after "--".
func ReadArgs(args []string) (c Confinement, command []string, err error) {
	for len(args) > 1 && args[0] != "--" {
		at := slices.IndexFunc(c.lists(), func(l pathList) bool { return l.flag == args[0] })
		switch {
		case at >= 0:
			into := c.lists()[at].paths
			*into, args = append(*into, args[1]), args[2:]
		case args[0] == "--apart":
			c.Apart, args = true, args[1:]
		case (args[0] == "--space" || args[0] == "--mount-space") && len(args) > 2:
			c.SpacesMounted = args[0] == "--mount-space"
			c.Spaces, c.Space, args = args[1], args[2], args[3:]
		default:
			return c, nil, fmt.Errorf("confine: unknown argument %q", args[0])
		}
	}
	if len(args) < 2 || args[0] != "--" {
		return c, nil, errors.New("confine: expected -- and a command")
	}
	return c, args[1:], nil
}

// Within is the confinement of an agent that works in a folder of Spaces, and sees no other there.
func (c *Confinement) Within(space string) *Confinement {
	if c == nil || c.Spaces == "" {
		return c
	}
	own := *c
	own.Space = space
	return &own
}

// Account are the variables that name the user.
func (c *Confinement) Account(env []string) []string {
	if c == nil || c.User == nil {
		return env
	}
	env = slices.DeleteFunc(env, func(pair string) bool { // places of the user that this process is
		return strings.HasPrefix(pair, "XDG_") || strings.HasPrefix(pair, "SSH_AUTH_SOCK=") || strings.HasPrefix(pair, "MAIL=")
	})
	return append(env, "HOME="+c.User.Home, "USER="+c.User.Name, "LOGNAME="+c.User.Name)
}

// Own gives a tree that this process made to the agents' user. No process of an agent runs in it yet, or it is reached
// through an os.Root.
// Links are given away themselves and not followed (Lchown).
func (c *Confinement) Own(tree string) error {
	if c == nil || c.User == nil {
		return nil
	}
	return filepath.WalkDir(tree, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(c.User.UID), int(c.User.GID))
	})
}

// Withheld returns a function that reports whether agents are kept from an entry of a tree, by its path below the tree: the entry
// is protected, or its mode keeps the agents' user out.
func (c *Confinement) Withheld(tree string) func(path string, info fs.FileInfo) bool {
	if c == nil {
		return func(string, fs.FileInfo) bool { return false }
	}
	tree = RealPath(tree)
	var secrets []string
	for _, path := range c.Protect {
		secrets = append(secrets, RealPath(path))
	}
	return func(path string, info fs.FileInfo) bool {
		path = filepath.Join(tree, path)
		return slices.ContainsFunc(secrets, func(secret string) bool { return Inside(secret, path) }) || c.User != nil && !c.User.reads(info)
	}
}

// reads reports whether the user may read a file or list a folder, by its mode.
func (u *User) reads(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	switch {
	case !ok || info.Mode()&fs.ModeSymlink != 0:
		return true
	case stat.Uid == u.UID:
		return mode&0o400 != 0
	case stat.Gid == u.GID || slices.Contains(u.Groups, stat.Gid):
		return mode&0o040 != 0
	}
	return mode&0o004 != 0
}

// Readable runs a shell as an agent would run, and returns what of the paths it can read, and what of the directories it
// cannot work in.
// serve calls it at its start and refuses to run with agents that can read its secrets: that a confinement is
// configured does not show that it holds.
func (c *Confinement) Readable(paths, dirs []string) (readable, unusable []string, err error) {
	// It prints r:PATH for what can be read: a file of which the first byte comes, a directory that can be listed and
	// in which some file gives a byte. Names alone are no secret, and an empty file in the place of another gives none.
	// w:PATH is printed for a directory that cannot be written to or entered.
	const script = `for f; do case $f in r:*) f=${f#r:}; if [ -d "$f" ]; then ls "$f" >/dev/null 2>&1 && [ -n "$(find "$f" -type f -exec head -c 1 {} \; 2>/dev/null | head -c 1)" ] && echo "r:$f"
else [ "$(head -c 1 "$f" 2>/dev/null | wc -c)" -gt 0 ] && echo "r:$f"; fi ;; w:*) f=${f#w:}; [ -w "$f" ] && [ -x "$f" ] || echo "w:$f" ;; esac; done; true`
	args := []string{"-c", script, "sh"}
	for _, path := range paths {
		args = append(args, "r:"+path)
	}
	for _, dir := range dirs {
		args = append(args, "w:"+dir)
	}
	cmd := c.Wrap(exec.Command("/bin/sh", args...))
	cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH")}, "/"
	lines, err := linesOf(cmd)
	if err != nil {
		return nil, nil, err
	}
	for _, line := range lines {
		kind, path, _ := strings.Cut(line, ":")
		if kind == "r" {
			readable = append(readable, path)
		} else {
			unusable = append(unusable, path)
		}
	}
	return readable, unusable, nil
}

// Writable starts a shell as an agent would run, and returns those of the files that it could open for writing. None of them
// is changed.
func (c *Confinement) Writable(files []string) ([]string, error) {
	if c == nil || len(files) == 0 {
		return nil, nil
	}
	const script = `for f; do if [ -d "$f" ]; then continue; fi; (exec 3>>"$f") 2>/dev/null && echo "$f"; done; true`
	cmd := c.Wrap(exec.Command("/bin/sh", slices.Concat([]string{"-c", script, "sh"}, files)...))
	cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH")}, "/"
	return linesOf(cmd)
}

// linesOf runs a trial of what an agent can do, and returns the lines that it prints.
func linesOf(cmd *exec.Cmd) (lines []string, err error) {
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			err = errors.New(strings.TrimSpace(string(exit.Stderr))) // the helper's reason
		}
		return nil, fmt.Errorf("an agent's process cannot be started confined: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return lines, nil
}

// Confine mounts, applies Landlock to this process and becomes the command. It returns only with an error. What Landlock
// allows is all there is at this moment but the protected paths; in the directories above those nothing new can be made.
//
// Landlock has no rule that takes a path away; it allows lists of paths. So everything is allowed that is there,
// beside the protected ones, level by level.
func (c *Confinement) Confine(command []string) error {
	runtime.LockOSThread() // capabilities and the command are this thread's
	if c.Apart {
		if err := c.mount(); err != nil {
			return fmt.Errorf("confine: %w", err)
		}
	}
	rules := c.rules()
	// What this kernel does not know is left out (BestEffort). Whether secrets are out of reach is tried for that
	// reason (Readable) and not taken from here.
	if err := landlock.V5.BestEffort().RestrictPaths(rules...); err != nil {
		return fmt.Errorf("confine: %w", err)
	}
	// Signals and abstract sockets to processes outside, where the kernel can keep them away.
	if err := landlock.V6.BestEffort().RestrictScoped(); err != nil {
		return fmt.Errorf("confine: %w", err)
	}
	path, err := exec.LookPath(command[0])
	if err == nil {
		err = errors.Join(dropCapabilities(), unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	}
	if err != nil {
		return fmt.Errorf("confine: %w", err)
	}
	return fmt.Errorf("confine: %s: %w", command[0], syscall.Exec(path, command, os.Environ()))
}

// dropCapabilities takes from root what passes Landlock by: kernels let a process that may watch the machine's performance read
// another process's environment, disks, modules and device nodes are files by another way, and a raw socket reads the token
// on its way over loopback. The caller becomes the command on this thread, and only this thread's sets count then.
// Which ones: those that reach around the file system, to other processes' memory, or to the kernel.
//
// An account other than root has capabilities only in a namespace of its own, and keeps none: with them it could lift what was
// hidden there.
func dropCapabilities() error {
	if os.Geteuid() != 0 {
		return dropAll()
	}
	for _, c := range []uintptr{
		unix.CAP_PERFMON, unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE, unix.CAP_BPF, unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO, unix.CAP_MKNOD,
		unix.CAP_DAC_READ_SEARCH, unix.CAP_CHECKPOINT_RESTORE, unix.CAP_SYS_BOOT, unix.CAP_NET_RAW, unix.CAP_NET_ADMIN,
	} {
		// A kernel that does not know one has nothing to drop.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("capabilities: %w", err)
		}
	}
	var sets [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	sets[0].Inheritable, sets[1].Inheritable = 0, 0
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}
