package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

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

// placeOne puts one input below its target root, with the agent's rights: new files belong to the agent, and a file that the agent
// could not write stays as it is.
func (ws *workspaces) placeOne(ctx context.Context, w workspace, item wire.AgentInput) error {
	base := w
	switch item.Target.Root {
	case "WORKSPACE", "":
	case "USER_HOME":
		if ws.cfg.Home == "" {
			return errors.New("USER_HOME is not given to agents here")
		}
		base = workspace{root: ws.cfg.Home}
		if err := ws.ensureOwned(base); err != nil {
			return err
		}
	default:
		return fmt.Errorf("target root %q is unknown", item.Target.Root)
	}
	if !filepath.IsLocal(item.Target.Path) {
		return errEscape
	}
	return ws.apply(ctx, w, item, fileRequest{Root: base.root, Path: filepath.Clean(item.Target.Path)})
}

// apply does one of the four ways of the contract: a text that is written, an archive that is downloaded and unpacked,
// a file or tree of this host that is copied, or one that is linked to. Any other pair is refused with both its names.
func (ws *workspaces) apply(ctx context.Context, w workspace, item wire.AgentInput, r fileRequest) error {
	ctx, cancel := context.WithTimeoutCause(ctx, inputTime, errInputTime)
	defer cancel()
	switch {
	case item.Apply == "writeFile" && item.Source.Type == "inlineText":
		r.Do = writeFile
		return ws.work(ctx, w, r, strings.NewReader(item.Source.Text), nil)
	case item.Apply == "downloadExtract" && item.Source.Type == "httpZip":
		return ws.bring(ctx, w, item.Source, r)
	case item.Source.Type != "hostPath":
	case item.Apply == "copy":
		source, err := ws.source(w, item.Source.Path)
		if err != nil {
			return err
		}
		return ws.copy(ctx, w, source, r)
	case item.Apply == "bindMount":
		source, err := ws.source(w, item.Source.Path)
		if err != nil {
			return err
		}
		r.Do, r.To = linkFile, source.path
		return ws.work(ctx, w, r, nil, nil)
	}
	return fmt.Errorf("%s from %s is not supported", item.Apply, item.Source.Type)
}

// inputTime bounds one input beside its download: the start of the agent waits for it.
const inputTime = downloadTimeout + openTimeout

var errInputTime = fmt.Errorf("it took longer than %s", inputTime)

// work has the helper do a request of which nothing comes back.
func (ws *workspaces) work(ctx context.Context, w workspace, r fileRequest, content io.Reader, archive *os.File) error {
	_, err := ws.launch.of(w).fileWork(ctx, r, content, archive)
	return err
}

// copy copies a file or a tree of this host. A source in the workspace is read with the agent's rights, because the agent may have
// made it a link to a file that it cannot read. The roots of the flags are the operator's, and this process reads them.
func (ws *workspaces) copy(ctx context.Context, w workspace, source found, r fileRequest) error {
	if source.own {
		r.Do, r.FromRoot, r.From = copyFile, source.root, source.rel
		return ws.work(ctx, w, r, nil, nil)
	}
	r.Do = unpackFile
	read, write := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := pack(ctx, source, write)
		_ = write.CloseWithError(err) // always nil
		packed <- err
	}()
	err := ws.work(ctx, w, r, read, nil)
	_ = read.Close() // pack may still be writing
	if failed := <-packed; failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
		return failed
	}
	return err
}

// bring downloads an archive and puts what is in it below target.
func (ws *workspaces) bring(ctx context.Context, w workspace, source wire.InputSource, r fileRequest) error {
	most := archiveMost().packed
	if ws.cfg.DownloadMost > 0 {
		most = min(most, ws.cfg.DownloadMost)
	}
	file, err := download(ctx, source.URI, source.ContentHash, most)
	if err != nil {
		return err
	}
	defer file.Close()
	r.Do = unzipFile
	return ws.work(ctx, w, r, nil, file)
}

// found is where an input is taken from.
type found struct {
	path      string // as it was named
	root, rel string // the same with all links followed: the root it is in, and where there
	own       bool   // in the workspace
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
	for i, root := range slices.Concat([]string{w.root}, ws.cfg.InputRoots) {
		if root, rel, ok := within(root, path); ok {
			return found{path, root, rel, i == 0}, nil
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
	from, most := root.FS(), inputMost()
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
		f, err := openRegular(root, path, os.O_RDONLY, 0)
		if errors.Is(err, errIrregular) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		if err := most.take(info); err != nil {
			return err
		}
		return put(to, at, io.LimitReader(f, info.Size()), info.Mode().Perm())
	})
}
