package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// draftPrefix begins the names of workspaces that are being made. A run has none of that name.
const draftPrefix = ".draft-"

// furnish makes a run's workspace, if it is not there, and returns where in it the agent works: a worktree of the source's
// repository, or else a copy of the source. It gets its name when it is whole: a proxy that is killed halfway leaves a draft,
// which the next attempt removes.
func (p *Proxy) furnish(ctx context.Context, w workspace, runID string) (dir string, err error) {
	if w.shared {
		return "", nil
	}
	if _, err := os.Lstat(w.root); errors.Is(err, fs.ErrNotExist) {
		defer func() { p.now(p.workspaceInventory()) }() // people are told where an agent works before the next list is due
	}
	if p.cfg.Source == "" {
		return "", p.ensureOwned(w)
	}
	p.furnishing.Lock()
	defer p.furnishing.Unlock()
	// What git says of the source comes first: the agent works at the same place in the repository as it would there.
	var prefix string
	inGit := errOwnUser
	if !p.ownUser() {
		prefix, inGit = p.git(ctx, "rev-parse", "--show-prefix")
	}
	if inGit == nil {
		dir = strings.TrimSpace(prefix)
		_, inGit = p.git(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}") // without a commit there is nothing to check out
	}
	if inGit != nil {
		dir = ""
	}
	if _, err := os.Lstat(w.root); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	if err := p.makeWorkspaces(); err != nil {
		return "", err
	}
	draft := filepath.Join(p.cfg.Workspaces, draftPrefix+runID)
	if err := p.clear(ctx, draftPrefix+runID); err != nil {
		return "", err
	}
	if inGit == nil {
		if _, err = p.git(ctx, "worktree", "add", "--detach", "--quiet", draft, "HEAD"); err == nil {
			_, err = p.git(ctx, "worktree", "move", draft, w.root)
		}
	} else if err = os.CopyFS(draft, os.DirFS(p.cfg.Source)); err == nil {
		if err = p.cfg.Confine.own(draft); err == nil {
			err = os.Rename(draft, w.root)
		}
	}
	if err != nil {
		return "", fmt.Errorf("workspace: %w", errors.Join(err, p.clear(context.WithoutCancel(ctx), draftPrefix+runID)))
	}
	return dir, nil
}

// errOwnUser is why the agents of a user of their own get a copy: a worktree shares the source's .git, which they would have
// to write to, and whose configuration names commands that git runs for whoever uses it.
var errOwnUser = errors.New("the agents have a user of their own")

func (p *Proxy) ownUser() bool { return p.cfg.Confine != nil && p.cfg.Confine.User != nil }

// makeWorkspaces makes the directory of workspaces, which agents of another user pass through.
func (p *Proxy) makeWorkspaces() error {
	mode := os.FileMode(0o700)
	if p.ownUser() {
		mode = 0o711
	}
	return os.MkdirAll(p.cfg.Workspaces, mode)
}

// ensureOwned makes an empty workspace.
func (p *Proxy) ensureOwned(w workspace) error {
	if _, err := os.Lstat(w.root); err == nil {
		return nil
	}
	if err := p.makeWorkspaces(); err != nil {
		return err
	}
	if err := w.ensure(); err != nil {
		return err
	}
	return p.cfg.Confine.own(w.root)
}

// clear removes a directory below the workspaces, and what git knows of it as a worktree.
func (p *Proxy) clear(ctx context.Context, name string) error {
	root, err := os.OpenRoot(p.cfg.Workspaces)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.RemoveAll(name); err != nil || p.cfg.Source == "" || p.ownUser() {
		return err
	}
	_, _ = p.git(ctx, "worktree", "prune", "--expire=now") // the source need not be git's
	return nil
}

// git runs a command on the source's repository, without its hooks: an agent may have written some.
func (p *Proxy) git(ctx context.Context, args ...string) (stdout string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, errors.New("git took too long"))
	defer cancel()
	cmd := p.gitCommand(p.cfg.Source, slices.Concat(ofRepository, args)...)
	var stderr string
	exit, err := runGroup(ctx, cmd, tailOf(&stdout), tailOf(&stderr))
	if err == nil && (exit.Signal != nil || *exit.ExitCode != 0) {
		err = fmt.Errorf("git %s: %s", args[0], cmp.Or(strings.TrimSpace(stderr), "failed"))
	}
	return stdout, err
}
