//go:build unix

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"aqueduct/store"
)

// lockPoll is how often a locked file is tried again.
const lockPoll = 50 * time.Millisecond

// fileLock is held from Open to Close, and by the kernel's doing no longer than the
// process lives. It lies beside the database, because closing any handle of the
// database file itself would drop the locks SQLite has on it.
type fileLock struct{ f *os.File }

// lockFile takes the lock, waiting for as long as wait. flock is asked again and again, because a blocking one could not
// be given up.
func lockFile(ctx context.Context, path string, wait time.Duration) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	give := time.NewTimer(wait)
	defer give.Stop()
	again := time.NewTicker(lockPoll)
	defer again.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return &fileLock{f}, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("sqlite: lock %s: %w", path, err), f.Close())
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("%w: %s: %w", store.ErrLocked, path, ctx.Err()), f.Close())
		case <-give.C:
			return nil, errors.Join(fmt.Errorf("%w: %s", store.ErrLocked, path), f.Close())
		}
	}
}

// release lets the next one in; doing it again does nothing.
func (l *fileLock) release() error {
	if err := l.f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
