package ownfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Step is one name that is looked up on the way to a file. An account that may write to the folder can put another file there.
type Step struct {
	Dir  string      // without links
	Name string      // in Dir
	Info fs.FileInfo // of the entry, of a link itself; nil where there is none
}

// Path is the place of the entry.
func (s Step) Path() string { return filepath.Join(s.Dir, s.Name) }

// IsLink reports whether the entry is a symbolic link.
func (s Step) IsLink() bool { return s.Info != nil && s.Info.Mode()&fs.ModeSymlink != 0 }

// maxLinks bounds the links on the way to a file, as the kernel does.
const maxLinks = 40

// errLinks is a path that leads in circles.
var errLinks = errors.New("too many links on the way")

// Steps returns the names that are looked up on the way to a path, every link among them. The last is the file itself. Where a
// folder is missing, the last is the first name that is not there.
func Steps(path string) ([]Step, error) {
	// filepath.Abs would take ".." away as text, where the kernel follows a link before it.
	whole := path
	if !filepath.IsAbs(path) {
		wd, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		whole = wd + "/" + path
	}
	var steps []Step
	dir, rest := "/", whole
	for links := 0; ; {
		rest = strings.TrimLeft(rest, "/")
		if rest == "" {
			return steps, nil
		}
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		switch name {
		case ".":
			continue
		case "..":
			dir = filepath.Dir(dir)
			continue
		}
		step := Step{Dir: dir, Name: name}
		var err error
		if step.Info, err = os.Lstat(step.Path()); err != nil {
			step.Info = nil
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return append(steps, step), err
		}
		steps = append(steps, step)
		if !step.IsLink() {
			dir = step.Path()
			continue
		}
		if links++; links > maxLinks {
			return nil, errLinks
		}
		target, err := os.Readlink(step.Path())
		if err != nil {
			return nil, err
		}
		if filepath.IsAbs(target) {
			dir = "/"
		}
		rest = target + "/" + rest
	}
}

// Account is a user of this machine with its groups, by which the kernel decides what a process may write.
type Account struct {
	UID    uint32
	Groups []uint32
}

// Self is the account of this process.
func Self() Account {
	a := Account{UID: uint32(os.Geteuid()), Groups: []uint32{uint32(os.Getegid())}}
	groups, _ := os.Getgroups() // without them the account may do less
	for _, id := range groups {
		a.Groups = append(a.Groups, uint32(id))
	}
	return a
}

// Replaces reports whether the account can put another file in the place of a step, or change the file.
func (a Account) Replaces(s Step) bool {
	dir, err := os.Lstat(s.Dir)
	if err != nil {
		return true // unknown counts as yes
	}
	if s.Info != nil && !s.IsLink() && !s.Info.IsDir() && a.writes(s.Info) {
		return true
	}
	if !a.writes(dir) {
		return false
	}
	// In a folder like /tmp only the owners of entry and folder may take an entry away.
	return dir.Mode()&fs.ModeSticky == 0 || s.Info == nil || a.UID == 0 || a.UID == owner(s.Info) || a.UID == owner(dir)
}

// writes reports whether the account may write to a file or folder, or may give itself that right as its owner.
func (a Account) writes(info fs.FileInfo) bool {
	if a.UID == 0 || a.UID == owner(info) {
		return true
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		for _, group := range a.Groups {
			// An ACL of other accounts shows as the group's bits.
			if group == stat.Gid && info.Mode().Perm()&0o020 != 0 {
				return true
			}
		}
	}
	return info.Mode().Perm()&0o002 != 0
}

// May reports whether the account, which is not root, may pass through a folder, or write to anything else, by its mode.
func (a Account) May(info fs.FileInfo) bool {
	bit := fs.FileMode(0o2)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return true
	case info.IsDir():
		bit = 0o1
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	switch {
	case !ok:
		return true
	case stat.Uid == a.UID:
		return mode&(bit<<6) != 0
	case slices.Contains(a.Groups, stat.Gid):
		return mode&(bit<<3) != 0
	}
	return mode&bit != 0
}

func owner(info fs.FileInfo) uint32 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Uid
	}
	return 0
}

// OpenTo returns the first place on the way to a file that other accounts of the machine can write to, "" for none: a folder, or
// the file itself. strict counts the modes of the file and its folder although a folder above keeps others out now.
func OpenTo(steps []Step, strict bool) string {
	const group, others fs.FileMode = 0o010, 0o001
	reach := group | others // the classes that can get to the folder
	open := func(mode fs.FileMode, strict bool) bool {
		return mode.Perm()&0o022 != 0 && (strict || mode.Perm()>>1&reach != 0)
	}
	for i, s := range steps {
		dir, err := os.Lstat(s.Dir)
		last := i == len(steps)-1
		if err != nil || dir.Mode()&fs.ModeSticky == 0 && open(dir.Mode(), strict && last) {
			return s.Dir
		}
		if dir.Mode()&others == 0 { // only members of the group can pass it
			reach &= group & dir.Mode().Perm()
		}
		if last && s.Info != nil && !s.IsLink() && !s.Info.IsDir() && open(s.Info.Mode(), strict) {
			return s.Path()
		}
	}
	return ""
}
