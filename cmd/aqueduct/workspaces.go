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
		return "this kernel has no Landlock"
	}
	whole, err := filepath.Abs(spaces)
	if err == nil {
		err = os.MkdirAll(whole, 0o711) // agents of another account pass through
	}
	if err != nil {
		return err.Error()
	}
	homes := realPaths(homesOf(c))
	below := func(path string) bool {
		return slices.ContainsFunc(homes, func(dir string) bool { return child.Inside(dir, path) })
	}
	c.Spaces = whole
	// A mount hides the names of the folders too. Whether this system lets a namespace be made for it is tried.
	if c.SpacesMounted = c.User == nil; c.SpacesMounted {
		trial, err := os.MkdirTemp(whole, ".trial-")
		if err == nil {
			cmd := c.Within(trial).Wrap(exec.Command("/bin/sh", "-c", ":"))
			cmd.Dir = "/"
			err = cmd.Run()
			_ = os.Remove(trial) // it is empty
		}
		if c.SpacesMounted = err == nil; err == nil {
			return ""
		}
	}
	if below(realPaths([]string{whole})[0]) {
		c.Spaces = ""
		return "it lies below the home of the account that agents run as, or below the temporary folder, and no mount namespace can be made"
	}
	return ""
}
