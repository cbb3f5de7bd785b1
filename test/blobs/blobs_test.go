// Package blobs_test tries blobs in a bucket of a real S3 server (VersityGW, which checks every signature): the contract of a
// store of blobs, and the program over it.
package blobs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aqueduct/store/blob/blobtest"
	"aqueduct/store/blob/s3"
	"aqueduct/test/nodetest"
	"aqueduct/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

const (
	server    = "../../bin/tools/versitygw-v1.8.0" // as "make setup-s3" names it
	accessKey = "AKIDOFTHETEST"
	secretKey = "hush-hush-hush"
)

// bucket is a server with one empty bucket, and its folder.
type bucket struct{ endpoint, folder string }

func newBucket(t *testing.T) bucket {
	t.Helper()
	nodetest.Need(t, server, "make setup-s3")
	root, meta := t.TempDir(), t.TempDir()
	b := bucket{folder: filepath.Join(root, "kept")}
	if err := os.Mkdir(b.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	address := free(t)
	b.endpoint = "http://" + address
	start(t, exec.Command(server, "--quiet", "--port", address, "--access", accessKey, "--secret", secretKey, "--region", "eu-central-1", "posix", "--sidecar", meta, root))
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close() // it was only tried
			return b
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// free is an address that nothing listens on.
func free(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// start runs a process until the test ends, and returns its output.
func start(t *testing.T, cmd *exec.Cmd) *output {
	t.Helper()
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be gone
		_ = cmd.Wait()         // it was killed
		if t.Failed() {
			t.Log(out.String())
		}
	})
	return out
}

func (b bucket) location(t *testing.T) string {
	t.Helper()
	return "s3://kept/aqueduct/blobs?region=eu-central-1&endpoint=" + b.endpoint
}

func (b bucket) store(t *testing.T, keys s3.Credentials) *s3.Store {
	t.Helper()
	at, err := s3.ParseLocation(b.location(t))
	if err != nil {
		t.Fatal(err)
	}
	return s3.New(at, keys, http.DefaultClient)
}

// objects counts those of the bucket.
func (b bucket) objects() (n int) {
	_ = filepath.WalkDir(b.folder, func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			n++
		}
		return nil // one that is deleted at this moment
	})
	return n
}

// TestContract: a bucket is a store of blobs; a wrong key or region opens nothing.
func TestContract(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	blobtest.Run(t, b.store(t, s3.Credentials{AccessKey: accessKey, SecretKey: secretKey}))
	const id = "0190f3a0-0000-7000-8000-0000000000ab"
	for name, keys := range map[string]s3.Credentials{"a wrong secret": {AccessKey: accessKey, SecretKey: "x"}, "a wrong key": {AccessKey: "x", SecretKey: secretKey}} {
		s := b.store(t, keys)
		if err := s.Put(t.Context(), id, []byte("x")); err == nil || !strings.Contains(err.Error(), "status 40") {
			t.Errorf("%s: written: %v", name, err)
		}
		if err := s.Delete(t.Context(), id); err == nil {
			t.Errorf("%s: deleted", name)
		}
		if _, err := s.Open(t.Context(), id, 1); err == nil {
			t.Errorf("%s: read", name)
		}
	}
	if n := b.objects(); n > 1 { // what the contract leaves of "another size"
		t.Errorf("%d objects are left", n)
	}
}

// TestProgram: the program over the bucket writes, reads a range, replaces and deletes; the bucket holds what the rows refer to,
// and no output of the program has the key.
func TestProgram(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	dir := t.TempDir()
	keys := filepath.Join(dir, "s3.key")
	if err := os.WriteFile(keys, []byte(accessKey+"\n"+secretKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url, out := serve(t, dir, "--blob-url", b.location(t), "--blob-key-file", keys)
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // 16 MiB, as much as may be
	made := call(t, http.MethodPost, url+"/v1/context", content, nil, http.StatusCreated)
	var entry struct {
		ContextKey string `json:"context_key"`
	}
	if err := json.Unmarshal(made, &entry); err != nil {
		t.Fatal(err)
	}
	at := url + "/v1/context/" + entry.ContextKey
	if n := b.objects(); n != 1 {
		t.Errorf("%d objects of one entry", n)
	}
	if got := call(t, http.MethodGet, at, nil, nil, http.StatusOK); !bytes.Equal(got, content) {
		t.Errorf("%d bytes of %d", len(got), len(content))
	}
	if got := call(t, http.MethodGet, at, nil, map[string]string{"Range": "bytes=1048570-1048585"}, http.StatusPartialContent); string(got) != "abcdef0123456789" {
		t.Errorf("a range: %q", got)
	}
	call(t, http.MethodPut, at, content[:1<<20], nil, http.StatusOK)
	settles(t, b, 1)
	call(t, http.MethodDelete, at, nil, nil, http.StatusNoContent)
	settles(t, b, 0)
	if text := out.String(); strings.Contains(text, secretKey) || strings.Contains(text, accessKey) {
		t.Error("a key is in the log")
	}
}

// TestRefusedAtTheStart: a bucket that cannot be used ends the start, in words, before anything is lost in it.
func TestRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		url, secret string
		want        string
	}{
		"a wrong secret": {b.location(t), "wrong", "status 403"},
		"no bucket":      {strings.Replace(b.location(t), "kept", "other", 1), secretKey, "NoSuchBucket"},
		"no server":      {"s3://kept?endpoint=http://" + free(t), secretKey, "connection refused"},
		"no location":    {"https://kept", secretKey, "not s3://BUCKET"},
	} {
		cmd := exec.CommandContext(t.Context(), path, "serve", "--listen", "127.0.0.1:0", "--database", "sqlite:"+filepath.Join(t.TempDir(), "a.db"), "--demo", "--blob-url", c.url)
		cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+accessKey, "AWS_SECRET_ACCESS_KEY="+c.secret)
		out, err := cmd.CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte(c.want)) || !bytes.Contains(out, []byte("--blob-url")) || bytes.Contains(out, []byte(c.secret)) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func settles(t *testing.T, b bucket, want int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); b.objects() != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d objects, want %d", b.objects(), want)
		}
	}
}

// serve starts the program, and returns where it is reached and its output.
func serve(t *testing.T, dir string, flags ...string) (url string, out *output) {
	t.Helper()
	path, err := program.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	out = start(t, exec.Command(path, append([]string{"serve", "--listen", "127.0.0.1:0", "--demo", "--database", "sqlite:" + filepath.Join(dir, "a.db")}, flags...)...))
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, rest, ok := strings.Cut(out.String(), "listening on "); ok && strings.Contains(rest, "\n") {
			url, _, _ = strings.Cut(rest, "\n")
			return url, out
		}
		if time.Now().After(end) {
			t.Fatal(out.String())
		}
	}
}

// call makes a request that must have this status.
func call(t *testing.T, method, url string, body []byte, header map[string]string, status int) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		t.Fatal(fmt.Sprintf("%s %s: %d %.300s", method, url, resp.StatusCode, got), err)
	}
	return got
}
