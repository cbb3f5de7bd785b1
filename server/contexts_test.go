package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/redact"
	"aqueduct/server/auth"
	"aqueduct/store"
	"aqueduct/store/blob/disk"
)

// contextEntry is an answer about an entry.
type contextEntry struct {
	ContextKey  string `json:"context_key"`
	OwnerType   string `json:"owner_type"`
	OwnerID     string `json:"owner_id"`
	Version     int64
	ContentType string `json:"content_type"`
	Size        int64
	SHA256      string
	Metadata    json.RawMessage
	ExpiresAt   *time.Time `json:"expires_at"`
}

// entry reads an answer that must have that status.
func (h *env) entry(a answer, status int) (e contextEntry) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(a.body), &e); err != nil || a.status != status || a.header.Get("ETag") != fmt.Sprintf("%q", fmt.Sprint(e.Version)) {
		h.t.Fatalf("%d %s %v", a.status, a.body, a.header)
	}
	return e
}

// mints makes an entry.
func (h *env) mints(body string, header ...string) contextEntry {
	h.t.Helper()
	return h.entry(h.do("POST", "/v1/context", body, header...), http.StatusCreated)
}

// bytesOf is a body of a type.
func bytesOf(kind string, more ...string) []string {
	return append([]string{"Content-Type", kind}, more...)
}

// listed are the keys of a page of entries, and what comes behind it.
func (h *env) listed(query string, header ...string) (keys []string, next string) {
	h.t.Helper()
	var page struct {
		Entries []contextEntry
		Next    string
	}
	a := h.do("GET", "/v1/context"+query, "", header...)
	if err := json.Unmarshal([]byte(a.body), &page); err != nil || a.status != http.StatusOK {
		h.t.Fatal(a.status, a.body)
	}
	for _, e := range page.Entries {
		keys = append(keys, e.ContextKey)
	}
	return keys, page.Next
}

// onDisk is a folder of blobs for a plan, and how many files are in it.
func onDisk(t *testing.T) (*disk.Store, func() int) {
	t.Helper()
	folder := t.TempDir()
	blobs, err := disk.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	return blobs, func() (n int) {
		err := filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				n++
			}
			return nil // one that was deleted meanwhile
		})
		if err != nil {
			t.Error(err)
		}
		return n
	}
}

// settles waits until a count is what it has to be, by sweeps.
func (h *env) settles(count func() int, want int) {
	h.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for count() != want {
		if time.Now().After(deadline) {
			h.t.Fatalf("%d, want %d", count(), want)
		}
		if err := h.entries.Sweep(h.t.Context()); err != nil {
			h.t.Fatal(err)
		}
	}
}

// TestContextOfAUser: an entry is minted, read, replaced and deleted, whatever its content is and wherever that lies, on
// both databases; nothing is left of it then.
func TestContextOfAUser(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		blobs, files := onDisk(t)
		h := newEnvWith(t, saysN(1), plan{open: db.open, blobs: blobs})
		e := h.mints(`{"content":{"b":1, "a":[2]},"metadata":{"topic":"x"},"ttl_seconds":60}`)
		if e.OwnerType != "user" || e.OwnerID != store.LocalPrincipal().User || e.Version != 1 || e.ContentType != "application/json" || string(e.Metadata) != `{"topic":"x"}` ||
			e.ExpiresAt == nil || time.Until(*e.ExpiresAt) > time.Minute {
			t.Errorf("%+v", e)
		}
		path := "/v1/context/" + e.ContextKey
		if a := h.do("GET", path, ""); a.body != `{"b":1, "a":[2]}` || a.header.Get("ETag") != `"1"` || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%+v", a)
		}
		// A large page of HTML, which must not run in this origin, with bytes that are no text.
		page := "<script>\x00\xff" + strings.Repeat("z", 300<<10)
		next := h.entry(h.do("PUT", path, page, bytesOf("text/html; charset=x", "If-Match", `"1"`)...), 200)
		if next.Version != 2 || next.Size != int64(len(page)) || next.ContentType != "text/html; charset=x" || next.ExpiresAt == nil || files() != 1 {
			t.Errorf("%+v, %d files", next, files())
		}
		a := h.do("GET", path, "")
		if a.body != page || a.header.Get("Content-Disposition") != "attachment" || !strings.Contains(a.header.Get("Content-Security-Policy"), "sandbox") || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%d bytes %v", len(a.body), a.header)
		}
		if a := h.do("GET", path, "", "Range", "bytes=999999999-"); a.status != 416 {
			t.Errorf("a range beyond the end: %d", a.status)
		}
		if a := h.do("GET", path, "", "Range", "bytes=0-7"); a.status != 206 || a.body != "<script>" {
			t.Errorf("a range: %d %q", a.status, a.body)
		}
		if a := h.do("GET", path, "", "If-None-Match", `"2"`); a.status != 304 {
			t.Errorf("unchanged: %d", a.status)
		}
		// Another blob takes the place of the first, and it stays for good.
		again := h.entry(h.do("PUT", path+"?ttl_seconds=0", page+"!", bytesOf("text/plain")...), 200)
		if described := h.entry(h.do("GET", path+"?format=entry", ""), 200); again.Version != 3 || again.ExpiresAt != nil || described.SHA256 != again.SHA256 || string(described.Metadata) != `{"topic":"x"}` {
			t.Errorf("%+v %+v", again, described)
		}
		h.settles(files, 1)
		if a := h.do("DELETE", path, "", "If-Match", `"2"`); a.status != 412 {
			t.Errorf("another version is deleted: %d", a.status)
		}
		if a := h.do("DELETE", path, "", "If-Match", `"3"`); a.status != 204 {
			t.Errorf("%d %s", a.status, a.body)
		}
		isProblem(t, h.do("GET", path, ""), 404)
		isProblem(t, h.do("DELETE", path, ""), 404)
		isProblem(t, h.do("PUT", path, "x", bytesOf("text/plain")...), 404)
		h.settles(files, 0)
	})
}

