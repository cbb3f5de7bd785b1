// Package nodetest runs tests that are written in JavaScript under node, and ends them: a browser that does not open, or a
// server that a failed test left behind, must not hold the tests after it.
package nodetest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Patience is how long the tests of one call may take. The slowest take two minutes on two cores, and longer beside others.
const Patience = 5 * time.Minute

// windUp is how long node may take to report and to end what its tests started, once it was asked to end.
const windUp = 10 * time.Second

// Run runs files of tests one after the other and returns node's report, which it shows where a test fails. What a test
// leaves open does not keep node: a hook that failed half-way would otherwise wait for ever for what it had started.
func Run(t testing.TB, env []string, files ...string) string {
	t.Helper()
	return RunWithin(t, Patience, env, files...)
}

// RunWithin is Run with another patience.
func RunWithin(t testing.TB, patience time.Duration, env []string, files ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{"--test", "--test-reporter=spec", "--test-concurrency=1", "--test-force-exit"}, files...)...)
	cmd.Env = append(append(os.Environ(), "FORCE_COLOR=0", "NO_COLOR=1"), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = windUp
	var report bytes.Buffer
	cmd.Stdout, cmd.Stderr = &report, &report
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			t.Fatalf("node --test %s: not over within %s\n%s", strings.Join(files, " "), patience, &report)
		}
		t.Fatalf("node --test %s: %v\n%s", strings.Join(files, " "), err, &report)
	}
	return report.String()
}

// Totals is the part of a report that counts: figures that tests print, and then tests, passed, failed, skipped.
func Totals(report string) string {
	if i := strings.Index(report, "ℹ "); i >= 0 {
		return report[i:]
	}
	return report
}

// Need fails, rather than skips, without something a make target brings: a test that is skipped without notice checks
// nothing.
func Need(t testing.TB, path, target string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is missing; run %q", path, target)
	}
}
