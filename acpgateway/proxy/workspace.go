package proxy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"aqueduct/internal/child"
)

// guestRoot is how the contract calls a run's workspace, wherever it is.
const guestRoot = "/workspace"

// errEscape is a path that leads out of where it belongs.
var errEscape = errors.New("the path is outside the workspace")

// workspace is the directory a run may touch through us. The agent's own process is not held
// back by it: that is a sandbox's task (wrap the command in one).
type workspace struct {
	root   string
	shared bool // all runs work in it; it is never removed
}

// checkRunID refuses what could not be a directory's name.
func checkRunID(id string) error {
	if id == "" || len(id) > 200 || id == "." || id == ".." || strings.ContainsAny(id, "/\\:\x00") {
		return fmt.Errorf("run_id %.40q cannot be used", id)
	}
	return nil
}

// of is the workspace of a run. It need not exist yet; checkRunID has made sure that the id is one directory's name.
func (ws *workspaces) of(runID string) workspace {
	if ws.cfg.Workspaces == "" {
		return workspace{root: ws.cfg.Cwd, shared: true}
	}
	return workspace{root: filepath.Join(ws.cfg.Workspaces, runID)}
}

// ensure makes the directory.
func (w workspace) ensure() error {
	if w.shared {
		return nil
	}
	return os.MkdirAll(w.root, 0o700)
}

// rel turns a path of the contract or of an agent into one below the root.
// /workspace is the contract's name for it, which agents and gateways use although no such directory exists here.
func (w workspace) rel(path string) (string, error) {
	// Unless the workspaces themselves lie below a directory of that name.
	if rest, ok := strings.CutPrefix(path, guestRoot); ok && (rest == "" || rest[0] == '/') && !child.Inside(w.root, path) {
		path = strings.TrimLeft(rest, "/")
	}
	if filepath.IsAbs(path) {
		var err error
		if path, err = filepath.Rel(w.root, path); err != nil {
			return "", errEscape
		}
	}
	if path = filepath.Clean(path); !filepath.IsLocal(path) {
		return "", errEscape
	}
	return path, nil
}

// dir finds a directory to work in. os.Root refuses links that lead out.
func (w workspace) dir(path string) (string, error) {
	rel, err := w.rel(path)
	if err != nil {
		return "", fmt.Errorf("cwd: %w", err)
	}
	root, err := os.OpenRoot(w.root)
	if err != nil {
		return "", fmt.Errorf("cwd: %w", err)
	}
	defer root.Close()
	info, err := root.Stat(rel)
	if err != nil {
		return "", fmt.Errorf("cwd: %w", err)
	}
	if !info.IsDir() {
		return "", errors.New("cwd: not a directory")
	}
	return filepath.Join(w.root, rel), nil
}

// within is child.Inside when all links are followed, and where path is below root then.
// It is for paths that may hold links, where comparing texts would be fooled.
// A path that is not there has no place to follow, and is refused.
func within(root, path string) (realRoot, rel string, ok bool) {
	realRoot, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", "", false
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", "", false
	}
	rel, err = filepath.Rel(realRoot, path)
	return realRoot, rel, err == nil && filepath.IsLocal(rel)
}
