//go:build unix

package sqlite

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"aqueduct/store"
)

// reserveSize is the room that a deletion on a full disk needs. SQLite writes the pages of a deletion to its log, which it
// writes back every 1000 pages (4 MiB), and one part of a deletion is 2 MiB of rows with the pages around them
// (sqldb.purgeBytes). The rest is for events that wait to be committed: their writers try again in the same moment.
const reserveSize = 32 << 20

const (
	// reserveLeast is what other writes leave free on the disk while there is no reserve, so that the next deletion finds room too.
	reserveLeast = reserveSize / 2
	// endingLeast is what they leave free for endingTime after a write of a deletion. The Run that the deletion cancels has
	// to commit its end before its thread can be deleted.
	endingLeast = reserveSize / 4
	endingTime  = 5 * time.Second
)

// reserve is a file beside the database that only takes room. A deletion that finds the disk full deletes it, because SQLite
// needs room for its log before it can free any.
type reserve struct {
	path string

	making  sync.Mutex
	held    atomic.Bool
	deleted atomic.Int64 // when a deletion last wrote, in nanoseconds
}

// hold makes the file if it is missing and as much again stays free. With less there would be no room for the log: after a
// deletion on a full disk the server works in the room that the reserve took. It returns no error: a server without a
// reserve works as well until its disk is full, and the next beat tries again.
func (r *reserve) hold() {
	if r.held.Load() {
		return
	}
	r.making.Lock()
	defer r.making.Unlock()
	if is, err := os.Stat(r.path); err == nil && is.Size() == reserveSize {
		r.held.Store(true)
	} else if r.free() >= 2*reserveSize {
		r.held.Store(r.make() == nil)
	}
}

// free is the room on the disk, or more than there can be where that cannot be known.
func (r *reserve) free() uint64 {
	var disk syscall.Statfs_t
	if syscall.Statfs(filepath.Dir(r.path), &disk) != nil {
		return math.MaxUint64
	}
	return disk.Bavail * uint64(disk.Bsize)
}

// admit refuses a write that would take the room of the next deletion.
func (r *reserve) admit(deleting bool) error {
	switch {
	case r.held.Load():
		return nil
	case deleting:
		r.deleted.Store(time.Now().UnixNano())
		return nil
	}
	least := uint64(reserveLeast)
	if time.Since(time.Unix(0, r.deleted.Load())) < endingTime {
		least = endingLeast
	}
	if r.free() < least {
		return fmt.Errorf("%w: the rest is for deletions", store.ErrFull)
	}
	return nil
}

// make allocates the blocks and syncs them. A file of another size, which a crash may leave, is made again.
func (r *reserve) make() error {
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(allocate(f, reserveSize), f.Sync(), f.Close())
	if err != nil {
		_ = os.Remove(r.path) // a part of it is of no use
	}
	return err
}

// giveUp deletes the file and reports whether that made room.
func (r *reserve) giveUp() bool {
	r.making.Lock()
	defer r.making.Unlock()
	r.held.Store(false)
	r.deleted.Store(time.Now().UnixNano())
	return os.Remove(r.path) == nil
}

// fill writes n bytes that are not all zeros, so that no file system keeps a hole instead of them.
func fill(f *os.File, n int64) error {
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i)
	}
	for ; n > 0; n -= int64(len(block)) {
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	return nil
}
