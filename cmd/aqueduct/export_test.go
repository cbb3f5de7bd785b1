package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aqueduct/agui/cassette"
	"aqueduct/internal/fault"
	"aqueduct/store/storetest"
)

// replaying is a cassette that is served.
func replaying(t *testing.T, file string, args ...string) (url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, append([]string{"replay", file}, args...), env(), output{writer, io.Discard})
		writer.CloseWithError(io.EOF)
		done <- err
	}()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	printed := make([]byte, 1<<10)
	n, err := reader.Read(printed)
	url, ok := strings.CutPrefix(strings.TrimSpace(string(printed[:n])), "listening on ")
	if err != nil || !ok {
		t.Fatalf("%q: %v", printed[:n], err)
	}
	return url
}

// posted is the answer to a POST, and its hash of positions and bytes.
func posted(t *testing.T, client *http.Client, url, body string) (said, sum string) {
	t.Helper()
	resp, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s: %v", resp.StatusCode, raw, err)
	}
	h := sha256.New()
	for _, block := range strings.Split(strings.TrimSpace(string(raw)), "\n\n") {
		if id, data, ok := strings.Cut(block, "\ndata: "); ok {
			fmt.Fprintf(h, "%s\t%s\n", strings.TrimPrefix(id, "id: "), data)
		}
	}
	return string(raw), hex.EncodeToString(h.Sum(nil))
}

// TestExportAndReplay: what is exported and served again has the ids and bytes of the original, in every dialect, on
// both databases.
func TestExportAndReplay(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "a.db") },
		"postgres": func(t *testing.T) string { return storetest.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, "--demo", "--database", database(t))
			bodies := []string{
				strings.ReplaceAll(hello, `"text"`, `"activity"`),
				strings.NewReplacer(`"R"`, `"R2"`, `"u1"`, `"u2"`, `"text"`, `"ask"`).Replace(hello),
				`{"threadId":"T","runId":"R3","protocolVersion":"1.0","messages":[],"resume":[{"interruptId":"%s","status":"resolved","payload":{"approved":true}}]}`,
			}
			var said, sums []string
			for _, body := range bodies {
				if strings.Contains(body, "%s") {
					_, id, _ := strings.Cut(said[1], `"interrupts":[{"id":"`)
					body = fmt.Sprintf(body, id[:strings.IndexByte(id, '"')])
				}
				text, sum := posted(t, r.client, r.URL+"/api/agui/chat", body)
				said, sums = append(said, text), append(sums, sum)
			}
			for _, args := range [][]string{{"--thread", "T"}, {"T"}} {
				file := r.export(args...)
				url := replaying(t, file, "--speed", "max")
				for i := range bodies {
					if _, sum := posted(t, http.DefaultClient, url, bodies[0]); sum != sums[i] {
						t.Errorf("%v: Run %d has another hash", args, i)
					}
				}
			}
			file := r.export("R2")
			if text, sum := posted(t, http.DefaultClient, replaying(t, file, "--speed", "10"), bodies[0]); text != said[1] || sum != sums[1] {
				t.Errorf("one Run:\n%s\nis served as\n%s", said[1], text)
			}
			if raw, _ := os.ReadFile(file); !strings.Contains(string(raw), sums[1]) {
				t.Errorf("the file has another hash than %s:\n%s", sums[1], raw)
			}
			old := strings.Replace(strings.ReplaceAll(bodies[0], `"R"`, `"R9"`), `"protocolVersion":"1.0",`, "", 1)
			before, _ := posted(t, r.client, r.URL+"/api/agui/chat", strings.ReplaceAll(strings.ReplaceAll(old, `"T"`, `"T0"`), `"u1"`, `"u0"`))
			again, _ := posted(t, http.DefaultClient, replaying(t, r.export("--thread", "T0"), "--speed", "max"), old)
			if before != again {
				t.Errorf("in 0.x:\n%s\nis served as\n%s", before, again)
			}
		})
	}
}

// export exports to a file.
func (r *running) export(args ...string) (file string) {
	r.t.Helper()
	out, err := program(r.t, env(), append([]string{"export", "--url", r.URL, "--token-file", r.tokens}, args...)...)
	if err != nil {
		r.t.Fatal(err)
	}
	return write(r.t, "x.cassette", out)
}

// TestExportRefuses names what is wrong, and writes nothing.
func TestExportRefuses(t *testing.T) {
	t.Parallel()
	r := start(t, "--demo", "--database", "sqlite:"+filepath.Join(t.TempDir(), "a.db"), "--demo-pace", "1h")
	resp, err := r.client.Post(r.URL+"/api/agui/chat", "application/json", strings.NewReader(hello))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 20)); err != nil { // the Run has begun
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "either a RUN or a --thread"},
		{[]string{"R", "--thread", "T"}, "either a RUN or a --thread"},
		{[]string{"none"}, "404"},
		{[]string{"--thread", "none"}, "404"},
		{[]string{"R"}, "has not ended"},
		{[]string{"--thread", "T"}, "no run has ended"},
	} {
		out, err := program(t, env(), append([]string{"export", "--url", r.URL, "--token-file", r.tokens}, c.args...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) || out != "" {
			t.Errorf("%v: %v\n%s", c.args, err, out)
		}
	}
}

// TestReplayRefuses: no file of others, no address of others, no page of others.
func TestReplayRefuses(t *testing.T) {
	t.Parallel()
	if _, err := program(t, env(), "replay", write(t, "a.har", `{"log":{}}`)); fault.CodeOf(err) != cassette.Foreign {
		t.Errorf("%v", err)
	}
	var file bytes.Buffer
	w := cassette.NewWriter(&file, cassette.Header{ThreadID: "T"})
	if err := w.Add(1, time.Unix(1000, 0), []byte(`{"type":"RUN_ERROR","message":"no"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := write(t, "x.cassette", file.String())
	for _, args := range [][]string{{"--listen", "0.0.0.0:0"}, {"--listen", "nowhere"}, {"--speed", "fast"}} {
		if _, err := program(t, env(), append([]string{"replay", path}, args...)...); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	url := replaying(t, path, "--cors-origin", "https://app.example.com")
	for _, c := range []struct {
		host, origin string
		status       int
	}{
		{"", "", 200}, {"localhost:1", "", 200}, {"evil.example", "", 403},
		{"", "http://localhost:5173", 200}, {"", "https://app.example.com", 200}, {"", "https://evil.example", 403}, {"", "null", 403},
	} {
		for _, method := range []string{http.MethodPost, http.MethodOptions} {
			req := httptest.NewRequest(method, url, strings.NewReader("{}"))
			req.RequestURI = ""
			if c.host != "" {
				req.Host = c.host
			}
			if c.origin != "" {
				req.Header.Set("Origin", c.origin)
				req.Header.Set("Access-Control-Request-Headers", "content-type,x-own")
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			want := c.status
			if method == http.MethodOptions && want == http.StatusOK {
				want = http.StatusNoContent
			}
			if resp.StatusCode != want || want < 300 && resp.Header.Get("Access-Control-Allow-Origin") != c.origin {
				t.Errorf("%s %+v: %d %v", method, c, resp.StatusCode, resp.Header)
			}
		}
	}
}
