package proxy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"aqueduct/acpgateway/wire"
	"aqueduct/internal/child"
)

// place puts the agent's inputs where they belong, and nowhere else.
// Inputs come from the gateway's configuration, and their content perhaps from anywhere: all writing goes through an
// os.Root, which no link or ".." leaves.
func (ws *workspaces) place(ctx context.Context, w workspace, inputs *wire.AgentInputs) error {
	if inputs == nil {
		return nil
	}
	for _, item := range inputs.Items {
		if err := ws.placeOne(ctx, w, item); err != nil {
			return fmt.Errorf("agent input %q: %w", item.ID, err)
		}
	}
	return nil
}

// placeOne puts one input below its target root. What it makes belongs to the agents' user, with the directories above
// it: an agent must be able to write beside its own configuration.
func (ws *workspaces) placeOne(ctx context.Context, w workspace, item wire.AgentInput) error {
	base := w
	switch item.Target.Root {
	case "WORKSPACE", "":
	case "USER_HOME":
		if ws.cfg.Home == "" {
			return errors.New("USER_HOME is not given to agents here")
		}
		base = workspace{root: ws.cfg.Home}
		if err := base.ensure(); err != nil {
			return err
		}
	default:
		return fmt.Errorf("target root %q is unknown", item.Target.Root)
	}
	if !filepath.IsLocal(item.Target.Path) {
		return errEscape
	}
	target := filepath.Clean(item.Target.Path)
	root, err := os.OpenRoot(base.root)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if err := ws.apply(ctx, root, w, item, target); err != nil {
		return err
	}
	return ws.cfg.Confine.OwnIn(root, target)
}

// apply does one of the four ways of the contract: a text that is written, an archive that is downloaded and unpacked,
// a file or tree of this host that is copied, or one that is linked to. Any other pair is refused with both its names.
func (ws *workspaces) apply(ctx context.Context, root *os.Root, w workspace, item wire.AgentInput, target string) error {
	switch {
	case item.Apply == "writeFile" && item.Source.Type == "inlineText":
		return root.WriteFile(target, []byte(item.Source.Text), 0o644)
	case item.Apply == "downloadExtract" && item.Source.Type == "httpZip":
		return ws.bring(ctx, root, item.Source, target)
	case item.Source.Type != "hostPath":
	case item.Apply == "copy":
		source, err := ws.source(w, item.Source.Path)
		if err != nil {
			return err
		}
		return copyInto(root, source, target)
	case item.Apply == "bindMount":
		source, err := ws.source(w, item.Source.Path)
		if err != nil {
			return err
		}
		return relink(root, source.path, target)
	}
	return fmt.Errorf("%s from %s is not supported", item.Apply, item.Source.Type)
}

// bring downloads an archive and puts what is in it below target.
func (ws *workspaces) bring(ctx context.Context, root *os.Root, source wire.InputSource, target string) error {
	most := archiveMost()
	if ws.cfg.DownloadMost > 0 {
		most.packed = min(most.packed, ws.cfg.DownloadMost)
	}
	file, err := download(ctx, source.URI, source.ContentHash, most.packed)
	if err != nil {
		return err
	}
	defer file.Close()
	return unzip(root, target, file, most)
}

// found is where an input is taken from.
type found struct {
	path      string // as it was named
	root, rel string // the same with all links followed: the root it is in, and where there
}

// source allows what is in the workspace or in one of the roots set for it.
func (ws *workspaces) source(w workspace, path string) (found, error) {
	// A relative path and one below /workspace mean the run's own workspace, any other is one of this host.
	if !filepath.IsAbs(path) || child.Inside(guestRoot, path) && !child.Inside(w.root, path) {
		rel, err := w.rel(path)
		if err != nil {
			return found{}, err
		}
		path = filepath.Join(w.root, rel)
	}
	for _, root := range slices.Concat([]string{w.root}, ws.cfg.InputRoots) {
		if root, rel, ok := within(root, path); ok {
			return found{path, root, rel}, nil
		}
	}
	return found{}, fmt.Errorf("source: %w", errEscape)
}

// relink makes or replaces a link of ours; it never replaces a file.
func relink(root *os.Root, source, target string) error {
	if info, err := root.Lstat(target); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if err := root.Remove(target); err != nil {
			return err
		}
	}
	// Where anything but a link is, this fails.
	return root.Symlink(source, target)
}

// copyInto copies a file or a tree. Links in it are left out: they may lead anywhere. What is
// read is read below the source's root, so that one that was put there since it was looked at
// leads nowhere either.
func copyInto(to *os.Root, source found, target string) error {
	root, err := os.OpenRoot(source.root)
	if err != nil {
		return err
	}
	defer root.Close()
	from := root.FS()
	return fs.WalkDir(from, source.rel, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(source.rel, path)
		if err != nil {
			return err
		}
		at := filepath.Join(target, rel)
		info, err := entry.Info()
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir():
			if made, err := to.Stat(target); err == nil && rel != "." && os.SameFile(made, info) {
				return fs.SkipDir // the copy, in what it is a copy of
			}
			return to.MkdirAll(at, 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		data, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		return to.WriteFile(at, data, info.Mode().Perm())
	})
}
