// The state folder: where a server keeps its database, blobs, keys and token. Every command finds it here.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kballard/go-shellquote"
	"golang.org/x/sys/unix"

	"aqueduct/internal/child"
	"aqueduct/internal/ownfile"
	"aqueduct/store/sqlite"
)

// stateFlags name the state folder, and the two of its files that flags can put elsewhere. Every command that uses a file of
// a server embeds them, so that all commands find the same files.
type stateFlags struct {
	State          ownfile.Secret `help:"Folder of the database, blobs, keys and token. When not given: that of the SQLite file of --database, else $STATE_DIRECTORY, else /var/lib/aqueduct where it is writable, else $XDG_STATE_HOME/aqueduct (~/.local/state/aqueduct)." placeholder:"DIR"`
	Database       databaseFlag   `help:"sqlite:PATH or postgres://…; aqueduct.db in the state folder when not given." placeholder:"DATABASE"`
	SigningKeyFile ownfile.Secret `help:"File that holds the key tokens are signed with; made on first use. signing.key in the state folder when not given." placeholder:"FILE"`

	dir   string // the state folder, absolute and without links; State is as it was named, absolute
	named bool   // by --state
}

const (
	databaseName   = "aqueduct.db"
	signingKeyName = "signing.key"
	// stateLockName is locked by the server that runs on a state folder, and holds its address.
	stateLockName = "server.lock"
	// systemState is the state folder of a service of the machine.
	systemState = "/var/lib/aqueduct"
	// earlierState is the default folder of versions before 0.9, in the working directory.
	earlierState = "data"
	// stateLockWait is how long a start waits for the server before it to end, as it waits for a SQLite file.
	stateLockWait = sqlite.DefaultLockWait
	// stateLockPoll is how often the lock is tried meanwhile.
	stateLockPoll = 50 * time.Millisecond
)

// AfterApply implements kong's hook. It makes no folder: most commands only read.
func (f *stateFlags) AfterApply(set *settings) error {
	alias, err := string(f.State), error(nil)
	f.named = alias != ""
	if path, ok := f.Database.file(); alias == "" && ok {
		alias = filepath.Dir(path)
	}
	if alias == "" {
		alias, err = defaultState(os.Getenv)
	}
	if err == nil {
		alias, err = filepath.Abs(alias)
	}
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	f.State, f.dir = ownfile.Secret(alias), child.RealPath(alias)
	noDatabase, noKey := f.Database == "", f.SigningKeyFile == ""
	if noDatabase {
		f.Database = databaseFlag("sqlite:" + f.in(databaseName))
	}
	if noKey {
		f.SigningKeyFile = ownfile.Secret(f.in(signingKeyName))
	}
	set.earlier = func() error { return f.leftEarlier(noDatabase, noKey) }
	return nil
}

// in returns the path of a file of the state folder.
func (f *stateFlags) in(name string) string { return filepath.Join(f.dir, name) }

// defaultState returns the state folder of commands that are given none.
func defaultState(env func(string) string) (string, error) {
	if list := env("STATE_DIRECTORY"); list != "" { // systemd's, with a colon between several
		first, _, _ := strings.Cut(list, ":")
		return first, nil
	}
	if writable(systemState) {
		return systemState, nil
	}
	// The XDG specification says that relative paths are ignored.
	if base := env("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "aqueduct"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".local", "state", "aqueduct"), nil
}

// writable reports whether this process can write to a folder, or make it.
func writable(dir string) bool {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		dir = filepath.Dir(dir)
	}
	return unix.Access(dir, unix.W_OK|unix.X_OK) == nil
}

// leftEarlier refuses to begin anew beside the state of an earlier version, which lay in ./data. A start that took another
// folder would show none of the threads that were there. Who names a new state folder may leave the old one, unless that lies
// in it, as in the volume of an image.
func (f *stateFlags) leftEarlier(noDatabase, noKey bool) error {
	old, err := filepath.Abs(earlierState)
	if err != nil {
		return nil
	}
	if old = child.RealPath(old); old == f.dir || f.named && !child.Inside(f.dir, old) {
		return nil
	}
	_, lite := f.Database.file()
	for _, file := range []struct {
		name  string
		there bool // the command uses the one of the state folder
		flag  string
	}{
		{databaseName, noDatabase && !f.named, "--state " + shellquote.Join(old)},
		{signingKeyName, noKey, "--signing-key-file " + shellquote.Join(filepath.Join(old, signingKeyName))},
		{sealingKeyName, !lite, "--state " + shellquote.Join(old)},
	} {
		if !file.there || !exists(filepath.Join(old, file.name)) || exists(f.in(file.name)) {
			continue
		}
		to := shellquote.Join(f.dir)
		return fmt.Errorf("%s is of an earlier version, and the state folder is %s now. Move what is there: mkdir -p -m 700 %s && mv %s/* %s/ ; or go on where it is: %s",
			filepath.Join(earlierState, file.name), f.dir, to, shellquote.Join(old), to, file.flag)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// stateLock is the claim of a server to its state folder. The kernel gives the lock back when the process ends, however it
// ends.
type stateLock struct{ file *os.File }

// claim makes the state folder and locks it. One state serves one server: two would sign in, seal and audit by the same files
// and fence each other.
func (f *stateFlags) claim(ctx context.Context, say io.Writer) (*stateLock, error) {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	give, said := time.NewTimer(stateLockWait), false
	defer give.Stop()
	again := time.NewTicker(stateLockPoll)
	defer again.Stop()
	for {
		file, err := locked(f.in(stateLockName), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return &stateLock{file}, file.Truncate(0)
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, fmt.Errorf("--state: %w", err)
		}
		if !said {
			said = true
			fmt.Fprintf(say, "aqueduct: a server runs on the state folder %s; waiting %s for its end\n", f.dir, stateLockWait)
		}
		select {
		case <-again.C:
		case <-give.C:
			return nil, fmt.Errorf("another server runs on the state folder %s: end it, or give this one a folder of its own by --state DIR", f.dir)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// serves writes down where the server is reached, for commands that look for it.
func (l *stateLock) serves(url string) error {
	_, err := l.file.WriteAt([]byte(url+"\n"), 0)
	return err
}

// release lets the next server in.
func (l *stateLock) release() { _ = l.file.Close() }

// server returns where the server of this state folder is reached, or "" where none runs.
func (f *stateFlags) server() string {
	path := f.in(stateLockName)
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	// A lock that can be taken is of a server that has ended.
	if file, err := locked(path, syscall.LOCK_SH|syscall.LOCK_NB); err == nil {
		_ = file.Close()
		return ""
	}
	return strings.TrimSpace(string(raw))
}
