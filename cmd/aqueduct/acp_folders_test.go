package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aqueduct/store/storetest"
)

// TestServeACPBounds: an agent of --acp is bounded without a flag, and with --acp-workspaces each thread has a folder of its
// own, which goes with it.
func TestServeACPBounds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	agent := filepath.Join(dir, "agent.sh")
	if err := os.WriteFile(agent, []byte(scriptedAgent), 0o700); err != nil {
		t.Fatal(err)
	}
	source, folders := filepath.Join(dir, "source"), filepath.Join(dir, "folders")
	if err := os.Mkdir(source, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(source, "made"), []byte("the original"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, "--database", "sqlite:"+storetest.SQLite(t), "--acp", "code="+agent, "--acp-cwd", source, "--acp-workspaces", folders)
	for _, thread := range []string{"A", "B"} {
		_, said := r.post("/api/agui/chat", fmt.Sprintf(`{"threadId":%q,"runId":"R","messages":[{"id":"u","role":"user","content":"hi"}]}`, thread))
		if !strings.Contains(said, "at "+filepath.Join(folders, "code")) || !strings.Contains(said, "and the original") {
			t.Errorf("%s: %s", thread, said)
		}
	}
	entries := func() []os.DirEntry {
		list, err := os.ReadDir(filepath.Join(folders, "code"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if n := len(entries()); n != 2 {
		t.Errorf("%d folders", n)
	}
	resp, err := r.client.Get(r.URL + "/api/proxies/local-code")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var p struct {
		MaxConcurrent int `json:"max_concurrent"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&p); err != nil || p.MaxConcurrent != 4 {
		t.Errorf("%+v %v", p, err)
	}
	req, err := http.NewRequest(http.MethodDelete, r.URL+"/api/threads/A", nil)
	if err != nil {
		t.Fatal(err)
	}
	gone, err := r.client.Do(req)
	if err != nil || gone.StatusCode != http.StatusNoContent {
		t.Fatal(gone, err)
	}
	_ = gone.Body.Close()
	for deadline := time.Now().Add(20 * time.Second); len(entries()) != 1; {
		if time.Now().After(deadline) {
			t.Fatal("the folder of a deleted thread is still there")
		}
	}
}
