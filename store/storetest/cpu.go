package storetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of CPU time in /proc, the same on every Linux Go runs on.
const clockTick = 10 * time.Millisecond

// CPU is what this process has used so far.
func CPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it fails for bad arguments only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// PostgresCPU is what the server of Postgres has used so far, with all its processes,
// those that have ended too. It is 0 while no test has started one.
func PostgresCPU() (time.Duration, error) {
	if !started.Load() {
		return 0, nil
	}
	srv, err := server()
	if err != nil {
		return 0, err
	}
	pidFile, err := os.ReadFile(filepath.Join(srv.dir, "data", "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(pidFile), "\n")
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, path := range stats {
		p, err := processStat(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it ended meanwhile; its parent counts it then
		}
		if err != nil {
			return 0, err
		}
		if p.pid == line {
			sum += p.own + p.ended
		} else if p.parent == line {
			sum += p.own
		}
	}
	return sum, nil
}

type process struct {
	pid, parent string
	own, ended  time.Duration
}

// processStat reads a stat file of proc(5).
func processStat(path string) (process, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return process{}, err
	}
	text := string(b)
	// The name in parentheses may hold anything, so count from its end.
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return process{}, fmt.Errorf("storetest: %s: %q", path, text)
	}
	ticks := make([]int64, 4) // user, system; of ended children: user, system
	for i := range ticks {
		if ticks[i], err = strconv.ParseInt(fields[11+i], 10, 64); err != nil {
			return process{}, fmt.Errorf("storetest: %s: %w", path, err)
		}
	}
	pid, _, _ := strings.Cut(text, " ")
	return process{pid: pid, parent: fields[1], own: time.Duration(ticks[0]+ticks[1]) * clockTick,
		ended: time.Duration(ticks[2]+ticks[3]) * clockTick}, nil
}
