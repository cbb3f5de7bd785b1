package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the kernel's unit in /proc/PID/stat: 100 a second on every Linux we run on.
const clockTick = 10 * time.Millisecond

// cpuOf is what a process and all its descendants have used, those that have ended and
// were waited for included.
func cpuOf(pid int) (time.Duration, error) {
	used, err := statCPU(pid)
	if err != nil {
		return 0, err
	}
	children, err := childrenOf(pid)
	if err != nil {
		return 0, err
	}
	for _, child := range children {
		if c, err := cpuOf(child); err == nil { // gone meanwhile: its parent has its time
			used += c
		}
	}
	return used, nil
}

func statCPU(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 15 {
		return 0, fmt.Errorf("pid %d: stat has an unknown form", pid)
	}
	var ticks int64
	for _, f := range fields[11:15] { // utime stime cutime cstime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// childrenOf looks through all processes for those whose parent is pid.
func childrenOf(pid int) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var children []int
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // ended meanwhile
		}
		_, rest, _ := strings.Cut(string(raw), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			child, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				return nil, err
			}
			children = append(children, child)
		}
	}
	return children, nil
}
