package judges_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFirstStream follows the README in a clone of its own: "make run", and then the line that it prints. The
// printed link signs one real browser in, once.
func TestFirstStream(t *testing.T) {
	browser(t)
	dir, state := clone(t), filepath.Join(t.TempDir(), "state")
	t.Setenv("STATE_DIRECTORY", state)
	own := without("AQUEDUCT_TOKEN_FILE", "AQUEDUCT_SIGNING_KEY_FILE", "AQUEDUCT_SEALING_KEY_FILE", "MAKEFLAGS", "MAKELEVEL")
	cmd := exec.Command("make", "run")
	cmd.Dir = dir
	cmd.Env = append(own[:len(own):len(own)], "AQUEDUCT_LISTEN=127.0.0.1:0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, found, read := &lines{}, make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		said.read(out, found)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		<-read
		_ = cmd.Wait() // make reports that it was interrupted
		if t.Failed() {
			t.Logf("make run said:\n%s", said)
		}
	})
	var url string
	select {
	case url = <-found:
	case <-read:
		t.Fatal("make run ended")
	case <-time.After(5 * time.Minute): // it builds
		t.Fatal("make run does not listen")
	}
	link := printed(t, said, `(?m)^ *(`+url+`/#sign-in=\S+)$`)
	line := printed(t, said, `(?m)^ *(curl .*)$`)

	info, err := os.Stat(filepath.Join(state, "token"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token's file: %v %v", info, err)
	}
	token, err := os.ReadFile(filepath.Join(state, "token"))
	if err != nil {
		t.Fatal(err)
	}
	first := exec.CommandContext(t.Context(), "sh", "-c", line) // in another folder than the clone
	first.Env = own
	stream, err := first.Output()
	if err != nil || !bytes.Contains(stream, []byte("RUN_FINISHED")) {
		t.Errorf("the printed line: %v\n%s", err, stream)
	}
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	there := strings.NewReplacer(url, "http://127.0.0.1:8080", filepath.Join(dir, "bin", "aqueduct"), "bin/aqueduct").Replace(line)
	if !strings.Contains(string(readme), "\n"+there+"\n") {
		t.Errorf("the README says otherwise than the program, which says\n%s", there)
	}
	tail := exec.CommandContext(t.Context(), "bin/aqueduct", "tail", "no-such-run", "--url", url) // finds the token by itself
	tail.Dir, tail.Env = dir, own
	if out, err := tail.CombinedOutput(); err == nil || !strings.Contains(string(out), "404") {
		t.Errorf("aqueduct tail: %v %s", err, out)
	}

	t.Setenv("LINK", link)
	judge(t, url, "firststream.test.mjs")
	if text := said.String(); strings.Contains(text, strings.TrimSpace(string(token))) || strings.Count(text, link[strings.Index(link, "=")+1:]) != 1 {
		t.Error("the token was printed, or the link more than once")
	}
}

// clone copies what git has or would have.
func clone(t *testing.T) string {
	t.Helper()
	const root = "../.."
	dir := t.TempDir()
	names, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-coz", "--exclude-standard").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil || !info.Mode().IsRegular() {
			continue // deleted, and not yet in the index
		}
		copyFile(t, filepath.Join(root, name), filepath.Join(dir, name), info.Mode())
	}
	return dir
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, mode)
	if err == nil {
		_, err = io.Copy(out, in)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// without is the environment without some variables.
func without(names ...string) []string {
	var env []string
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		keep := true
		for _, unwanted := range names {
			keep = keep && name != unwanted
		}
		if keep {
			env = append(env, pair)
		}
	}
	return env
}

// printed waits for a line that the program prints.
func printed(t *testing.T, said *lines, form string) string {
	t.Helper()
	re := regexp.MustCompile(form)
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		if m := re.FindStringSubmatch(said.String()); m != nil {
			return m[1]
		}
	}
	t.Fatalf("no %s in\n%s", form, said)
	return ""
}