// TestContextCompareAndSet: of many writers that read the same version one wins; those that name none are all kept, in
// versions of their own.
func TestContextCompareAndSet(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		blobs, files := onDisk(t)
		h := newEnvWith(t, saysN(1), plan{open: db.open, blobs: blobs})
		path := "/v1/context/" + h.mints(`{}`).ContextKey
		write := func(header ...string) (won, lost int) {
			var all sync.WaitGroup
			var mu sync.Mutex
			for n := range 6 {
				all.Go(func() {
					a := h.do("PUT", path, strings.Repeat(fmt.Sprint(n), 70<<10), bytesOf("text/plain", header...)...)
					mu.Lock()
					defer mu.Unlock()
					switch {
					case a.status == 200:
						won++
					case a.status == 412 && strings.Contains(a.body, `"version_conflict"`):
						lost++
					default:
						t.Errorf("%d %s", a.status, a.body)
					}
				})
			}
			all.Wait()
			return won, lost
		}
		if won, lost := write("If-Match", `"1"`); won != 1 || lost != 5 {
			t.Errorf("%d won, %d lost", won, lost)
		}
		if won, _ := write(); won != 6 {
			t.Errorf("of 6 unconditional writes %d were kept", won)
		}
		if e := h.entry(h.do("GET", path+"?format=entry", ""), 200); e.Version != 8 {
			t.Errorf("version %d", e.Version)
		}
		h.settles(files, 1)
	})
}

// atWork is an agent that hands its calls to the test and works on until the test ends it.
type atWork struct {
	h     *env
	calls chan bridge.Call
	end   chan struct{}
}

func newAtWork(t *testing.T, p plan) *atWork {
	t.Helper()
	a := &atWork{calls: make(chan bridge.Call), end: make(chan struct{})}
	a.h = newEnvWith(t, func(ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
		select {
		case a.calls <- call:
			<-a.end
		case <-ctx.Done():
		}
		saysN(1)(ctx, say, call, nil)
	}, p)
	return a
}

// prompted begins a run of a thread and returns the agent's call; the run goes on until over is called.
func (a *atWork) prompted(thread, run string) (call bridge.Call, token []string, over func()) {
	a.h.t.Helper()
	answer := a.h.open(a.h.prompt(thread, run, "hi"))
	call = <-a.calls
	return call, bearerOf(call.RunToken), func() {
		a.end <- struct{}{}
		answer.rest()
	}
}

