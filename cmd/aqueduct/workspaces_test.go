package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aqueduct/internal/child"
)

// nosy tries to read and write in folders below $1 that are not its own, $2 among them, and prints what it could read.
const nosy = `exec 2>/dev/null
cat "$2/made"; cat "../$(basename "$2")/made"; cat "/proc/self/cwd/../$(basename "$2")/made"; cat "$1"/*/made | grep theirs; ls "$1" | grep -x "$(basename "$2")"
for p in /proc/[0-9]*; do cat "$p/cwd/made" | grep theirs; done
echo evil >>"$2/made"; echo evil >"$2/new"; mv "$2" ./taken; mv ./ "$2"; ln "$2/made" ./linked && echo linked; ln -s "$2" ./soft; cat ./soft/made
mv "$1" "$1.away"; cat "$1.away"/*/made | grep theirs
mv "$(dirname "$1")" "$(dirname "$1").away" && echo moved
unshare -rm sh -c 'umount -l "$1"; cat "$2/made"' sh "$1" "$2"
echo ours >made && cat made && pwd`

// TestS55WorkspacesApart: an agent has its own folder of --acp-workspaces and no other's, wherever these lie.
func TestS55WorkspacesApart(t *testing.T) {
	ordinary(t)
	root := t.TempDir()
	home, tmp := filepath.Join(root, "home"), filepath.Join(root, "tmp")
	for dir := root; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil && os.Geteuid() == 0 {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(home, 0o755), os.Mkdir(tmp, 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("TMPDIR", tmp)
	places := map[string]confineFlags{filepath.Join(root, "spaces"): {}, filepath.Join(home, "a", "spaces"): {}, filepath.Join(tmp, "spaces"): {}}
	if os.Geteuid() == 0 {
		places[filepath.Join(root, "owned")] = confineFlags{ACPUser: "nobody"}
	}
	for spaces, f := range places {
		c, err := f.confinement(kept{}, nil, spaces, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if !f.apart(c, spaces, slog.New(slog.DiscardHandler)) {
			t.Fatalf("%s: not apart", spaces)
		}
		mine, theirs := filepath.Join(spaces, "mine"), filepath.Join(spaces, "theirs")
		for _, dir := range []string{mine, theirs} {
			err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "made"), []byte("theirs\n"), 0o644), c.Own(dir))
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Remove(filepath.Join(mine, "made")); err != nil {
			t.Fatal(err)
		}
		neighbour := c.Within(theirs).Wrap(exec.Command("/bin/sh", "-c", "echo; cat"))
		neighbour.Dir = theirs
		in, err := neighbour.StdinPipe()
		out, err2 := neighbour.StdoutPipe()
		if err := errors.Join(err, err2, neighbour.Start()); err != nil {
			t.Fatal(err)
		}
		_, _ = out.Read(make([]byte, 1)) // it runs now
		cmd := c.Within(mine).Wrap(exec.Command("/bin/sh", "-c", nosy, "sh", spaces, theirs))
		cmd.Dir = mine
		got, err := cmd.CombinedOutput()
		if want := "ours\n" + mine + "\n"; err != nil || string(got) != want {
			t.Errorf("%s: %v %q, want %q", spaces, err, got, want)
		}
		_ = in.Close()
		_ = neighbour.Wait() // its end is not judged
		raw, err := os.ReadFile(filepath.Join(theirs, "made"))
		if left, _ := os.ReadDir(theirs); err != nil || string(raw) != "theirs\n" || len(left) != 1 {
			t.Errorf("%s: %q %v", spaces, raw, err)
		}
	}
}

// spaceAgent answers with how many folders of workspaces it finds a file in, and makes one in its own.
const spaceAgent = `#!/bin/sh
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
  *'"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":1}}" ;;
  *'"session/new"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"sessionId\":\"s\"}}" ;;
  *'"session/prompt"'*)
    echo x >made; got="sees:$(cat SPACES/*/*/made | wc -l) has:$(cat made)"
    echo "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"$got\"}}}}"
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"stopReason\":\"end_turn\"}}" ;;
  esac
done
`

// TestS55ServeKeepsThreadsApart: the same by the program; and where it cannot be, the start and the list of agents say so.
func TestS55ServeKeepsThreadsApart(t *testing.T) {
	if !child.LandlockWorks() {
		t.Fatal("this kernel has no Landlock")
	}
	root := t.TempDir()
	spaces, work, data := filepath.Join(root, "spaces"), filepath.Join(root, "work"), filepath.Join(root, "state")
	if err := errors.Join(os.Mkdir(work, 0o755), os.Mkdir(data, 0o700), os.Mkdir(filepath.Join(root, "tmp"), 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", filepath.Join(root, "tmp"))
	agent := filepath.Join(root, "agent.sh")
	if err := os.WriteFile(agent, []byte(strings.ReplaceAll(spaceAgent, "SPACES", spaces)), 0o755); err != nil {
		t.Fatal(err)
	}
	for means, last := range map[string]string{"confined": "sees:1 ", "unconfined": "sees:2 "} {
		if err := os.RemoveAll(spaces); err != nil {
			t.Fatal(err)
		}
		r := start(t, "--database", "sqlite:"+filepath.Join(data, means+".db"), "--signing-key-file", filepath.Join(data, "k"), "--acp", "code="+agent,
			"--acp-cwd", work, "--acp-workspaces", spaces, fmt.Sprintf("--unconfined=%t", means == "unconfined"))
		said := ""
		for _, thread := range []string{"one", "two"} {
			_, said = r.post("/api/agui/chat", `{"threadId":"`+thread+`","messages":[{"id":"u","role":"user","content":"hi"}]}`)
		}
		if !strings.Contains(said, last) || !strings.Contains(said, "has:x") {
			t.Errorf("%s: %s", means, said)
		}
		resp, err := r.client.Get(r.URL + "/v1/agents")
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		_, err = body.ReadFrom(resp.Body)
		_ = resp.Body.Close()
		together := strings.Contains(body.String(), `"warnings":["shared_workspaces"]`)
		logged := strings.Contains(r.log.String(), "reach the folders of other threads")
		if err != nil || together != (means == "unconfined") || logged != together {
			t.Errorf("%s: %s %v\n%s", means, body.String(), err, r.log)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}
}
