// The folder of one run of aqueduct mcp --wrap: its database and policy, which are gone with the run. Locks of files
// show which runs live.

package main

import (
	"os"
	"path/filepath"
	"syscall"
)

// runFolder makes the folder of one run of aqueduct mcp --wrap, and removes those of runs that were killed. The kernel gives a
// run's lock back with its process, however that ends. The lock of the state keeps a folder from being removed between its
// making and its locking.
func runFolder(state string) (folder string, held *os.File, err error) {
	all, err := locked(filepath.Join(state, "lock"), syscall.LOCK_EX)
	if err != nil {
		return "", nil, err
	}
	defer all.Close()
	left, _ := filepath.Glob(filepath.Join(state, "run-*")) // the pattern is good
	for _, dir := range left {
		if lock, err := locked(filepath.Join(dir, "lock"), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			_ = os.RemoveAll(dir) // what stays is tried again by the next run
			_ = lock.Close()
		}
	}
	if folder, err = os.MkdirTemp(state, "run-"); err != nil {
		return "", nil, err
	}
	held, err = locked(filepath.Join(folder, "lock"), syscall.LOCK_EX|syscall.LOCK_NB)
	return folder, held, err
}

// locked opens a file and locks it; closing it gives the lock back.
func locked(path string, how int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), how); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}
