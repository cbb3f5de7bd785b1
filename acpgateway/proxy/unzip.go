package proxy

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// directoryBytes bounds what is read to list an archive: its entries are held in memory
// before they can be counted.
const directoryBytes = 4 << 20

// unzip puts what is in an archive below a directory of root. All is looked at before
// anything is written.
// An archive is data from elsewhere: its list is read under a bound, judged as a whole, and extracted below an
// os.Root.
func unzip(root *os.Root, target string, from *os.File, most archive) error {
	size, err := from.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	meter := &metered{from: from, left: directoryBytes}
	listed, err := zip.NewReader(meter, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // we tell which, below
		return fmt.Errorf("the archive cannot be read: %w", err)
	}
	// What is read from here on are the entries, each under its own bound.
	meter.opened = true
	if err := acceptable(listed.File, most); err != nil {
		return err
	}
	if err := root.MkdirAll(target, 0o755); err != nil {
		return err
	}
	below, err := root.OpenRoot(target)
	if err != nil {
		return err
	}
	defer below.Close()
	for _, f := range listed.File {
		if err := extract(below, f); err != nil {
			return fmt.Errorf("%.200q: %w", f.Name, err)
		}
	}
	return nil
}

// acceptable refuses an archive for any entry that has no business in it.
func acceptable(files []*zip.File, most archive) error {
	if len(files) > most.files {
		return fmt.Errorf("the archive has more than %d files", most.files)
	}
	left := uint64(most.unpacked)
	for _, f := range files {
		switch mode := f.Mode(); {
		case strings.ContainsAny(f.Name, "\\\x00") || !filepath.IsLocal(f.Name):
			return fmt.Errorf("%.200q: %w", f.Name, errEscape)
		case !mode.IsRegular() && !mode.IsDir():
			// A link could lead out by way of others, whatever its own target.
			return fmt.Errorf("%.200q is a link or a device; an archive may only have files and directories", f.Name)
		case f.UncompressedSize64 > left:
			return fmt.Errorf("the archive holds more than %d MiB", most.unpacked>>20)
		}
		left -= f.UncompressedSize64
	}
	return nil
}

// extract writes one entry. Its mode is taken over without write access for others and always with the owner's own: an
// archive could otherwise leave files that the next start cannot replace.
func extract(root *os.Root, f *zip.File) error {
	name := filepath.Clean(f.Name)
	if f.Mode().IsDir() {
		return root.MkdirAll(name, 0o755)
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	// Inputs are placed again at each start of an agent, so a file of the last time is written over.
	out, err := openRegular(root, name, os.O_WRONLY|os.O_CREATE, f.Mode().Perm()&0o755|0o600)
	if err != nil {
		return err
	}
	if err = out.Truncate(0); err == nil {
		err = inflate(out, in, f.UncompressedSize64)
	}
	return errors.Join(err, out.Close())
}

// inflate writes no more than the archive's list has promised: only that was looked at.
func inflate(out io.Writer, in io.Reader, promised uint64) error {
	n, err := io.Copy(out, io.LimitReader(in, int64(promised)+1))
	if err == nil && uint64(n) > promised {
		err = errors.New("it is larger than the archive says")
	}
	return err
}

// metered gives only so much until the archive is opened.
// archive/zip reads the whole list before it returns, so the bound has to stand below it.
type metered struct {
	from   io.ReaderAt
	left   int
	opened bool
}

// ReadAt implements io.ReaderAt.
func (m *metered) ReadAt(b []byte, at int64) (int, error) {
	if !m.opened {
		if m.left -= len(b); m.left < 0 {
			return 0, fmt.Errorf("its list is larger than %d MiB", directoryBytes>>20)
		}
	}
	return m.from.ReadAt(b, at)
}
