package child

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// rules are those of Landlock for this confinement.
func (c *Confinement) rules() []landlock.Rule {
	var b ruleMaker
	for _, path := range c.Protect {
		if !slices.Contains(c.Hide, path) { // nothing of a hidden one is there
			b.hidden = append(b.hidden, RealPath(path))
		}
	}
	if os.Geteuid() == 0 {
		b.hidden = append(b.hidden, blockDevices()...)
	}
	for _, path := range c.ReadOnly {
		// Of a link the link itself is kept, so only its folder is looked up.
		b.readOnly = append(b.readOnly, filepath.Join(RealPath(filepath.Dir(path)), filepath.Base(path)))
	}
	if c.Space != "" && !c.SpacesMounted {
		b.hidden = append(b.hidden, RealPath(c.Spaces))
		b.rules = append(b.rules, landlock.RWDirs(RealPath(c.Space)).WithRefer().WithIoctlDev().IgnoreIfMissing())
	}
	b.beside("/")
	return b.rules
}

// ruleMaker makes rules for all that is there beside the paths that are hidden or read-only.
type ruleMaker struct {
	hidden, readOnly []string
	rules            []landlock.Rule
}

// beside adds rules for all below a directory but the hidden and read-only paths. The directories above those can be listed.
func (b *ruleMaker) beside(dir string) {
	b.rules = append(b.rules, landlock.PathAccess(llsys.AccessFSReadDir, dir).IgnoreIfMissing())
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // the agent cannot read the folder either
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		switch {
		case entry.Type()&os.ModeSymlink != 0:
			// A link's target has a rule of its own, or must have none.
		case slices.Contains(b.hidden, path):
		case slices.Contains(b.readOnly, path):
			if !entry.IsDir() {
				b.rules = append(b.rules, landlock.ROFiles(path).IgnoreIfMissing())
			}
		case slices.ContainsFunc(slices.Concat(b.hidden, b.readOnly), func(h string) bool { return Inside(path, h) }):
			b.beside(path)
		case entry.IsDir():
			b.rules = append(b.rules, landlock.RWDirs(path).WithRefer().WithIoctlDev().IgnoreIfMissing())
		default:
			b.rules = append(b.rules, landlock.RWFiles(path).WithIoctlDev().IgnoreIfMissing())
		}
	}
}
