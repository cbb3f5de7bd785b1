package agents_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"aqueduct/test/program"
)

// attacker is an ACP agent that answers each prompt with what it could get at. Each line of attacks is one way to the server's
// secrets.
const attacker = `#!/bin/sh
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
  *'"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":1}}" ;;
  *'"session/new"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"sessionId\":\"s\"}}" ;;
  *'"ask"'*)
    echo '{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c","title":"make","kind":"execute","rawInput":{"command":"make"}},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}}'
    read -r line
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"stopReason\":\"end_turn\"}}" ;;
  *'"session/prompt"'*)
    S=$(cat "$HOME/state-folder") P=$(cat "$HOME/server-pid"); export S P
    sh "$HOME/attacks.sh" >"$HOME/got" 2>&1 </dev/null
    mkdir -p "$HOME/.config/agent" && echo x >"$HOME/.config/agent/settings" && echo y >made && echo z >"$HOME/.cache-agent" && echo works >"$HOME/worked"
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"stopReason\":\"end_turn\"}}" ;;
  esac
done
`

const attacks = `
cat "$S/token" "$S/signing.key" "$S/sealing.key" "$S/audit.key"; ls -la "$S"
head -c 40 "$S/aqueduct.db"; sqlite3 "$S/aqueduct.db" 'select * from replicas'; strings "$S/aqueduct.db-wal"
"$AQ" token show; "$AQ" token show --state "$S"; "$AQ" audit verify --state "$S"
cat /proc/$P/environ; head -c 100 /proc/$P/mem; cat /proc/$P/root"$S"/token; cat /proc/$P/cwd/.local/state/aqueduct/token
for fd in 0 1 2 3 4 5 6 7 8 9 10 11 12; do timeout .1 head -c 40 "/proc/$P/fd/$fd"; done
cat /proc/1/root"$S"/token /proc/$PPID/root"$S"/token; ls /proc/$P/task/*/root"$S"
nsenter -t $P -m cat "$S/token"; nsenter -t $P -m -U cat "$S/token"; nsenter -t $P -m -U --preserve-credentials cat "$S/token"
gdb -p $P -batch -ex 'info proc'; timeout 2 strace -f -p $P
umount "$S"; umount -l "$S"; umount -l "$HOME/.local"
unshare -Ur cat "$S/token"
unshare -Urm sh -c 'umount "$S"; umount -l "$S"; cat "$S/token"'
unshare -Urm --propagation unchanged sh -c 'umount -l "$S"; umount -l "$HOME/.local"; umount -l "$HOME"; cat "$S/token"
  mkdir -p /tmp/bound.$$ && mount --bind "$HOME" /tmp/bound.$$; cat /tmp/bound.$$/.local/state/aqueduct/token
  mount --rbind "$HOME" /tmp/bound.$$ && umount -l /tmp/bound.$$/.local/state/aqueduct; cat /tmp/bound.$$/.local/state/aqueduct/token
  mount --move "$S" /tmp/bound.$$; cat "$S/token"'
unshare -Urmpf --mount-proc --propagation unchanged sh -c 'cat /proc/*/environ; cat "$S/token"'
ln "$S/token" hard; ln -s "$S/token" soft; cat hard soft; ln -s "$S" softdir; cat softdir/token; cat ./softdir/../aqueduct/token
cat "$HOME/../state/token" "$HOME/../state/aqueduct/token"
up=; for i in 1 2 3 4 5 6 7 8; do up=../$up; cat $up"${S#/}"/token; done
cp -a "$S" copied; cat copied/token; tar c "$S" | cat
mv "$S" "$S.moved"; mv "$HOME/.local" "$HOME/.moved"; mv "$HOME/.local/state" "$HOME/.local/moved"
cat "$S.moved/token" "$HOME/.moved/state/aqueduct/token" "$HOME/.local/moved/aqueduct/token"
rm -rf "$S"; rmdir "$S"; mkdir -p "$S"; echo planted >"$S/token"; echo planted-planted-planted-planted-planted >"$S/signing.key"
chmod 0 "$HOME/.local" "$HOME/.local/state"; chmod 700 "$HOME/.local" "$HOME/.local/state"; cat "$S/token"
find "$HOME" -name sealing.key | xargs -r cat
true
`

// confined is a server with the attacker, in a HOME of its own.
type confined struct {
	t            *testing.T
	as           as
	home, work   string
	aq, state    string
	acp          string // the agent's command
	files        string // where this test finds the state folder, if elsewhere
	args         []string
	cmd          *exec.Cmd
	said         bytes.Buffer
	url          string
	token        string
	outsideState string
}

