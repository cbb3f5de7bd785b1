package faults_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aqueduct/test/program"
)

// contextKill is a folder of blobs, and an entry that a server writes until it dies.
type contextKill struct {
	*serverEnv
	folder string
	key    string
	kept   int64 // the newest version that was acknowledged
}

// contentOf is what the version holds: too much for a row, and nothing of another one.
func contentOf(version int64) []byte { return bytes.Repeat([]byte{byte(version), 0xff}, 100<<10) }

func (h *contextKill) serve(name func() (string, error), more ...string) {
	h.t.Helper()
	h.start(name, append(more, "AQUEDUCT_BLOB_DIR="+h.folder)...)
}

// write puts a version, or mints the entry for the first, and reports whether that was acknowledged.
func (h *contextKill) write(version int64) bool {
	method, path := http.MethodPut, "/v1/context/"+h.key
	if version == 1 {
		method, path = http.MethodPost, "/v1/context"
	}
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, bytes.NewReader(contentOf(version)))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var made struct {
		ContextKey string `json:"context_key"`
		Version    int64
	}
	if json.NewDecoder(resp.Body).Decode(&made) != nil || resp.StatusCode/100 != 2 {
		return false
	}
	h.key, h.kept = made.ContextKey, made.Version
	return true
}

// files are those of the folder.
func (h *contextKill) files() (names []string) {
	_ = filepath.WalkDir(h.folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, filepath.Base(path))
		}
		return nil // one that is deleted at this moment
	})
	return names
}

// db opens the database beside the server.
func (h *contextKill) db() *sql.DB {
	h.t.Helper()
	driver, dsn := "pgx", h.database
	if path, lite := strings.CutPrefix(h.database, "sqlite:"); lite {
		driver, dsn = "sqlite", path+"?_pragma=busy_timeout(20000)"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		h.t.Fatal(err)
	}
	return db
}

// rows are how many blobs have a row.
func (h *contextKill) rows() (n int) {
	h.t.Helper()
	db := h.db()
	defer db.Close()
	if err := db.QueryRowContext(h.t.Context(), "SELECT count(*) FROM blobs").Scan(&n); err != nil {
		h.t.Fatal(err)
	}
	return n
}

// known fails for a file without a row in blobs: no sweep would ever find it.
func (h *contextKill) known(after string) {
	h.t.Helper()
	db := h.db()
	defer db.Close()
	for _, name := range h.files() {
		id, _, _ := strings.Cut(name, ".")
		var n int
		if err := db.QueryRowContext(h.t.Context(), "SELECT count(*) FROM blobs WHERE blob_id = $1", id).Scan(&n); err != nil || n != 1 {
			h.t.Errorf("%s: %s has %d rows, %v", after, name, n, err)
		}
	}
	// What a write left half done is old by now, as it is an hour later.
	if _, err := db.ExecContext(h.t.Context(), "UPDATE blobs SET created_at = 1 WHERE status = 'PENDING'"); err != nil {
		h.t.Fatal(err)
	}
}

// TestContextFailpoints: the server dies between any two steps of writing and deleting what lies in blobs. Every version that
// it acknowledged is there, whole; no other one shows half; and of what was left half done nothing stays.
func TestContextFailpoints(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, database string) {
		for _, point := range []string{"blob_pending", "blob_durable", "blob_kept", "blob_doomed", "blob_deleted"} {
			for _, at := range []int{1, 2} {
				name := fmt.Sprint(point, ":", at)
				h := &contextKill{serverEnv: &serverEnv{t: t, database: database, agent: newAgent(t)}, folder: t.TempDir()}
				h.serve(program.Shipped)
				if !h.write(1) { // so that its key is known whatever happens
					t.Fatal(h.log())
				}
				h.kill()
				h.serve(fused, "AQUEDUCT_FAILPOINT="+name)
				for version := int64(2); version < 20 && h.write(version); version++ {
				}
				h.gone(20 * time.Second)
				h.known(name)
				h.serve(program.Shipped)
				h.whole(name)
				h.left(name, 1)
				h.drop(name)
				h.left(name, 0)
				h.kill()
			}
		}
	})
}

// whole fails unless the entry has the version that was acknowledged last, or the one that was under way.
func (h *contextKill) whole(after string) {
	h.t.Helper()
	a, err := http.Get(h.url + "/v1/context/" + h.key)
	if err != nil {
		h.t.Fatal(err)
	}
	defer a.Body.Close()
	var got bytes.Buffer
	_, err = got.ReadFrom(a.Body)
	var version int64
	_, scan := fmt.Sscanf(a.Header.Get("ETag"), `"%d"`, &version)
	if err != nil || scan != nil || a.StatusCode != http.StatusOK || version < h.kept || version > h.kept+1 || !bytes.Equal(got.Bytes(), contentOf(version)) {
		h.t.Errorf("%s: %d, version %d of %d with %d bytes: %v", after, a.StatusCode, version, h.kept, got.Len(), err)
	}
}

// left waits until there are so many files, and as many rows of blobs.
func (h *contextKill) left(after string, want int) {
	h.t.Helper()
	for end := time.Now().Add(20 * time.Second); len(h.files()) != want || h.rows() != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("%s: left are %v and %d rows\n%s", after, h.files(), h.rows(), h.log())
		}
	}
}

// drop deletes the entry.
func (h *contextKill) drop(after string) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodDelete, h.url+"/v1/context/"+h.key, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusNoContent {
		h.t.Fatalf("%s: %v %v", after, resp, err)
	}
	_ = resp.Body.Close() // it is empty
}