// TestContextOfAgents: an agent has what belongs to its session, its run, its user and itself, and nothing else; what it
// writes is on the trace by its key alone, and goes with the thread.
func TestContextOfAgents(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		blobs, files := onDisk(t)
		a := newAtWork(t, plan{open: db.open, blobs: blobs})
		h := a.h
		one, token, over := a.prompted("T1", "R1")
		minted := make(map[string]string)
		for kind, id := range map[string]string{"session": "", "run": one.TurnID, "user": store.LocalPrincipal().User, "agent": "scripted"} {
			e := h.mints(fmt.Sprintf(`{"owner_type":%q,"content":"Quetzal of %[1]s"}`, kind), token...)
			if id != "" && e.OwnerID != id || e.OwnerType != kind {
				t.Errorf("%s: %+v", kind, e)
			}
			minted[kind] = "/v1/context/" + e.ContextKey
		}
		for name, body := range map[string]string{
			"another session": `{"owner_type":"session","owner_id":"T2"}`, "another run": `{"owner_type":"run","owner_id":"R3"}`,
			"another user": `{"owner_type":"user","owner_id":"eve"}`, "another agent": `{"owner_type":"agent","owner_id":"b"}`,
		} {
			if a := h.do("POST", "/v1/context", body, token...); a.status != 403 || !strings.Contains(a.body, "context_owner_forbidden") {
				t.Errorf("%s: %d %s", name, a.status, a.body)
			}
		}
		large := h.entry(h.do("POST", "/v1/context?owner_type=session&owner_id=T1", strings.Repeat("Quetzal", 20<<10), bytesOf("text/plain", token...)...), 201)
		sees := func(who string, header []string, seen ...string) {
			t.Helper()
			for kind, path := range minted {
				for _, method := range []string{"GET", "PUT"} {
					want := 404
					if slices.Contains(seen, kind) {
						want = 200
					}
					if a := h.do(method, path, "x", bytesOf("text/plain", header...)...); a.status != want {
						t.Errorf("%s: %s of %s: %d, want %d", who, method, kind, a.status, want)
					}
				}
			}
		}
		sees("the run", token, "session", "run", "user", "agent")
		for query, want := range map[string]int{"": 2, "?owner_type=run": 1, "?owner_type=user": 1, "?owner_type=agent": 1, "?owner_type=session&limit=1": 1} {
			if got, _ := h.listed(query, token...); len(got) != want {
				t.Errorf("the run lists %d entries by %q, want %d", len(got), query, want)
			}
		}
		if got, _ := h.listed(""); len(got) != 5 {
			t.Errorf("the user lists %d entries", len(got))
		}
		page, next := h.listed("?limit=3")
		if two, end := h.listed("?limit=3&after=" + next); len(page) != 3 || len(two) != 2 || end != "" || page[0] != large.ContextKey {
			t.Errorf("pages of %d and %d, %q", len(page), len(two), end)
		}
		if a := h.do("GET", "/v1/context?owner_type=session&owner_id=T2", "", token...); a.status != 403 {
			t.Errorf("the run lists another session's: %d", a.status)
		}
		over()
		sees("the user", nil, "session", "run", "user", "agent")
		isProblem(t, h.do("GET", minted["session"], "", token...), 401) // the run is over
		_, token, over = a.prompted("T1", "R2")
		sees("the next run", token, "session", "user", "agent")
		over()
		_, token, over = a.prompted("T2", "R3")
		sees("a run of another thread", token, "user", "agent")
		over()
		trace := h.do("GET", "/v1/sessions/T1/events", "").body
		if !strings.Contains(trace, large.ContextKey) || !strings.Contains(trace, "context_written") || strings.Contains(trace, "Quetzal") {
			t.Error(trace)
		}
		h.settles(files, 1)
		if a := h.do("DELETE", "/api/threads/T1", ""); a.status != 204 {
			t.Fatal(a.status, a.body)
		}
		if n := files(); n != 0 {
			t.Errorf("%d files are left of a deleted thread", n)
		}
		isProblem(t, h.do("GET", minted["session"], ""), 404)
		if a := h.do("GET", minted["user"], ""); a.status != 200 {
			t.Errorf("the user's: %d", a.status)
		}
	})
}

