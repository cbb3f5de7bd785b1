package proxy

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"aqueduct/acpgateway/wire"
	"aqueduct/internal/child"
)

// urlVar makes this test program a proxy of the scripted agent.
const urlVar = "FAKE_ACP_GATEWAY"

// serveProxy is that proxy.
func serveProxy(url, dir string) error {
	p, err := New(Config{
		URL: url, ID: "p1", Token: func(context.Context) (string, error) { return "secret", nil },
		Command: []string{os.Args[0]}, Env: []string{fakeVar + "=1", urlVar + "="}, Workspaces: dir,
	})
	if err != nil {
		return err
	}
	return p.Run(context.Background())
}

// dies waits for the end of a process that this process may not wait for.
func dies(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(patience); alive(pid); syscall.Sync() {
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("what the agent left behind lives")
		}
	}
}

// daemon has the agent start a process in a session of its own.
func (g *gateway) daemon() (agent, daemon int) {
	g.t.Helper()
	g.prompt("p", "daemon")
	text, _ := g.said()
	if _, err := fmt.Sscan(text, &agent, &daemon); err != nil {
		g.t.Fatal(text, err)
	}
	if !alive(daemon) {
		g.t.Fatal("there is no daemon")
	}
	return agent, daemon
}

// TestWhatLeavesTheGroupEndsToo: by a close, by the agent's death, and by the death of the proxy itself.
func TestWhatLeavesTheGroupEndsToo(t *testing.T) {
	t.Parallel()
	t.Run("close", func(t *testing.T) {
		t.Parallel()
		g := newGateway(t, oldAck)
		g.start(nil)
		g.openRun()
		_, daemon := g.daemon()
		g.send(`{"type":"acp_close","run_id":"r"}`)
		want[*wire.Closed](g)
		dies(t, daemon)
	})
	t.Run("agent killed", func(t *testing.T) {
		t.Parallel()
		g := newGateway(t, oldAck)
		g.start(nil)
		g.openRun()
		agent, daemon := g.daemon()
		if err := syscall.Kill(agent, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		want[*wire.Exit](g)
		dies(t, daemon)
	})
	t.Run("proxy killed", func(t *testing.T) {
		t.Parallel()
		g := newGateway(t, oldAck)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), urlVar+"="+g.url, "WORKSPACES="+t.TempDir())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		g.accept()
		g.openRun()
		_, daemon := g.daemon()
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		g.cut()
		dies(t, daemon)
	})
}

// TestMarksAreToldApart: another agent's processes live on.
func TestMarksAreToldApart(t *testing.T) {
	t.Parallel()
	start := func(mark string) *exec.Cmd {
		cmd := exec.Command("sleep", "1000")
		cmd.Env = []string{child.MarkName + "=" + mark}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	mark := "test-" + strconv.Itoa(os.Getpid())
	one, other := start(mark+".1"), start(mark+".11")
	child.KillMarked(mark + ".1")
	if err := one.Wait(); err == nil {
		t.Error("it ended by itself")
	}
	if !alive(other.Process.Pid) {
		t.Error("another agent's process was killed")
	}
	_ = other.Process.Kill()
	_ = other.Wait()
}
