package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aqueduct/internal/child"
)

// curiousAgent answers each prompt with what it could get at: the names of its variables, the secrets that it could read, the
// server's environment and memory, and whether it can work.
const curiousAgent = `#!/bin/sh
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
  *'"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":1}}" ;;
  *'"session/new"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"sessionId\":\"s\"}}" ;;
  *'"session/prompt"'*)
    got="$(env | sed -n 's/^\([A-Z_]*\)=.*/env:\1/p' | tr '\n' ' ')"
    for f in SECRETS /proc/PID/environ; do head -c 1 "$f" >/dev/null 2>&1 && got="$got read:$f"; done
    (exec 3</proc/PID/mem) 2>/dev/null && got="$got read:mem"
    cp DATA/token copied 2>/dev/null && got="$got read:copy"
    ln DATA/token linked 2>/dev/null && head -c 1 linked >/dev/null 2>&1 && got="$got read:link"
    kill -0 PID 2>/dev/null && got="$got signals"
    got="$got api:$(curl -s -o /dev/null -w '%{http_code}' "$AQUEDUCT_BASE_URL/api/approvals")"
    got="$got tools:$(curl -s -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $AQUEDUCT_TOKEN" "$AQUEDUCT_BASE_URL/v1/tools")"
    got="$got own:$(curl -s -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $AQUEDUCT_TOKEN" "$AQUEDUCT_BASE_URL/api/approvals")"
    echo x > made && echo y > "$TMPDIR/made$$" && got="$got works:$(pwd) uid:$(id -u)"
    echo "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"$got\"}}}}"
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"stopReason\":\"end_turn\"}}" ;;
  esac
done
`

