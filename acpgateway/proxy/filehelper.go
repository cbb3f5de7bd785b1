// The helper that touches files for an agent: a start of this program that has the agent's account and confinement, so that the
// kernel refuses what it would refuse the agent itself. It does one request and ends.

package proxy

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// FilesArgument is the first argument by which this program is that helper.
const FilesArgument = "agent-files"

// fileRequest is the first line of the helper's input; the rest of the input is content.
type fileRequest struct {
	Do   fileAction `json:"do"`
	Root string     `json:"root"` // nothing outside of it is touched
	Path string     `json:"path"` // in Root
	// FromRoot and From name the source of a copy: its folder, and the path in it.
	FromRoot string `json:"from_root,omitempty"`
	From     string `json:"from,omitempty"`
	// To is where a link leads.
	To string `json:"to,omitempty"`
}

type fileAction string

const (
	readFile   fileAction = "read"
	writeFile  fileAction = "write"  // the content is the input's rest
	unpackFile fileAction = "unpack" // a tree, as pack writes it
	unzipFile  fileAction = "unzip"  // descriptor 3 is the archive
	copyFile   fileAction = "copy"
	linkFile   fileAction = "link"
)

// Exit codes of the helper on which the answer to the agent depends.
const (
	exitMissing = 3
	exitLarge   = 4
)

// errIrregular is a pipe, a device or a socket, whose reading or writing may wait for ever or act.
var errIrregular = errors.New("it is not a regular file")

var errLarge = errors.New("the file is too large")

// ServeFiles runs the helper. It returns the exit code of the program, and writes the error to standard error.
func ServeFiles() int {
	err := fileWork(os.Stdin, os.Stdout)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exitMissing
	case errors.Is(err, errLarge):
		return exitLarge
	}
	return 1
}

func fileWork(input io.Reader, out io.Writer) error {
	in := bufio.NewReader(input)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var r fileRequest
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	root, err := os.OpenRoot(r.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	if r.Do != readFile {
		if err := root.MkdirAll(filepath.Dir(r.Path), 0o755); err != nil {
			return err
		}
	}
	switch r.Do {
	case readFile:
		return give(root, r.Path, out)
	case writeFile:
		return put(root, r.Path, in, 0o644)
	case unpackFile:
		return unpack(root, r.Path, in)
	case unzipFile:
		return unzip(root, r.Path, os.NewFile(3, "archive"), archiveMost())
	case copyFile:
		return copyInto(root, found{root: r.FromRoot, rel: r.From}, r.Path)
	case linkFile:
		return relink(root, r.To, r.Path)
	}
	return fmt.Errorf("unknown action %q", r.Do)
}

// openRegular opens a regular file. It never waits: a pipe without another end would hold it up for ever.
func openRegular(root *os.Root, path string, flags int, mode fs.FileMode) (*os.File, error) {
	f, err := root.OpenFile(path, flags|syscall.O_NONBLOCK|syscall.O_NOCTTY, mode)
	if errors.Is(err, syscall.ENXIO) {
		return nil, errIrregular
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errIrregular
	}
	if err != nil {
		_ = f.Close() // nothing was read or written
		return nil, err
	}
	return f, nil
}

// give writes a file's content.
func give(root *os.Root, path string, out io.Writer) error {
	f, err := openRegular(root, path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.Copy(out, io.LimitReader(f, fileBytes+1))
	if err == nil && n > fileBytes {
		err = errLarge
	}
	return err
}

// put replaces a file's content, or makes the file.
func put(root *os.Root, path string, content io.Reader, mode fs.FileMode) error {
	// It is not cut before it is known to be a regular file.
	f, err := openRegular(root, path, os.O_WRONLY|os.O_CREATE, mode)
	if err != nil {
		return err
	}
	if err = f.Truncate(0); err == nil {
		_, err = io.Copy(f, content)
	}
	return errors.Join(err, f.Close())
}

// budget bounds the files and bytes of a copy.
type budget struct {
	bytes int64
	files int
}

// inputMost is the bound of one agent input that is copied, as of one that is unpacked.
func inputMost() *budget {
	most := archiveMost()
	return &budget{bytes: most.unpacked, files: most.files}
}

var errBudget = errors.New("it has more files or bytes than may be copied")

// take counts one entry.
func (b *budget) take(info fs.FileInfo) error {
	b.files--
	if info.Mode().IsRegular() {
		b.bytes -= info.Size()
	}
	if b.files < 0 || b.bytes < 0 {
		return errBudget
	}
	return nil
}

// pack writes a file or a tree for unpack. Links and what is not a regular file are left out.
func pack(ctx context.Context, source found, out io.Writer) error {
	root, err := os.OpenRoot(source.root)
	if err != nil {
		return err
	}
	defer root.Close()
	to, most := tar.NewWriter(out), inputMost()
	err = fs.WalkDir(root.FS(), source.rel, func(path string, entry fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		rel, err := filepath.Rel(source.rel, path)
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir():
			return to.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: rel, Mode: 0o755})
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
		info, err := f.Stat()
		if err == nil {
			err = most.take(info)
		}
		if err == nil {
			err = to.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: rel, Mode: int64(info.Mode().Perm()), Size: info.Size()})
		}
		if err != nil {
			return err
		}
		// A file that shrinks meanwhile makes the stream end short, which Close refuses.
		_, err = io.Copy(to, io.LimitReader(f, info.Size()))
		return err
	})
	return errors.Join(err, to.Close())
}

// unpack puts what pack has written below a path.
func unpack(root *os.Root, target string, in io.Reader) error {
	for from := tar.NewReader(in); ; {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at := filepath.Join(target, h.Name) //nolint:gosec // root opens nothing outside of itself
		if h.Typeflag == tar.TypeDir {
			err = root.MkdirAll(at, 0o755)
		} else {
			err = put(root, at, from, h.FileInfo().Mode().Perm())
		}
		if err != nil {
			return err
		}
	}
}
