// The policy file in force, which may be edited while the server runs. A file that is bad never takes effect: the one
// before stays.

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"time"

	"aqueduct/policy"
)

// policyEvery is how often the policy file is looked at. It is polled: what notifies of
// changes does not where files are mounted, as in containers.
const policyEvery = 2 * time.Second

// policyFile is the policy file in force and what is known of it. After openPolicy the goroutine of watch owns all
// but holder, which has its own lock.
type policyFile struct {
	path    string
	holder  *policy.Holder
	log     *slog.Logger
	content []byte // last tried
	tried   stamp  // of content
	seen    stamp  // when last looked at
	unread  bool   // it is there and cannot be read

	// record keeps that the policy with a hash is in force; nil keeps nothing.
	record   func(ctx context.Context, sha256 string) error
	recorded bool // the content in force is in the audit
}

// stamp shows that a file has changed. Two writes within the clock's resolution that leave the size the same are
// missed; the next change finds them.
type stamp struct {
	mtime time.Time
	size  int64
}

// openPolicy reads the file; a bad one at the start is an error. Without a path it is the default, for good. At the
// start an error is better than rules that the operator did not write; later the old ones stay.
func openPolicy(path string, log *slog.Logger) (*policyFile, error) {
	f := &policyFile{path: path, holder: policy.NewHolder(policy.Default()), log: log}
	if path == "" {
		return f, nil
	}
	at, err := stampOf(path)
	if err == nil {
		f.content, err = os.ReadFile(path)
	}
	if err == nil {
		err = f.holder.Replace(f.content)
	}
	if err != nil {
		return nil, fmt.Errorf("--policy-file %s: %w", path, err)
	}
	f.tried, f.seen = at, at
	return f, nil
}

// watch puts changes of the file in force until ctx ends. A bad file is reported in the log
// and leaves the old one.
func (f *policyFile) watch(ctx context.Context) error {
	tick := time.NewTicker(policyEvery)
	defer tick.Stop()
	for {
		f.begin(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if f.path != "" && f.recorded {
			f.look(ctx)
		}
	}
}

// begin records the policy that the server has started with, once the database takes it.
func (f *policyFile) begin(ctx context.Context) {
	if f.recorded {
		return
	}
	err := f.keep(ctx, f.content)
	if f.recorded = err == nil; err != nil && ctx.Err() == nil {
		f.log.Warn("the policy in force is not in the audit yet", slog.Any("error", err))
	}
}

// keep records that a content is in force.
func (f *policyFile) keep(ctx context.Context, content []byte) error {
	if f.record == nil {
		return nil
	}
	hash := ""
	if content != nil {
		hash = fmt.Sprintf("%x", sha256.Sum256(content))
	}
	return f.record(ctx, hash)
}

// look tries the file when it is another than the one tried last and has not changed since
// the last look: half a file can be a policy too, one without its last rules.
func (f *policyFile) look(ctx context.Context) {
	at, err := stampOf(f.path)
	if err != nil {
		// seen is emptied below, so that a missing file is logged once, and one that comes back is looked at twice
		// before it counts.
		if f.seen != (stamp{}) {
			f.refuse(err)
		}
		f.seen = stamp{}
		return
	}
	still := at == f.seen // so it was complete at the last look, or its writer has paused for two seconds
	if f.seen = at; !still || at == f.tried {
		return
	}
	f.tried = at
	f.replace(ctx)
}

// replace reads the file and puts it in force. Content that is the same again (a touch, a copy of the mount) changes
// nothing and logs nothing.
func (f *policyFile) replace(ctx context.Context) {
	content, err := os.ReadFile(f.path)
	if err != nil {
		f.tried = stamp{} // again at the next look, but logged once
		if !f.unread {
			f.refuse(err)
		}
		f.unread = true
		return
	}
	if f.unread = false; bytes.Equal(content, f.content) {
		return
	}
	// Noted also where it is bad, so that a touch of the same bad file is not logged again.
	f.content = content
	next, err := policy.ParseFile(content)
	if err != nil {
		f.refuse(err)
		return
	}
	// Nothing comes in force that is not in the audit.
	if err := f.keep(ctx, content); err != nil {
		f.content, f.tried = nil, stamp{} // again at the next look
		f.refuse(fmt.Errorf("it cannot be recorded: %w", err))
		return
	}
	f.holder.Set(next)
	f.log.Info("the policy file has changed and is in force", slog.String("file", f.path))
}

// refuse reports that the file is not in force, in capitals: an operator who edited rules believes they hold.
func (f *policyFile) refuse(err error) {
	f.log.Error("THE POLICY FILE IS NOT IN FORCE: it is bad, the one before stays", slog.String("file", f.path), slog.Any("error", err))
}

// stampOf is the stamp of a file as it is now.
func stampOf(path string) (stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}, err
	}
	return stamp{info.ModTime(), info.Size()}, nil
}
