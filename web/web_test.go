package web_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"

	"aqueduct/web"
)

func files(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(web.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(web.FS(), name)
		out[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPolicyCanBeKept finds what the Content-Security-Policy would block, and what would
// turn an agent's words into markup.
func TestPolicyCanBeKept(t *testing.T) {
	banned := map[string]*regexp.Regexp{
		"inline script":    regexp.MustCompile(`<script[^>]*>[^<]`),
		"inline style":     regexp.MustCompile(`<style|\sstyle=`),
		"inline handler":   regexp.MustCompile(`<[^>]*\son[a-z]+=`),
		"text as markup":   regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc`),
		"code from text":   regexp.MustCompile(`\beval\(|new Function|setAttribute\('(style|on)`),
		"somebody else's":  regexp.MustCompile(`(src|href|import|from|url\()\s*[=(]?\s*["']?(https?:)?//`),
		"secret in an URL": regexp.MustCompile(`[?&](access_)?token=`),
	}
	all := files(t)
	if len(all) < 10 {
		t.Fatalf("only %d files are embedded", len(all))
	}
	for name, text := range all {
		for what, re := range banned {
			if found := re.FindString(text); found != "" {
				t.Errorf("%s: %s: %q", name, what, found)
			}
		}
	}
}

// TestEveryImportIsEmbedded: a page without a build step has nothing else to notice a
// misspelt file.
func TestEveryImportIsEmbedded(t *testing.T) {
	all := files(t)
	refs := regexp.MustCompile(`(?:from '\./|src="|href=")([^"'#]+)["']`)
	seen := 0
	for name, text := range all {
		for _, m := range refs.FindAllStringSubmatch(text, -1) {
			seen++
			if _, ok := all[path.Join(path.Dir(name), m[1])]; !ok {
				t.Errorf("%s names %s, which is not there", name, m[1])
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d references found", seen)
	}
}

func TestHandler(t *testing.T) {
	get := func(path, tag string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(http.MethodGet, path, nil)
		if tag != "" {
			req.Header.Set("If-None-Match", tag)
		}
		rec := httptest.NewRecorder()
		web.Handler().ServeHTTP(rec, req)
		return rec
	}
	for path, kind := range map[string]string{"/": "text/html", "/app.js": "text/javascript", "/style.css": "text/css", "/icon.svg": "image/svg+xml"} {
		rec := get(path, "")
		if rec.Code != http.StatusOK || !strings.HasPrefix(rec.Header().Get("Content-Type"), kind) {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Header().Get("Content-Type"))
		}
		if rec.Header().Get("Content-Security-Policy") != web.Policy {
			t.Errorf("%s: no policy", path)
		}
		if again := get(path, rec.Header().Get("ETag")); again.Code != http.StatusNotModified {
			t.Errorf("%s: %d for what the browser has", path, again.Code)
		}
	}
	if rec := get("/nothing.js", ""); rec.Code != http.StatusNotFound {
		t.Errorf("nothing.js: %d", rec.Code)
	}
}
