package bench

import (
	"bufio"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aqueduct/test/program"
)

// The test binary is also the stub and the relay: each runs in a process of its own, so
// that its CPU can be measured apart.
const (
	roleEnv     = "AQUEDUCT_BENCH_ROLE"
	upstreamEnv = "AQUEDUCT_BENCH_UPSTREAM"
)

func TestMain(m *testing.M) {
	role := os.Getenv(roleEnv)
	if role == "" {
		os.Exit(program.Main(m))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		fmt.Printf("listening on http://%s\n", l.Addr())
		switch role {
		case "stub":
			err = serveStub(l)
		case "paced":
			err = servePaced(l)
		case "reverse":
			err = serveReverse(l, os.Getenv(upstreamEnv))
		case "caller":
			err = serveCaller(l, os.Getenv(upstreamEnv))
		default:
			err = serveRelay(l, os.Getenv(upstreamEnv))
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// process is a server that runs beside the benchmark.
type process struct {
	url string
	pid int
}

// startProcess runs a command and waits for its line "listening on URL".
func startProcess(tb testing.TB, cmd *exec.Cmd) process {
	tb.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
			go func() { // keeps the pipe empty; ends with the process
				for lines.Scan() {
				}
			}()
			return process{url: strings.Fields(url)[0], pid: cmd.Process.Pid}
		}
	}
	tb.Fatal("the process ended before it listened: ", cmd.Args)
	return process{}
}

func startRole(tb testing.TB, role, upstream string) process {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role, upstreamEnv+"="+upstream)
	return startProcess(tb, cmd)
}

// shipped is the program: without the race detector.
func shipped(tb testing.TB) string {
	tb.Helper()
	path, err := program.Shipped()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

func startServer(tb testing.TB, binary, upstream, database string) process {
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--database", database, "--agent", "stub=" + upstream, "--run-rate", "off"}, program.State(tb, database)...)
	return startProcess(tb, exec.Command(binary, args...))
}

// postmaster is the process id of the PostgreSQL behind dsn: the first line of the file
// it keeps in its data folder.
func postmaster(tb testing.TB, dsn string) int {
	tb.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		tb.Fatal(err)
	}
	defer db.Close()
	var dir string
	if err := db.QueryRow("SHOW data_directory").Scan(&dir); err != nil {
		tb.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "postmaster.pid"))
	if err != nil {
		tb.Fatal(err)
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		tb.Fatal(err)
	}
	return pid
}

// settleDown lets what was begun in one round end in it: a checkpoint, a last commit.
const settleDown = time.Second
