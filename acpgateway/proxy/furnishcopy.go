package proxy

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
)

// copyBytes and copyFiles bound a workspace that is copied: a project with its dependencies is smaller, and a disk is larger.
const (
	copyBytes = 32 << 30
	copyFiles = 2_000_000
)

// copySource copies the source into a draft, which no agent reaches yet. Links stay links. It leaves out files that are not
// regular, protected files, and files that the agents' account could not read in the source: the copy belongs to that account.
func copySource(ctx context.Context, cfg Config, draft string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, errors.New("the copy took too long"))
	defer cancel()
	from, err := os.OpenRoot(cfg.Source)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := os.Mkdir(draft, 0o700); err != nil {
		return err
	}
	to, err := os.OpenRoot(draft)
	if err != nil {
		return err
	}
	defer to.Close()
	withheld := cfg.Confine.Withheld(cfg.Source)
	most := &budget{bytes: copyBytes, files: copyFiles}
	return fs.WalkDir(from.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || path == "." {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if withheld(path, info) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if err := most.take(info); err != nil {
			return err
		}
		return copyEntry(from, to, path, info)
	})
}

// copyEntry copies one entry of a source.
func copyEntry(from, to *os.Root, path string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return to.Mkdir(path, info.Mode().Perm()|0o700)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := from.Readlink(path)
		if err != nil {
			return err
		}
		return to.Symlink(target, path)
	}
	f, err := openRegular(from, path, os.O_RDONLY, 0)
	if errors.Is(err, errIrregular) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return put(to, path, io.LimitReader(f, info.Size()), info.Mode().Perm())
}