// TestContextOfTenants: no other user and no other tenant finds an entry, with whatever it is asked for.
func TestContextOfTenants(t *testing.T) {
	t.Parallel()
	keys, err := auth.NewKeys(auth.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	h := newEnvWith(t, saysN(1), plan{auth: static(t).WithKeys(keys)})
	person := func(tenant, user string) []string {
		return bearerOf(issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: tenant, UserClaims: auth.UserClaims{User: user, Roles: []string{auth.RoleUser, auth.RoleAdmin, auth.RoleApprover}}}, time.Hour))
	}
	ann := person("acme", "ann")
	h.open(h.requests("R1", "T", ann[1][len("Bearer "):])).rest()
	keysOf := []string{
		h.mints(`{"content":1}`, ann...).ContextKey, h.mints(`{"owner_type":"session","owner_id":"T"}`, ann...).ContextKey,
		h.mints(`{"owner_type":"agent","owner_id":"scripted"}`, ann...).ContextKey,
	}
	for name, who := range map[string][]string{"a colleague": person("acme", "bob"), "another tenant": person("other", "ann")} {
		if keys, _ := h.listed("", who...); len(keys) != 0 {
			t.Errorf("%s lists %v", name, keys)
		}
		for _, key := range keysOf {
			for _, method := range []string{"GET", "PUT", "DELETE"} {
				if a := h.do(method, "/v1/context/"+key, "", who...); a.status != 404 {
					t.Errorf("%s: %s: %d %s", name, method, a.status, a.body)
				}
			}
		}
		if a := h.do("POST", "/v1/context", `{"owner_type":"session","owner_id":"T"}`, who...); a.status != 404 {
			t.Errorf("%s mints for her thread: %d", name, a.status)
		}
	}
	if a := h.do("GET", "/v1/context/"+keysOf[0], "", ann...); a.status != 200 {
		t.Error(a.status)
	}
}

// TestContextExpires: from its time on an entry is not there, and its bytes go.
func TestContextExpires(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		blobs, files := onDisk(t)
		h := newEnvWith(t, saysN(1), plan{open: db.open, blobs: blobs})
		e := h.entry(h.do("POST", "/v1/context?ttl_seconds=1", strings.Repeat("x", 100<<10), bytesOf("application/octet-stream")...), 201)
		kept := h.entry(h.do("POST", "/v1/context?ttl_seconds=3600", strings.Repeat("y", 100<<10), bytesOf("application/octet-stream")...), 201)
		h.settles(files, 1)
		for deadline := time.Now().Add(20 * time.Second); h.do("GET", "/v1/context/"+e.ContextKey, "").status != 404; {
			if time.Now().After(deadline) {
				t.Fatal("it does not expire")
			}
		}
		if a := h.do("GET", "/v1/context/"+kept.ContextKey, ""); a.status != 200 || len(a.body) != 100<<10 {
			t.Error(a.status)
		}
	})
}

