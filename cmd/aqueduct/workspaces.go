// Agents of one --acp-workspaces are kept apart: each sees its own folder there and no other's.

package main

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"aqueduct/internal/child"
)

// apart has a confinement keep agents out of each other's folders below spaces. Where it cannot, it logs that.
func (f *confineFlags) apart(c *child.Confinement, spaces string, log *slog.Logger) bool {
	if spaces == "" {
		return true
	}
	because := "they run unconfined"
	if c != nil {
		if because = separate(c, spaces); because == "" {
			return true
		}
	}
	log.Warn("agents can reach the folders of other threads in the directory of workspaces", slog.String("directory", spaces), slog.String("because", because))
	return false
}

// separate adds the folder of workspaces to a confinement, or returns the reason why that cannot hold.
func separate(c *child.Confinement, spaces string) (because string) {
	if len(c.Helper) == 0 {
		return "the account that they run as is all that keeps them from files"
	}
	whole, err := filepath.Abs(spaces)
	if err == nil {
		err = os.MkdirAll(whole, 0o711) // agents of another account pass through
	}
	if err != nil {
		return err.Error()
	}
	c.Spaces = whole
	// A mount hides the names of the folders too. Whether this system lets a namespace be made for it is tried.
	if c.User == nil {
		mounted := *c
		mounted.Apart, mounted.SpacesMounted = true, true
		if tryWithin(&mounted) == nil {
			*c = mounted
			return ""
		}
	}
	below := func(dir string) bool { return child.Inside(dir, child.RealPath(whole)) }
	switch {
	case !child.LandlockWorks():
		because = "this kernel has no Landlock, and no mount namespace can be made"
	case slices.ContainsFunc(realPaths(homesOf(c)), below):
		because = "it lies below the home of the account that agents run as, or below the temporary folder, and no mount namespace can be made"
	default:
		return ""
	}
	c.Spaces = ""
	return because
}

// tryWithin starts a process in a folder of workspaces, which is removed then.
func tryWithin(c *child.Confinement) error {
	trial, err := os.MkdirTemp(c.Spaces, ".trial-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(trial) }() // it is empty
	cmd := c.Within(trial).Wrap(exec.Command("/bin/sh", "-c", ":"))
	cmd.Dir = "/"
	return cmd.Run()
}
