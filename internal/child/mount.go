package child

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Landlock allows paths and takes none away, so it cannot keep a folder from an agent that writes to the folder above. There
// the agent starts in a mount namespace, in which an empty folder lies over the one that is hidden. Making that takes a user
// namespace, which any account may have where the kernel lets it. An agent keeps its user id in it, and can get at the
// server by none of the ways that a process of the same account has otherwise:
//
//   - /proc/PID/environ, mem, root and fd, ptrace and setns of the server need capabilities in the server's user namespace;
//   - the agent has none to lift the mount, and in a namespace that it makes itself the kernel has the mount locked, alone
//     and under a bind of the folder above;
//   - a folder above could be renamed, and a false state put into its place for the next start. So each folder above is
//     mounted over itself: a mount point is neither renamed nor removed.
//
// A file that agents may read and must not change is mounted over itself read-only. Of a folder of workspaces an agent sees its own
// folder alone: an empty folder lies over the others.
//
// What else the account owns stays the agent's, and sockets of services that run commands for the account. Those of systemd
// and of the session bus are hidden too (sessionSockets).

// emptyFolder are the flags and options of what lies over a hidden folder.
const (
	emptyFolderFlags   = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	emptyFolderOptions = "size=4k,mode=0555"
)

// ownNamespaces start a process in a user and a mount namespace of its own, with the user ids of this process.
// Root keeps all of its ids, so that an agent of root can still install packages; another account can have only its own.
func ownNamespaces() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		// exec takes the capabilities of the new namespace from another account than root, unless they are ambient. The first
		// mounts; the next two reach folders whose modes an agent has changed; the last clears all of them.
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_SETPCAP},
	}
	if os.Geteuid() == 0 {
		attr.UidMappings, attr.GidMappings = sameIDs("/proc/self/uid_map"), sameIDs("/proc/self/gid_map")
		attr.GidMappingsEnableSetgroups = true
		return attr
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	return attr
}

// sameIDs maps each id of this process's namespace to itself. A file that cannot be read maps none, and the start fails.
func sameIDs(file string) (ids []syscall.SysProcIDMap) {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close() // it was only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var first, above, size int
		if _, err := fmt.Sscan(lines.Text(), &first, &above, &size); err == nil {
			ids = append(ids, syscall.SysProcIDMap{ContainerID: first, HostID: first, Size: size})
		}
	}
	return ids
}

// mount makes the mounts of this confinement. The process has a mount namespace of its own.
//
// The working directory is entered anew at the end: a process that stays in the folder below a mount sees, by relative paths,
// what the mount covers.
func (c *Confinement) mount() error {
	work, err := os.Getwd()
	if err != nil {
		return err
	}
	hidden, pinned := realPaths(c.Hide), realPaths(c.Pinned)
	kept := slices.Concat(hidden, pinned)
	if c.SpacesMounted {
		kept = append(kept, RealPath(c.Spaces))
	}
	// What is mounted here must not reach the namespace above; what is mounted there later may come here.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("mounts of its own: %w", err)
	}
	for _, dir := range above(kept) {
		if err := hold(dir, false); err != nil {
			return err
		}
	}
	for _, path := range outermost(append(hidden, sessionSockets()...)) {
		if err := cover(path); err != nil {
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	if c.SpacesMounted && c.Space != "" {
		if err := mountSpace(RealPath(c.Spaces), RealPath(c.Space)); err != nil {
			return err
		}
	}
	for _, path := range outermost(pinned) {
		if err := hold(path, true); err != nil {
			return err
		}
	}
	// Root could name a program there that the kernel starts outside of all namespaces, as in core_pattern.
	if os.Geteuid() == 0 {
		if err := hold("/proc/sys", true); err != nil {
			return err
		}
	}
	return os.Chdir(work)
}

func realPaths(paths []string) (found []string) {
	for _, path := range paths {
		found = append(found, RealPath(path))
	}
	return found
}

// hold mounts a path over itself, so that it can be neither renamed nor removed, nor, where it is readOnly, changed.
func hold(path string, readOnly bool) error {
	err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, "")
	if err == nil && readOnly {
		err = unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	}
	if err != nil {
		return fmt.Errorf("hold %s: %w", path, err)
	}
	return nil
}

// cover lays an empty folder or file over a path.
func cover(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return unix.Mount("tmpfs", path, "tmpfs", emptyFolderFlags, emptyFolderOptions)
	}
	return unix.Mount("/dev/null", path, "", unix.MS_BIND, "")
}

// mountSpace mounts an empty folder over spaces, and in it the one space.
func mountSpace(spaces, space string) error {
	kept, err := unix.Open(space, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", space, err)
	}
	defer unix.Close(kept) //nolint:errcheck // nothing was written
	if err := unix.Mount("none", spaces, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=64k"); err != nil {
		return fmt.Errorf("mount %s: %w", spaces, err)
	}
	if err := os.MkdirAll(space, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", kept), space, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s: %w", space, err)
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, spaces, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("mount %s: %w", spaces, err)
	}
	return nil
}

// above returns each folder that lies over one of the paths, the root apart, the highest first.
func above(paths []string) (dirs []string) {
	for _, path := range paths {
		for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	return slices.Compact(dirs)
}

// outermost leaves out paths that lie below another one: over that is an empty folder.
func outermost(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		return slices.ContainsFunc(paths, func(over string) bool { return over != path && Inside(over, path) })
	})
}

// sessionSockets are those by which systemd and the session's bus start a command for this account, outside of the agent's
// namespaces.
func sessionSockets() (found []string) {
	run := fmt.Sprintf("/run/user/%d", os.Geteuid())
	places := []string{filepath.Join(run, "bus"), filepath.Join(run, "systemd")}
	if os.Geteuid() == 0 {
		places = append(places, "/run/systemd/private", "/run/dbus/system_bus_socket")
	}
	for _, path := range places {
		if _, err := os.Lstat(path); err == nil {
			found = append(found, RealPath(path))
		}
	}
	return found
}

// dropAll leaves this thread no capability, and none to what it becomes.
func dropAll() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("capabilities: %w", err)
	}
	var none [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}