// TestContextLimits: what is too large, or one too many, is refused and leaves nothing.
func TestContextLimits(t *testing.T) {
	t.Parallel()
	blobs, files := onDisk(t)
	h := newEnvWith(t, saysN(1), plan{blobs: blobs, entryBytes: 40 << 20})
	most := strings.Repeat("\xff", 16<<20)
	first := h.entry(h.do("POST", "/v1/context", most, bytesOf("image/png")...), 201)
	if a := h.do("GET", "/v1/context/"+first.ContextKey, ""); a.body != most {
		t.Errorf("%d of %d bytes", len(a.body), len(most))
	}
	for name, c := range map[string]struct {
		method, path, body string
		header             []string
		status             int
		code               string
	}{
		"too large":            {"POST", "", most + "!", bytesOf("image/png"), 413, "body_too_large"},
		"too large a version":  {"PUT", "/" + first.ContextKey, most + "!", bytesOf("image/png"), 413, "body_too_large"},
		"a form of a stranger": {"POST", "", "a=b", bytesOf("application/x-www-form-urlencoded"), 415, "unsupported_media_type"},
		"text of a stranger":   {"POST", "", "x", bytesOf("text/plain"), 415, "unsupported_media_type"},
		"no type":              {"POST", "", "x", bytesOf(""), 415, "unsupported_media_type"},
		"compressed":           {"PUT", "/" + first.ContextKey, "x", bytesOf("image/png", "Content-Encoding", "gzip"), 415, "unsupported_media_type"},
		"a wrong owner":        {"POST", "", `{"owner_type":"team"}`, nil, 400, "invalid_body"},
		"an owner in a query":  {"POST", "?owner_type=team", "x", bytesOf("image/png"), 400, "invalid_query"},
		"a ttl below nothing":  {"POST", "", `{"ttl_seconds":-1}`, nil, 400, "invalid_body"},
		"a ttl for ever":       {"PUT", "/" + first.ContextKey + "?ttl_seconds=999999999", "x", bytesOf("image/png"), 400, "invalid_query"},
		"metadata, a text":     {"POST", "", `{"metadata":"x"}`, nil, 400, "invalid_body"},
		"much metadata":        {"POST", "", `{"metadata":{"x":"` + strings.Repeat("x", 16<<10) + `"}}`, nil, 400, "invalid_body"},
		"no such thread":       {"POST", "", `{"owner_type":"session","owner_id":"none"}`, nil, 404, "not_found"},
		"no thread":            {"POST", "", `{"owner_type":"session"}`, nil, 404, "not_found"},
		"no agent":             {"POST", "", `{"owner_type":"agent"}`, nil, 403, "context_owner_forbidden"},
		"another tag":          {"PUT", "/" + first.ContextKey, "x", bytesOf("image/png", "If-Match", `W/"1"`), 412, "version_conflict"},
		"a format":             {"GET", "/" + first.ContextKey + "?format=xml", "", nil, 400, "invalid_query"},
		"no such key":          {"GET", "/none", "", nil, 404, "not_found"},
	} {
		if a := h.do(c.method, "/v1/context"+c.path, c.body, c.header...); a.status != c.status || !strings.Contains(a.body, c.code) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	h.settles(files, 1)
	h.entry(h.do("POST", "/v1/context", most, bytesOf("image/png")...), 201)
	if a := h.do("POST", "/v1/context", most, bytesOf("image/png")...); a.status != 429 || !strings.Contains(a.body, "context_full") {
		t.Errorf("%d %s", a.status, a.body)
	}
	h.entry(h.do("PUT", "/v1/context/"+first.ContextKey, most, bytesOf("image/png")...), 200) // in the place of as much
	h.settles(files, 2)
}

// TestContextSecrets: a content with a secret in it is kept encrypted; the agent gets it as it was, the user masked.
func TestContextSecrets(t *testing.T) {
	t.Parallel()
	filter, err := redact.New([]string{`ACME-\d{4}-[a-z]+`})
	if err != nil {
		t.Fatal(err)
	}
	vault, err := redact.NewVault(redact.NewKeyLine())
	if err != nil {
		t.Fatal(err)
	}
	onBothDatabases(t, func(t *testing.T, db database) {
		folder := t.TempDir()
		blobs, err := disk.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		a := newAtWork(t, plan{open: db.open, blobs: blobs, secrets: redact.Hasher{Filter: filter, Vault: vault}})
		h := a.h
		_, token, over := a.prompted("T", "R")
		defer over()
		const word = "ACME-1234-quetzal"
		for name, text := range map[string]string{"small": "the key is " + word, "large": strings.Repeat("x ", 60<<10) + word} {
			e := h.entry(h.do("POST", "/v1/context", text, bytesOf("text/plain", token...)...), 201)
			path := "/v1/context/" + e.ContextKey
			if a := h.do("GET", path, "", token...); a.body != text || e.Size != int64(len(text)) || e.SHA256 != "" {
				t.Errorf("%s: the agent gets %d bytes", name, len(a.body))
			}
			if a := h.do("GET", path, ""); strings.Contains(a.body, word) || !strings.Contains(a.body, "[redacted]") || a.status != 200 {
				t.Errorf("%s: the user gets %.60s", name, a.body)
			}
		}
		described := h.mints(`{"metadata":{"note":"`+word+`"}}`, token...)
		if a := h.do("GET", "/v1/context/"+described.ContextKey+"?format=entry", "", token...); strings.Contains(a.body, word) || !strings.Contains(a.body, "[redacted]") {
			t.Error(a.body)
		}
		err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			raw, err := os.ReadFile(path)
			if bytes.Contains(raw, []byte(word)) {
				t.Errorf("%s has the secret", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestContextOfOtherOrigins: a page of a listed origin may write, and its browser asks before.
func TestContextOfOtherOrigins(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, saysN(1), plan{origins: []string{"https://app.example"}})
	req := httptest.NewRequest(http.MethodOptions, "/v1/context/x", nil)
	req.Header.Set("Origin", "https://app.example")
	req.Header.Set("Access-Control-Request-Method", "PUT")
	a := h.direct(req)
	if !strings.Contains(a.header.Get("Access-Control-Allow-Methods"), "PUT") || !strings.Contains(a.header.Get("Access-Control-Allow-Headers"), "if-match") ||
		!strings.Contains(a.header.Get("Access-Control-Expose-Headers"), "ETag") {
		t.Errorf("%v", a.header)
	}
	if a := h.do("PUT", "/v1/context/x", "x", bytesOf("image/png", "Origin", "https://evil.example")...); a.status != 403 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
