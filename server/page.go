// The page at "/": the debug console and inbox that web embeds. Operators switch it off with --no-page.

package server

import (
	"io/fs"
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/server/route"
	"aqueduct/web"
)

// page is the page at "/". It needs no token to load; what it then asks for does.
type page struct{ off bool }

// Mount adds one route for each embedded file. A wildcard would make every misspelled path of the API a page of HTML.
func (p *page) Mount(to *route.Routes) {
	if p.off {
		return
	}
	serve := echo.WrapHandler(web.Handler())
	to.Open(http.MethodGet, "/", serve)
	// Each file by its name, so that everything else stays a plain 404.
	err := fs.WalkDir(web.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			to.Open(http.MethodGet, "/"+path, serve)
		}
		return err
	})
	if err != nil {
		panic(err) // the files are part of the program
	}
}
