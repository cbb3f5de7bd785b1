// Package disk keeps blobs as files of one folder.
//
// A file that has its name is whole and durable. That takes four steps in order: the bytes are synced, the file is
// renamed, its folder is synced, and the folder's own name was synced before. A crash between two of them leaves what
// Delete finds by the id.
package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"aqueduct/store/blob"
)

// Store keeps each blob in a file of its own. Files are spread over 256 folders by the end of their ids, whose beginning is the time.
type Store struct{ folder string }

// The files hold what agents and users keep, so they are their owner's alone.
const (
	folderMode = 0o700
	fileMode   = 0o600
	// unfinished ends the name of a file that is being written.
	unfinished = ".tmp"
)

// Open makes the folder where there is none.
func Open(folder string) (*Store, error) {
	if err := os.MkdirAll(folder, folderMode); err != nil {
		return nil, err
	}
	return &Store{folder: folder}, nil
}

var _ blob.Store = (*Store)(nil)

func (s *Store) path(id string) string {
	return filepath.Join(s.folder, id[max(0, len(id)-2):], id)
}

// Put implements blob.Store. The file gets its name when its bytes are on the disk, and the name is on the disk when Put
// returns: a crash leaves an unfinished file, which Delete finds by the id, or a whole one.
func (s *Store) Put(_ context.Context, id string, data []byte) error {
	path := s.path(id)
	if err := s.makeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	err := writeSynced(path+unfinished, data)
	if err == nil {
		err = os.Rename(path+unfinished, path)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(path+unfinished))
	}
	return syncFolder(filepath.Dir(path))
}

// makeFolder makes one of the 256. Its own name has to be on the disk before a file in it is.
func (s *Store) makeFolder(path string) error {
	err := os.Mkdir(path, folderMode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncFolder(s.folder)
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncFolder has the names in a folder survive a crash, as fsync of a file has its bytes.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Open implements blob.Store.
func (s *Store) Open(_ context.Context, id string, size int64) (io.ReadSeekCloser, error) {
	f, err := os.Open(s.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", blob.ErrNotFound, id)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() != size {
		err = fmt.Errorf("disk: blob %s has %d bytes, not %d", id, info.Size(), size)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Delete implements blob.Store. The folder is not synced: a file that a crash brings back is deleted again, because its row
// is deleted only afterwards.
func (s *Store) Delete(_ context.Context, id string) error {
	path := s.path(id)
	var failed error
	for _, name := range []string{path + unfinished, path} {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}
