// Package web holds the page that Aqueduct serves at "/": a small chat over the public
// routes, plain files without a build step. It knows nothing of the server that serves it.
package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
)

// Policy is the page's Content-Security-Policy. The page shows what agents say, so nothing
// that gets into it may run, load or send anything but the page's own files and routes.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

//go:embed static
var static embed.FS

// FS is the page's files, index.html at its root.
func FS() fs.FS {
	sub, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	return sub
}

// Handler serves the page with its policy. Embedded files have no times, so their content
// hash is what a browser revalidates by: a new build is seen at once.
func Handler() http.Handler {
	files := FS()
	tag := fingerprint(files)
	server := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", Policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", tag)
		server.ServeHTTP(w, r)
	})
}

// fingerprint is one tag for all files: they only make sense together.
func fingerprint(files fs.FS) string {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		sum.Write([]byte(path))
		sum.Write(data)
		return err
	})
	if err != nil {
		panic(err) // embedded files can be read
	}
	return `"` + hex.EncodeToString(sum.Sum(nil)[:8]) + `"`
}
