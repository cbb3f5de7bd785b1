// Package docker_test does what a container engine would do with the Dockerfile, because
// where the tests run there is none: it runs every RUN as it stands, collects what COPY
// names, and starts the entry point in nothing but the final stage's files.
package docker_test

import (
	"bufio"
	"debug/elf"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const root = "../.."

// TestImage builds the stages one after the other and starts the last.
func TestImage(t *testing.T) {
	stages := readStages(t, filepath.Join(root, "Dockerfile"))
	if len(stages) != 2 || stages[1].base != "scratch" {
		t.Fatalf("want a build stage and one from scratch, got %+v", stages)
	}
	built := t.TempDir()
	runBuild(t, stages[0], built)
	image := t.TempDir()
	copyFinal(t, stages[1], stages[0].name, built, image)
	checkStatic(t, filepath.Join(image, "aqueduct"))
	start(t, stages[1], image)
}

// runBuild plays the build stage in a folder that stands for its file system.
func runBuild(t *testing.T, s stage, fs string) {
	t.Helper()
	dir := fs
	for _, step := range s.steps {
		switch step.word {
		case "WORKDIR":
			dir = filepath.Join(fs, step.rest)
			must(t, os.MkdirAll(dir, 0o755))
		case "COPY":
			words := strings.Fields(step.rest)
			for _, from := range words[:len(words)-1] {
				copyContext(t, from, dir)
			}
		case "RUN":
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-ec", step.rest)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("RUN %s: %v\n%s", step.rest, err, out)
			}
		default:
			t.Fatalf("this test does not know %s", step.word)
		}
	}
}

// copyContext copies what git has or would have: .dockerignore leaves out the rest.
func copyContext(t *testing.T, from, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-coz", "--exclude-standard", from)
	cmd.Dir = root
	out, err := cmd.Output()
	must(t, err)
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if data, err := os.ReadFile(filepath.Join(root, name)); err == nil {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
			must(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
		}
	}
}

// copyFinal collects the final stage. What the base image brings, the certificates, is
// taken from this machine where it has them.
func copyFinal(t *testing.T, s stage, build, built, image string) {
	t.Helper()
	for _, rest := range s.all("COPY") {
		words := strings.Fields(rest)
		if words[0] != "--from="+build {
			t.Fatalf("the final stage may only take from %s: COPY %s", build, rest)
		}
		from, to := words[len(words)-2], filepath.Join(image, words[len(words)-1])
		must(t, os.MkdirAll(filepath.Dir(to), 0o755))
		source := filepath.Join(built, from)
		if info, err := os.Stat(source); err == nil && info.IsDir() {
			must(t, os.MkdirAll(to, 0o755))
			own(t, rest, to)
			continue
		}
		data, err := os.ReadFile(source)
		if err != nil {
			if data, err = os.ReadFile(from); err != nil {
				t.Fatalf("COPY %s: nobody made it", rest)
			}
		}
		must(t, os.WriteFile(to, data, 0o755))
	}
}

func own(t *testing.T, rest, path string) {
	t.Helper()
	m := regexp.MustCompile(`--chown=(\d+):(\d+)`).FindStringSubmatch(rest)
	if m == nil || os.Getuid() != 0 {
		return
	}
	uid, _ := strconv.Atoi(m[1])
	gid, _ := strconv.Atoi(m[2])
	must(t, os.Chown(path, uid, gid))
}

// checkStatic: in an image from scratch there is no loader and no library.
func checkStatic(t *testing.T, path string) {
	t.Helper()
	f, err := elf.Open(path)
	must(t, err)
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program wants a dynamic loader")
		}
	}
}

// start runs the entry point with the stage's environment, as its user and, where this
// test may, with the image's files as the whole world.
func start(t *testing.T, s stage, image string) {
	t.Helper()
	user := regexp.MustCompile(`^(\d+):(\d+)$`).FindStringSubmatch(strings.Join(s.all("USER"), ""))
	if user == nil || user[1] == "0" {
		t.Fatalf("the image must run as a numbered user other than root: %v", s.all("USER"))
	}
	args := append(list(t, s.all("ENTRYPOINT")[0]), list(t, s.all("CMD")[0])...)
	must(t, os.MkdirAll(filepath.Join(image, "data"), 0o755))
	must(t, os.Chmod(image, 0o755))
	must(t, os.Chmod(filepath.Dir(image), 0o755))

	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = environment(s)
	cmd.Dir = strings.Join(s.all("WORKDIR"), "")
	if os.Getuid() == 0 {
		uid, _ := strconv.Atoi(user[1])
		gid, _ := strconv.Atoi(user[2])
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: image, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	} else {
		outside(cmd, image)
	}
	checkServes(t, cmd, filepath.Join(image, "data", "token"))
}

// environment is the stage's, but for the port: 0 takes a free one.
func environment(s stage) []string {
	var env []string
	for _, rest := range s.all("ENV") {
		for _, pair := range strings.Fields(rest) {
			if name, _, _ := strings.Cut(pair, "="); name == "AQUEDUCT_LISTEN" {
				pair = "AQUEDUCT_LISTEN=0.0.0.0:0"
			}
			env = append(env, pair)
		}
	}
	return env
}

// outside maps the image's paths for a test that may not change its root.
func outside(cmd *exec.Cmd, image string) {
	cmd.Path = filepath.Join(image, cmd.Path)
	cmd.Dir = filepath.Join(image, cmd.Dir)
	for i, pair := range cmd.Env {
		pair = strings.Replace(pair, "STATE=/", "STATE="+image+"/", 1)
		cmd.Env[i] = strings.Replace(pair, "FILE=/", "FILE="+image+"/", 1)
	}
}

// checkServes waits for the address, asks for health, and finds that the rest needs the token that
// the program has made on its volume.
func checkServes(t *testing.T, cmd *exec.Cmd, tokenFile string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = cmd.Stdout
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("it did not end well when asked to: %v", err)
		}
	})
	address := regexp.MustCompile(`(?:127\.0\.0\.1|0\.0\.0\.0|\[::\]):(\d+)`)
	var said strings.Builder
	var port string
	sc := bufio.NewScanner(out)
	for port == "" && sc.Scan() {
		said.WriteString(sc.Text() + "\n")
		if m := address.FindStringSubmatch(sc.Text()); m != nil {
			port = m[1]
		}
	}
	if port == "" {
		t.Fatalf("it never said where it listens:\n%s", &said)
	}
	go func() { // ends with the program, whose output it reads
		for sc.Scan() {
		}
	}()
	info, err := os.Stat(tokenFile)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the token's mode is %v", info.Mode())
	}
	token, err := os.ReadFile(tokenFile)
	must(t, err)
	for _, c := range []struct {
		path, token string
		want        int
	}{{"/healthz", "", http.StatusOK}, {"/api/threads", "", http.StatusUnauthorized}, {"/api/threads", strings.TrimSpace(string(token)), http.StatusOK}} {
		req, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:"+port+c.path, nil)
		must(t, err)
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("GET %s: %d, want %d", c.path, resp.StatusCode, c.want)
		}
	}
}

// TestIgnored: what .dockerignore names must not be needed, and secrets and data stay out.
func TestIgnored(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	must(t, err)
	for _, want := range []string{".git", "data", "**/node_modules"} {
		if !strings.Contains("\n"+string(data), "\n"+want+"\n") {
			t.Errorf(".dockerignore does not name %s", want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
