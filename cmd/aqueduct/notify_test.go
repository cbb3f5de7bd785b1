package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge/notify"
)

// TestServeTellsByWebhook: a target receives, signed, that a question opened, that it was delegated
// to a user, with a link for that one, and that it was settled.
func TestServeTellsByWebhook(t *testing.T) {
	t.Parallel()
	const secret = "sixteen and more characters"
	told := make(chan notify.Message, 8)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		var m notify.Message
		if err != nil || notify.Verify(secret, r.Header.Get(notify.HeaderSignature), raw, time.Now(), time.Minute) != nil || json.Unmarshal(raw, &m) != nil {
			t.Errorf("%v %s", err, raw)
		}
		told <- m
	}))
	t.Cleanup(target.Close)
	dir := t.TempDir()
	r := start(t, "--demo", "--database", "sqlite:"+filepath.Join(dir, "a.db"), "--signing-key-file", filepath.Join(dir, "key"),
		"--public-url", "https://here.example", "--outbound", "127.0.0.0/8",
		"--webhooks", "[{name: ops, url: "+target.URL+", secret_file: "+write(t, "secret", secret)+"}]")
	r.post("/api/agui/chat", strings.Replace(hello, `"text"`, `"ask"`, 1))
	opened := <-told
	if opened.Type != notify.QuestionOpened || opened.Tool != "delete_folder" || opened.Link == "" {
		t.Fatalf("%+v", opened)
	}
	if code, body := r.post("/api/approvals/"+opened.ID+"/delegate", `{"to":"bea"}`); code != http.StatusOK {
		t.Fatal(code, body)
	}
	handed := <-told
	if handed.Type != notify.QuestionOpened || handed.ID != opened.ID || handed.Link == "" || handed.Link == opened.Link {
		t.Errorf("%+v", handed)
	}
	resp, err := http.Get(r.URL + strings.TrimPrefix(handed.Link, "https://here.example"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if page, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(page), "bea") {
		t.Errorf("%d %v %s", resp.StatusCode, err, page)
	}
	if code, body := r.post("/api/approvals/"+opened.ID+"/decision", `{"decision":"reject"}`); code != http.StatusOK {
		t.Error(code, body)
	}
	if m := <-told; m.Type != notify.QuestionSettled || m.Status != "REJECTED" || m.Link != "" {
		t.Errorf("%+v", m)
	}
}