// newConfined makes the HOME, which belongs to the account, with a copy of the program that the account can start.
func newConfined(t *testing.T, a as) *confined {
	t.Helper()
	built, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.MkdirTemp("/var/tmp", "aqueduct-home") // not in the temporary folder: a state beside HOME is outside of it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	c := &confined{t: t, as: a, home: filepath.Join(root, "home"), aq: filepath.Join(root, "aqueduct"), outsideState: filepath.Join(root, "state")}
	c.work = filepath.Join(c.home, "src", "project")
	for _, dir := range []string{c.work, filepath.Join(c.home, "tmp"), c.outsideState} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(built)
	if err == nil {
		syscall.ForkLock.RLock() // a process that another test starts would have the file open, and it could not be run
		err = os.WriteFile(c.aq, raw, 0o755)
		syscall.ForkLock.RUnlock()
	}
	if err != nil {
		t.Fatal(err)
	}
	c.write("agent.sh", attacker)
	c.write("attacks.sh", attacks)
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	c.acp = "sh " + filepath.Join(c.home, "agent.sh")
	c.own()
	c.state = filepath.Join(c.home, ".local", "state", "aqueduct")
	if a.uid == 0 {
		c.args = []string{"--state", c.state}
	}
	return c
}

// own gives HOME and the folder beside it to the account.
func (c *confined) own() {
	c.t.Helper()
	if os.Getuid() != 0 {
		return
	}
	own := func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, c.as.uid, c.as.uid))
	}
	if err := errors.Join(filepath.WalkDir(c.home, own), os.Chown(c.outsideState, c.as.uid, c.as.uid)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *confined) write(name, text string) {
	c.t.Helper()
	path := filepath.Join(c.home, name)
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o700), os.Chown(path, c.as.uid, c.as.uid)); err != nil {
		c.t.Fatal(err)
	}
}

// command is the program as the account starts it in the project's folder.
func (c *confined) command(args ...string) *exec.Cmd {
	cmd := c.as.command(c.t, append([]string{c.aq}, args...)...)
	cmd.Dir = c.work
	if c.as.modules != "" {
		cmd.Dir = "" // the packages are found from here; see start
	}
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + c.home, "TMPDIR=" + filepath.Join(c.home, "tmp"), "AQ=" + c.aq,
		"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1",
		"SOME_PASSWORD=secret-of-the-environment", "AQUEDUCT_DRAIN=0s",
	}
	return cmd
}

// serve runs README's line. It returns how the program ended where it did so before it listened.
func (c *confined) serve(more ...string) error {
	c.t.Helper()
	c.said.Reset()
	args := append([]string{"serve", "--listen", "127.0.0.1:0"}, append(c.args, more...)...)
	if c.acp != "" {
		args = append(args, "--acp", "code="+c.acp, "--acp-cwd", c.work)
	}
	c.write("state-folder", c.state)
	c.cmd = c.command(args...)
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	c.cmd.Stderr = &c.said
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	var line [4096]byte
	n, err := out.Read(line[:])
	go func() { _, _ = io.Copy(io.Discard, out) }()
	url, ok := strings.CutPrefix(string(line[:n]), "listening on ")
	if err != nil || !ok {
		ended := c.cmd.Wait()
		return fmt.Errorf("%w: %s", errors.Join(ended, errors.New("it did not listen")), c.said.String())
	}
	c.url, _, _ = strings.Cut(url, "\n")
	c.t.Cleanup(c.stop)
	c.write("server-pid", fmt.Sprint(c.cmd.Process.Pid))
	shown, err := c.command(append([]string{"token", "show"}, c.args...)...).Output()
	if err != nil {
		c.t.Fatalf("token show: %v", err)
	}
	c.token = strings.TrimSpace(string(shown))
	return nil
}

func (c *confined) stop() {
	if c.cmd.Process != nil && c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		_ = c.cmd.Wait()
	}
}

func (c *confined) call(method, path, body string) string {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Timeout: patience}).Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(raw)
}

// attacked has the agent try everything, and returns what it got.
func (c *confined) attacked() string {
	c.t.Helper()
	for _, name := range []string{"got", "worked"} {
		_ = os.Remove(filepath.Join(c.home, name)) // of an earlier try
	}
	said := c.call("POST", "/api/agui/chat", `{"messages":[{"id":"u1","role":"user","content":"hi"}]}`)
	if worked, _ := os.ReadFile(filepath.Join(c.home, "worked")); string(worked) != "works\n" || !strings.Contains(said, "RUN_FINISHED") {
		got, _ := os.ReadFile(filepath.Join(c.home, "got"))
		c.t.Fatalf("the agent does not work: %s\n%s\n%s", said, got, c.said.String())
	}
	got, err := os.ReadFile(filepath.Join(c.home, "got"))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(got)
}

