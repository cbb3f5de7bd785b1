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
// paths away from a process and all it starts, and keeps it out of the memory of others; and namespaces (hide.go), where
// Landlock cannot take a path away. All hold for whatever runs for an agent: the agent itself, its init script, its
// terminals, git in its folder.

// Confinement is what an agent and all that runs for it are kept from.
//
// A nil Confinement confines nothing; all methods take one.
type Confinement struct {
	User *User
	// Helper is a command that hides paths, applies Landlock and then becomes what follows "--"; see Confine. Without one
	// only User holds.
	Helper []string
	// Protect are files and directories that must not be read.
	Protect []string
	// Apart starts agents in a user and a mount namespace of their own. It needs the helper.
	Apart bool
	// Hide are those of Protect that Landlock cannot take away: there an empty folder, or an empty file, lies in the place of
	// each.
	Hide []string
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

// Replaces returns the first folder above the path in which this account could put other files into the place of those
// that lead to it, or "". A folder with the sticky bit keeps the entries of others.
func (u *User) Replaces(path string) string {
	for at, dir := RealPath(path), ""; at != "/"; at = dir {
		dir = filepath.Dir(at)
		folder, err := os.Stat(dir)
		if err != nil {
			continue
		}
		entry, err := os.Stat(at)
		if err != nil {
			continue
		}
		is, of := folder.Sys().(*syscall.Stat_t), entry.Sys().(*syscall.Stat_t)
		mode := folder.Mode()
		writes := mode.Perm()&0o002 != 0 || mode.Perm()&0o020 != 0 && (is.Gid == u.GID || slices.Contains(u.Groups, is.Gid))
		if is.Uid == u.UID || writes && (mode&os.ModeSticky == 0 || of.Uid == u.UID) {
			return dir
		}
	}
	return ""
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
			args := slices.Clone(c.Helper[1:])
			for _, path := range c.Protect {
				args = append(args, "--protect", path)
			}
			if c.Apart {
				args = append(args, "--apart")
			}
			for _, path := range c.Hide {
				args = append(args, "--hide", path)
			}
			cmd = exec.Command(c.Helper[0], slices.Concat(args, []string{"--", cmd.Path}, cmd.Args[1:])...)
			if c.Apart {
				cmd.SysProcAttr = ownNamespaces()
			}
		}
	}
	if c.User != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.User.UID, Gid: c.User.GID, Groups: c.User.Groups}}
	}
	return cmd
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

// OwnIn gives what was put into a root to the agents' user: the entry, what is below it, and directories above it that were
// made for it. No link is followed out of the root.
func (c *Confinement) OwnIn(root *os.Root, rel string) error {
	if c == nil || c.User == nil {
		return nil
	}
	own := func(path string) error { return root.Lchown(path, int(c.User.UID), int(c.User.GID)) }
	for dir := filepath.Dir(rel); dir != "."; dir = filepath.Dir(dir) {
		if err := own(dir); err != nil {
			return err
		}
	}
	return fs.WalkDir(root.FS(), filepath.ToSlash(rel), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return own(path)
	})
}

// Readable runs a shell as an agent would run, and returns what of the paths it can read, and what of the directories it
// cannot work in.
// serve calls it at its start and refuses to run with agents that can read its secrets: that a confinement is
// configured does not show that it holds.
func (c *Confinement) Readable(paths, dirs []string) (readable, unusable []string, err error) {
	// It prints r:PATH for what can be read: a file of which the first byte comes, a directory that can be listed and
	// in which some file gives a byte. Names alone are no secret, and an empty file in the place of another gives none. w:PATH is printed for a directory that cannot be
	// written to or entered.
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
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			err = errors.New(strings.TrimSpace(string(exit.Stderr))) // the helper's reason
		}
		return nil, nil, fmt.Errorf("an agent's process cannot be started confined: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		kind, path, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		if kind == "r" {
			readable = append(readable, path)
		} else {
			unusable = append(unusable, path)
		}
	}
	return readable, unusable, nil
}

// Confine hides paths, applies Landlock to this process and becomes the command. It returns only with an error. What it
// allows is all there is at this moment but the protected paths; in the directories above those nothing new can be made.
//
// Landlock has no rule that takes a path away; it allows lists of paths. So everything is allowed that is there,
// beside the protected ones, level by level. A hidden path needs no rule: nothing of it is there.
func Confine(c Confinement, command []string) error {
	if len(command) == 0 {
		return errors.New("confine: no command")
	}
	runtime.LockOSThread() // capabilities and the command are this thread's
	if c.Apart {
		if err := hidePaths(c.Hide); err != nil {
			return fmt.Errorf("confine: %w", err)
		}
	}
	var hidden []string
	for _, path := range c.Protect {
		hidden = append(hidden, Links(path)...) // else another folder could be put into the place of the protected one
		if !slices.Contains(c.Hide, path) {
			hidden = append(hidden, RealPath(path))
		}
	}
	if os.Geteuid() == 0 {
		hidden = append(hidden, blockDevices()...)
	}
	rules := allowBeside("/", hidden, nil)
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
// another process's environment, and disks, modules and device nodes are files by another way. The caller becomes the
// command on this thread, and only this thread's sets count then.
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
		unix.CAP_DAC_READ_SEARCH, unix.CAP_CHECKPOINT_RESTORE, unix.CAP_SYS_BOOT,
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

// allowBeside adds rules for all below a directory but what is hidden. The directories above that can be listed.
func allowBeside(dir string, hidden []string, rules []landlock.Rule) []landlock.Rule {
	rules = append(rules, landlock.PathAccess(llsys.AccessFSReadDir, dir).IgnoreIfMissing())
	entries, err := os.ReadDir(dir)
	if err != nil {
		return rules // what cannot be read here the agent cannot read either
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		switch {
		case entry.Type()&os.ModeSymlink != 0 || slices.Contains(hidden, path):
			// A link's target has a rule of its own, or must have none.
		case slices.ContainsFunc(hidden, func(h string) bool { return Inside(path, h) }):
			rules = allowBeside(path, hidden, rules)
		case entry.IsDir():
			rules = append(rules, landlock.RWDirs(path).WithRefer().WithIoctlDev().IgnoreIfMissing())
		default:
			rules = append(rules, landlock.RWFiles(path).WithIoctlDev().IgnoreIfMissing())
		}
	}
	return rules
}
