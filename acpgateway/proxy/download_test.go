package proxy

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aqueduct/acpgateway/wire"
)

// zipped is an archive with these files; a name with an arrow is a link.
func zipped(t *testing.T, files ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		h := &zip.FileHeader{Name: files[i], Method: zip.Deflate}
		h.SetMode(0o744)
		if name, ok := strings.CutPrefix(files[i], "->"); ok {
			h.Name = name
			h.SetMode(0o777 | fs.ModeSymlink)
		}
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = f.Write([]byte(files[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// shelf serves bytes, and at /n?k a redirect n deep.
func shelf(t *testing.T, body []byte) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); err == nil && n > 0 {
			http.Redirect(w, r, fmt.Sprintf("/%d", n-1), http.StatusFound)
			return
		}
		if r.URL.Path == "/missing" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// placed does one downloadExtract into a workspace and returns the directory.
func placed(t *testing.T, source wire.InputSource, target wire.InputTarget) (string, error) {
	t.Helper()
	dir := t.TempDir()
	work := workspace{root: filepath.Join(dir, "work")}
	if err := work.ensure(); err != nil {
		t.Fatal(err)
	}
	ws := &workspaces{cfg: Config{Home: filepath.Join(dir, "home")}, launch: &launcher{}}
	source.Type = "httpZip"
	err := ws.place(t.Context(), work, &wire.AgentInputs{Version: 1, Items: []wire.AgentInput{
		{ID: "skill", Apply: "downloadExtract", Source: source, Target: target},
	}})
	return dir, err
}

// left lists the files below a directory.
func left(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestDownloadExtract(t *testing.T) {
	t.Parallel()
	body := zipped(t, "a.txt", "first", "bin/run", "#!/bin/sh\n", "empty/", "")
	url := shelf(t, body)
	for _, hash := range []string{"", hashOf(body), "sha256:" + hashOf(body), strings.ToUpper(hashOf(body))} {
		for root, folder := range map[string]string{"WORKSPACE": "work", "": "work", "USER_HOME": "home"} {
			dir, err := placed(t, wire.InputSource{URI: url + "/5?signature=x", ContentHash: hash}, wire.InputTarget{Root: root, Path: ".agent/skills"})
			if err != nil {
				t.Fatal(err)
			}
			at := filepath.Join(dir, folder, ".agent/skills")
			if text, err := os.ReadFile(filepath.Join(at, "a.txt")); err != nil || string(text) != "first" {
				t.Errorf("%q %v", text, err)
			}
			if info, err := os.Stat(filepath.Join(at, "bin/run")); err != nil || info.Mode().Perm()&0o100 == 0 {
				t.Errorf("%v %v", info, err)
			}
			if info, err := os.Stat(filepath.Join(at, "empty")); err != nil || !info.IsDir() {
				t.Errorf("%v %v", info, err)
			}
		}
	}
}

func TestDownloadIsBounded(t *testing.T) {
	t.Parallel()
	url := shelf(t, make([]byte, 3<<20))
	for _, uri := range []string{url, "file:///etc/passwd", "ftp://h/x", "https://", "http://127.0.0.1:1/?sig=hunter2", "://"} {
		f, err := download(t.Context(), uri, "", 2<<20)
		if err == nil {
			_ = f.Close()
			t.Errorf("%s was taken", uri)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the address is told: %v", err)
		}
	}
	f, err := download(t.Context(), url, "", 3<<20)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}

func TestRedirectsKeepEncryption(t *testing.T) {
	t.Parallel()
	request := func(url string) *http.Request {
		r, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"https://a/", "https://b/", true}, {"http://a/", "https://b/", true}, {"http://a/", "http://b/", true},
		{"https://a/", "http://b/", false}, {"http://a/", "file:///etc/passwd", false},
	} {
		if err := redirected(request(c.to), []*http.Request{request(c.from)}); (err == nil) != c.ok {
			t.Errorf("%s to %s: %v", c.from, c.to, err)
		}
	}
}

func TestADownloadThatFailsFailsTheOpen(t *testing.T) {
	t.Parallel()
	body := zipped(t, "a", "from afar")
	url := shelf(t, body)
	g := newGateway(t, oldAck)
	p := g.start(nil)
	open := func(hash string) *wire.Opened {
		g.send(`{"type":"acp_open","run_id":"r","init":{"script":"","agentInputs":{"version":1,"items":[{"id":"skill","apply":"downloadExtract",` +
			`"source":{"type":"httpZip","uri":"` + url + `","contentHash":"` + hash + `"},"target":{"root":"WORKSPACE","path":"skill"}}]}}}`)
		return want[*wire.Opened](g)
	}
	if o := open(strings.Repeat("0", 64)); o.OK || !strings.Contains(o.Error, `agent input "skill": its sha256 is `+hashOf(body)) {
		t.Errorf("%+v", o)
	}
	if o := open(hashOf(body)); !o.OK {
		t.Errorf("%+v", o)
	}
	if text, err := os.ReadFile(filepath.Join(p.cfg.Workspaces, "r/skill/a")); err != nil || string(text) != "from afar" {
		t.Errorf("%q %v", text, err)
	}
}
