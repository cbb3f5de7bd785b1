package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// draftPrefix begins the names of workspaces that are being made. A run has none of that name.
const draftPrefix = ".draft-"

// workspaces makes, measures and removes the directories of runs.
// A worktree costs no copy of the history and lets a push find the repository's remotes.
type workspaces struct {
	cfg     Config
	log     *slog.Logger
	launch  *launcher
	changed func() // announces a new workspace

	furnishing sync.Mutex // while a workspace is made or removed: git locks its repository, and fails instead of waiting

	mu    sync.Mutex
	sizes map[string]int64 // by run; as found last
}

// populate makes a run's workspace, if it is not there, and returns where in it the agent works: a worktree of the source's
// repository, or else a copy of the source. It gets its name when it is whole: a proxy that is killed halfway leaves a draft,
// which the next attempt removes.
//
// The draft is renamed when all is there: an agent must never start in half a copy, and a directory that has its name
// is not looked into again.
func (ws *workspaces) populate(ctx context.Context, w workspace, runID string) (dir string, err error) {
	if w.shared {
		return "", nil
	}
	if _, err := os.Lstat(w.root); errors.Is(err, fs.ErrNotExist) {
		defer ws.changed() // clients learn where an agent works before the next list is due
	}
	if ws.cfg.Source == "" {
		return "", ws.ensureOwned(w)
	}
	ws.furnishing.Lock()
	defer ws.furnishing.Unlock()
	// Git is asked about the source first: the agent works at the same place in the repository as it would there.
	// Also for a workspace that is there already: its agent works at that place below it each time.
	var prefix string
	inGit := errOwnUser
	if !ws.launch.ownUser() {
		prefix, inGit = ws.git(ctx, "rev-parse", "--show-prefix")
	}
	if inGit == nil {
		dir = strings.TrimSpace(prefix)
		_, inGit = ws.git(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}") // without a commit there is nothing to check out
	}
	if inGit != nil {
		dir = ""
	}
	if _, err := os.Lstat(w.root); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	if err := ws.makeRoot(); err != nil {
		return "", err
	}
	draft := filepath.Join(ws.cfg.Workspaces, draftPrefix+runID)
	if err := ws.clear(ctx, draftPrefix+runID); err != nil {
		return "", err
	}
	if inGit == nil {
		if _, err = ws.git(ctx, "worktree", "add", "--detach", "--quiet", draft, "HEAD"); err == nil {
			// Git keeps the path of each worktree, so it has to do the renaming: moved by another, the worktree would
			// be pruned.
			_, err = ws.git(ctx, "worktree", "move", draft, w.root)
		}
	} else if err = copySource(ctx, ws.cfg, draft); err == nil {
		if err = ws.cfg.Confine.Own(draft); err == nil {
			err = os.Rename(draft, w.root)
		}
	}
	if err != nil {
		// The draft goes also when the start was given up, and ctx has ended.
		return "", fmt.Errorf("workspace: %w", errors.Join(err, ws.clear(context.WithoutCancel(ctx), draftPrefix+runID)))
	}
	return dir, nil
}

// errOwnUser is why the agents of a user of their own get a copy: a worktree shares the source's .git, which they would have
// to write to, and whose configuration names commands that git runs for any user of it.
var errOwnUser = errors.New("the agents have a user of their own")

// ownUser reports whether agents run as another user than this process.
func (la *launcher) ownUser() bool { return la.cfg.Confine != nil && la.cfg.Confine.User != nil }

// makeRoot makes the directory of workspaces, which agents of another user pass through.
func (ws *workspaces) makeRoot() error {
	mode := os.FileMode(0o700)
	if ws.launch.ownUser() {
		mode = 0o711
	}
	return os.MkdirAll(ws.cfg.Workspaces, mode)
}

// ensureOwned makes an empty workspace.
func (ws *workspaces) ensureOwned(w workspace) error {
	if _, err := os.Lstat(w.root); err == nil {
		return nil
	}
	if w.root != ws.cfg.Home {
		if err := ws.makeRoot(); err != nil {
			return err
		}
	}
	if err := w.ensure(); err != nil {
		return err
	}
	return ws.cfg.Confine.Own(w.root)
}

// clear removes a directory below the workspaces, and what git knows of it as a worktree.
func (ws *workspaces) clear(ctx context.Context, name string) error {
	// Below a root, because an agent may have put links where its directories were.
	root, err := os.OpenRoot(ws.cfg.Workspaces)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.RemoveAll(name); err != nil || ws.cfg.Source == "" || ws.launch.ownUser() {
		return err
	}
	_, _ = ws.git(ctx, "worktree", "prune", "--expire=now") // the source need not be git's
	return nil
}

// git runs a command on the source's repository, without its hooks: an agent may have written some.
func (ws *workspaces) git(ctx context.Context, args ...string) (stdout string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, errors.New("git took too long"))
	defer cancel()
	cmd := ws.launch.gitCommand(ws.cfg.Source, slices.Concat(ofRepository, args)...)
	var stderr string
	exit, err := runGroup(ctx, cmd, tailOf(&stdout), tailOf(&stderr))
	if err == nil && (exit.Signal != nil || *exit.ExitCode != 0) {
		err = fmt.Errorf("git %s: %s", args[0], cmp.Or(strings.TrimSpace(stderr), "failed"))
	}
	return stdout, err
}