// secrets are what of the server's is in a text.
func (c *confined) secrets(text string) (found []string) {
	for _, name := range []string{"token", "signing.key", "sealing.key", "audit.key"} {
		raw, err := os.ReadFile(filepath.Join(cmp.Or(c.files, c.state), name))
		if secret := strings.TrimSpace(string(raw)); err == nil && strings.Contains(text, secret) {
			found = append(found, name)
		}
	}
	if strings.Contains(text, c.token) {
		found = append(found, "the token")
	}
	for _, part := range []string{"SQLite format 3", "secret-of-the-environment", "attaching to process"} {
		if strings.Contains(text, part) {
			found = append(found, part)
		}
	}
	return found
}

// TestS44StateIsOutOfReach: README's line in a project, with an agent that tries every way to the token, the keys, the
// database, and the server's environment and memory; as root and as an ordinary user, on a kernel with Landlock and user
// namespaces, with one of them, and with neither. What cannot be kept is refused in words; --unconfined, by which the same
// attacks succeed, says so.
func TestS44StateIsOutOfReach(t *testing.T) {
	for who, uid := range accounts() {
		landlock, spaces := kernelHas(t, uid)
		for name, a := range map[string]as{
			"all": {}, "no Landlock": {noLandlock: true}, "no namespaces": {noSpaces: true}, "neither": {noLandlock: true, noSpaces: true},
		} {
			t.Run(who+", "+name, func(t *testing.T) {
				t.Parallel()
				a.uid = uid
				c := newConfined(t, a)
				if spaces && !a.noSpaces {
					c.holds()
					return
				}
				c.refused()
				if landlock && !a.noLandlock {
					// The way out that the refusal names: a folder outside of what agents write to.
					c.args, c.state = []string{"--state", c.outsideState}, c.outsideState
					c.holds()
					return
				}
				c.unconfined()
			})
		}
	}
}

// gotNothing checks what the attacks have printed.
func (c *confined) gotNothing() {
	c.t.Helper()
	got, err := os.ReadFile(filepath.Join(c.home, "got"))
	if found := c.secrets(string(got)); err != nil || len(found) > 0 || !strings.Contains(string(got), "nsenter") {
		c.t.Errorf("%v: it got %q:\n%s", err, found, got)
	}
}

// holds checks that the agent gets nothing and works, and that the next start finds the same state.
func (c *confined) holds() {
	t := c.t
	if err := c.serve(); err != nil {
		t.Fatal(err)
	}
	before := c.token
	got := c.attacked()
	if found := c.secrets(got); len(found) > 0 {
		t.Fatalf("the agent got %q:\n%s", found, got)
	}
	if agents := c.call("GET", "/v1/agents", ""); strings.Contains(agents, "unconfined") {
		t.Error(agents)
	}
	info, err := os.Stat(c.state)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the state folder: %v %v", info.Mode(), err)
	}
	c.stop()
	if err := c.serve(); err != nil {
		t.Fatalf("the next start: %v", err)
	}
	if c.token != before {
		t.Error("the next start has another token")
	}
}

// refused checks the words of a start that cannot keep the state from agents.
func (c *confined) refused() {
	t := c.t
	err := c.serve()
	if err == nil {
		t.Fatal("it starts")
	}
	for _, want := range []string{c.state, "--state", "install -d -m 700", "--unconfined"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

// unconfined checks that the same attacks succeed under the flag, and that the agents' list says what that means.
func (c *confined) unconfined() {
	t := c.t
	if err := c.serve("--unconfined"); err != nil {
		t.Fatal(err)
	}
	got := c.attacked()
	if found := c.secrets(got); len(found) < 3 {
		t.Errorf("the attacks find only %q:\n%s", found, got)
	}
	if !strings.Contains(c.said.String(), "could approve for itself") {
		t.Error(c.said.String())
	}
	var list struct {
		Agents []struct {
			ID         string `json:"agent_id"`
			Unconfined bool
		}
	}
	if err := json.Unmarshal([]byte(c.call("GET", "/v1/agents", "")), &list); err != nil || len(list.Agents) != 1 || !list.Agents[0].Unconfined {
		t.Errorf("%+v %v", list, err)
	}
	if card := c.call("POST", "/api/agui/chat", `{"messages":[{"id":"u2","role":"user","content":"ask"}]}`); !strings.Contains(card, "agent_unconfined") {
		t.Errorf("the card says nothing: %s", card)
	}
	if inbox := c.call("GET", "/api/approvals?status=PENDING", ""); !strings.Contains(inbox, `"warnings":["agent_unconfined"]`) {
		t.Errorf("the inbox says nothing: %s", inbox)
	}
}