// TestS21AgentReadsNoSecret: a real process that runs as an agent tries the token, key and database files and the server's
// environment and memory, and the API without a token, by each means there is. Without one it gets them all, which shows that the trying works.
func TestS21AgentReadsNoSecret(t *testing.T) {
	root := t.TempDir()
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // an agent of another user passes through
			t.Fatal(err)
		}
	}
	mkdir := func(name string, mode os.FileMode) string {
		t.Helper()
		dir := filepath.Join(root, name)
		if err := errors.Join(os.Mkdir(dir, mode), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	data, tmp := mkdir("data", 0o700), mkdir("tmp", 0o777)
	db, token, key := filepath.Join(data, "aqueduct.db"), filepath.Join(data, "token"), filepath.Join(data, "signing.key")
	for _, file := range []string{token, key} {
		if err := os.WriteFile(file, []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := strings.NewReplacer("SECRETS", db+" "+token+" "+key, "PID", fmt.Sprint(os.Getpid()), "DATA", data).Replace(curiousAgent)
	agent := filepath.Join(mkdir("bin", 0o755), "agent.sh")
	if err := os.WriteFile(agent, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"TMPDIR": tmp, "PGPASSWORD": "x", "MY_API_KEY": "x", "GITHUB_TOKEN": "x", "A_SECRET": "x", "DB_PASSWORD": "x", "AQUEDUCT_THING": "x", "GIVEN_KEY": "x", "HARMLESS": "x",
	} {
		t.Setenv(name, value)
	}
	type means struct {
		flags []string
		reads bool
		uid   int
		api   int // what a request without a token gets
	}
	cases := map[string]means{
		"nothing": {flags: []string{"--auth", "none", "--unconfined"}, reads: true, uid: os.Geteuid(), api: 200},
	}
	if child.LandlockWorks() {
		cases["landlock"] = means{uid: os.Geteuid(), api: 401}
		cases["landlock, workspaces"] = means{flags: []string{"--acp-workspaces", filepath.Join(root, "spaces")}, uid: os.Geteuid(), api: 401}
	} else {
		t.Log("not tried: this kernel has no Landlock")
	}
	const nobody = 65534
	if os.Geteuid() == 0 {
		cases["user"] = means{flags: []string{"--auth", "none", "--acp-user", "nobody"}, uid: nobody, api: 401}
		cases["user, workspaces"] = means{flags: []string{"--acp-user", "nobody", "--acp-workspaces", filepath.Join(root, "owned")}, uid: nobody, api: 401}
	} else if _, err := child.LookupUser("nobody"); err == nil {
		t.Error("another than root can switch users")
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			work := mkdir("work of "+name, 0o777) // of its own: what an agent of root has made there, another's cannot write
			args := append([]string{"--acp-cwd", work, "--database", "sqlite:" + db, "--signing-key-file", key, "--acp-env", "GIVEN_KEY", "--acp", "code=" + agent}, c.flags...)
			r := start(t, args...)
			_, said := r.post("/api/agui/chat", `{"messages":[{"id":"u","role":"user","content":"hi"}]}`)
			for _, want := range []string{"works:", fmt.Sprintf("uid:%d", c.uid), "env:HARMLESS", "env:GIVEN_KEY", "env:AQUEDUCT_TOKEN", "env:AQUEDUCT_BASE_URL", fmt.Sprintf("api:%d", c.api), "tools:200", "own:401"} {
				if !strings.Contains(said, want) {
					t.Errorf("%s is not in %s", want, said)
				}
			}
			for _, name := range []string{"PGPASSWORD", "MY_API_KEY", "GITHUB_TOKEN", "A_SECRET", "DB_PASSWORD", "AQUEDUCT_THING"} {
				if strings.Contains(said, "env:"+name) {
					t.Errorf("%s was inherited", name)
				}
			}
			for _, secret := range []string{db, token, key, "mem", fmt.Sprintf("/proc/%d/environ", os.Getpid()), "copy"} {
				if got := strings.Contains(said, "read:"+secret); got != c.reads {
					t.Errorf("%s was read: %t", secret, got)
				}
			}
			if !c.reads && strings.Contains(said, "read:") {
				t.Error(said)
			}
		})
	}
}

// TestS44RefusedInWords: a state that agents could write to, or that they could put another one into the place of, is
// refused, and the refusal names the ways out. What --acp-confine was is refused too.
func TestS44RefusedInWords(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	work := filepath.Join(dir, "work")
	if err := errors.Join(os.Mkdir(work, 0o700), os.Mkdir(filepath.Join(dir, "real"), 0o700), os.Symlink("real", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		flags []string
		want  []string
	}{
		"the agent's folder is the state":         {[]string{"--state", work, "--acp-cwd", work}, []string{"agents write to " + work, "--state /var/lib/aqueduct", "--unconfined"}},
		"the agent's folder is in the state":      {[]string{"--state", dir, "--acp-cwd", work}, []string{"agents write to", "give the state a folder of its own"}},
		"the state is beside SQLite's file":       {[]string{"--database", "sqlite:" + filepath.Join(work, "x.db"), "--acp-cwd", work}, []string{"agents write to"}},
		"the database is elsewhere":               {[]string{"--state", filepath.Join(dir, "state"), "--database", "sqlite:" + filepath.Join(work, "x.db"), "--acp-cwd", work}, []string{"leave --database out"}},
		"a link that agents could replace":        {[]string{"--state", filepath.Join(dir, "link", "state"), "--acp-cwd", work}, []string{"a link that agents could replace", filepath.Join(dir, "real", "state")}},
		"--acp-confine":                           {[]string{"--state", filepath.Join(dir, "other"), "--acp-confine", "off"}, []string{"--unconfined"}},
		"an account, and unconfined":              {[]string{"--state", filepath.Join(dir, "another"), "--unconfined", "--acp-user", "nobody"}, []string{"contradict"}},
		"commands of --mcp, the folder is TMPDIR": {[]string{"--state", dir, "--mcp", "a=true"}, []string{"agents write to"}},
	} {
		args := append([]string{"serve", "--listen", "127.0.0.1:0"}, c.flags...)
		if !slices.Contains(c.flags, "--mcp") {
			args = append(args, "--acp", "code=true")
		}
		_, err := program(t, env(), args...)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in: %v", name, want, err)
			}
		}
	}
}
