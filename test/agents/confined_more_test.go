package agents_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestS44CommandsOfMCP: a command of --mcp tries the same as an agent, and gets as little.
func TestS44CommandsOfMCP(t *testing.T) {
	for who, uid := range accounts() {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			c := newConfined(t, as{uid: uid})
			c.acp = ""
			done := filepath.Join(c.home, "done")
			if err := syscall.Mkfifo(done, 0o666); err != nil {
				t.Fatal(err)
			}
			c.own()
			// It is no MCP server: what it does at its start is enough here.
			c.write("mcp.sh", "S=$(cat ~/state-folder) P=$PPID; export S P; sh ~/attacks.sh >~/got 2>&1 </dev/null; echo done >~/done; cat\n")
			args := []string{"--mcp", "attacker=sh " + filepath.Join(c.home, "mcp.sh")}
			if _, spaces := kernelHas(t, uid); !spaces {
				c.args = append(c.args, args...)
				c.refused()
				return
			}
			if err := c.serve(args...); err != nil {
				t.Fatal(err)
			}
			waits, err := os.Open(done) // until the command opens it to write
			if err != nil {
				t.Fatal(err)
			}
			defer waits.Close()
			if _, err := io.ReadAll(waits); err != nil {
				t.Fatal(err)
			}
			c.gotNothing()
		})
	}
}

// TestS44AgentsOfProxies: an agent of aqueduct proxy, on the machine and under the account of the server, reads neither the
// proxy's token nor the server's state.
func TestS44AgentsOfProxies(t *testing.T) {
	for who, uid := range accounts() {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			c := newConfined(t, as{uid: uid})
			agent := c.acp
			c.acp = ""
			c.byDefault()
			if err := c.serve(); err != nil {
				t.Fatal(err)
			}
			bootstrap, err := c.command(append([]string{"token", "bootstrap", "--proxy", "code"}, c.args...)...).Output()
			if err != nil {
				t.Fatal(err)
			}
			c.write("bootstrap", string(bootstrap))
			if err := os.Chmod(filepath.Join(c.home, "bootstrap"), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"proxy", "--url", "ws" + strings.TrimPrefix(c.url, "http") + "/ws/agent", "--id", "code", "--cwd", c.work, "--bootstrap-file", filepath.Join(c.home, "bootstrap")}
			cmd := c.command(append(append(args, "--"), strings.Fields(agent)...)...)
			out, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			linked, said := false, ""
			lines := bufio.NewScanner(out)
			for !linked && lines.Scan() {
				linked, said = strings.Contains(lines.Text(), "linked to the gateway"), said+lines.Text()+"\n"
			}
			read := make(chan struct{})
			go func() { defer close(read); _, _ = io.Copy(io.Discard, out) }()
			t.Cleanup(func() {
				_ = cmd.Process.Signal(syscall.SIGTERM)
				<-read
				_ = cmd.Wait()
			})
			if !linked {
				if _, spaces := kernelHas(t, uid); spaces || !strings.Contains(said, "--unconfined") {
					t.Fatalf("the proxy does not link: %s", said)
				}
				return
			}
			c.attacked()
			c.gotNothing()
		})
	}
}

// TestS44RealAgent: README's line with opencode, which writes to its HOME, as an ordinary user and, with the state in
// /var/lib/aqueduct, as root. It works, and a command that it runs finds nothing of the server's.
func TestS44RealAgent(t *testing.T) {
	for who, uid := range accounts() {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			if _, spaces := kernelHas(t, uid); !spaces && uid != 0 {
				newConfined(t, as{uid: uid}).refused()
				return
			}
			m := newModel(t)
			o := &opencode{program: opencodeProgram(t)}
			c := newConfined(t, as{uid: uid})
			modules := filepath.Join(filepath.Dir(c.home), "node_modules")
			if os.Getuid() == 0 {
				if err := os.Mkdir(modules, 0o755); err != nil {
					t.Fatal(err)
				}
				c.as.modules = modules
				at, err := filepath.Rel(mustAbs(t, "node_modules"), o.program)
				if err != nil {
					t.Fatal(err)
				}
				o.program = filepath.Join(modules, at)
			}
			c.byDefault()
			o.home, o.workspace = c.home, c.work
			o.modelAt(t, m.url, "none")
			c.own()
			c.acp = strings.Join(o.command(), " ")
			if err := c.serve(); err != nil {
				t.Fatal(err)
			}
			prompt, _ := json.Marshal(fmt.Sprintf("run S=%s P=%d; export S P; sh ~/attacks.sh >~/got 2>&1; echo works >~/worked", c.state, c.cmd.Process.Pid))
			asked := c.call("POST", "/api/agui/chat", `{"threadId":"t","messages":[{"id":"u1","role":"user","content":`+string(prompt)+`}]}`)
			var inbox struct {
				Approvals []struct {
					ID string `json:"approval_id"`
				}
			}
			if err := json.Unmarshal([]byte(c.call("GET", "/api/approvals?status=PENDING", "")), &inbox); err != nil || len(inbox.Approvals) != 1 {
				t.Fatalf("%+v %v\n%s\n%s", inbox, err, asked, c.said.String())
			}
			done := c.call("POST", "/api/agui/chat", `{"threadId":"t","messages":[],"resume":[{"interruptId":"`+inbox.Approvals[0].ID+`","status":"resolved","payload":{"approved":true}}]}`)
			worked, _ := os.ReadFile(filepath.Join(c.home, "worked"))
			if string(worked) != "works\n" || !strings.Contains(done, "RUN_FINISHED") {
				t.Fatalf("opencode does not work: %s\n%s", done, c.said.String())
			}
			if kept, _ := filepath.Glob(filepath.Join(c.home, ".*", "share", "opencode")); len(kept) == 0 { // the attacks move .local where they can
				t.Error("opencode keeps nothing in its HOME")
			}
			got, err := os.ReadFile(filepath.Join(c.home, "got"))
			if found := c.secrets(string(got)); err != nil || len(found) > 0 {
				t.Errorf("%v: opencode got %q:\n%s", err, found, got)
			}
		})
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	whole, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

// byDefault has the program take the state folder that it takes when none is named.
func (c *confined) byDefault() {
	if c.as.uid == 0 {
		c.as.varLib = c.outsideState
		c.args, c.state, c.files = nil, "/var/lib/aqueduct", filepath.Join(c.outsideState, "aqueduct")
	}
}
