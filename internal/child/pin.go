package child

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Landlock keeps a file by granting nothing in the folders above it, which an agent's home or temporary folder cannot be. A
// file below one of them is pinned instead, in a mount namespace of the agent's own: the file is mounted over itself
// read-only, and each folder from there on over itself. A mount point cannot be renamed or removed in its namespace.

// namespaced gives a command a mount namespace of its own, in which its helper may mount.
func (c *Confinement) namespaced(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNS
	if os.Geteuid() == 0 {
		return
	}
	// An ordinary user may mount in a user namespace alone, where it keeps its id.
	same := func(id int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
	}
	cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
	cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = same(os.Geteuid()), same(os.Getegid())
	cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
}

// mounts reports whether the confinement needs a mount namespace.
func (c *Confinement) mounts() bool { return len(c.Pinned) > 0 || c.Space != "" && c.SpacesMounted }

// mount mounts the agent's space and the pinned files, in the mount namespace of this process.
func (c *Confinement) mount() error {
	if !c.mounts() {
		return nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return err
	}
	// These mounts must not reach other namespaces.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	if c.Space != "" && c.SpacesMounted {
		if err := mountSpace(realPath(c.Spaces), realPath(c.Space)); err != nil {
			return err
		}
	}
	if err := pin(c.Pinned, c.Used); err != nil {
		return err
	}
	// The folder that the process came with is that below the mounts, from which a relative path would lead around them.
	if err := os.Chdir(wd); err != nil {
		return err
	}
	return dropMounting()
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

// pin mounts each file over itself read-only, and the folders above it up to the one of used that it lies in.
func pin(files, used []string) error {
	var dirs []string
	for _, file := range files {
		for dir := filepath.Dir(file); dir != "/" && slices.ContainsFunc(used, func(root string) bool { return dir != realPath(root) && Inside(realPath(root), dir) }); dir = filepath.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	// The outer ones first, because a mount covers those below its place.
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for _, place := range slices.Concat(slices.Compact(dirs), files) {
		if err := unix.Mount(place, place, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mount %s: %w", place, err)
		}
	}
	for _, file := range files {
		if err := unix.MountSetattr(unix.AT_FDCWD, file, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("mount %s: %w", file, err)
		}
	}
	return nil
}

// dropMounting drops the capabilities of the user namespace, on the thread that becomes the command.
func dropMounting() error {
	if os.Geteuid() == 0 {
		return nil // dropCapabilities takes it
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
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
