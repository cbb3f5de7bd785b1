package server

import (
	"io/fs"
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/web"
)

// page is the page at "/". It needs no token to load; what it then asks for does.
type page struct{ off bool }

func (p *page) mount(to *routes) {
	if p.off {
		return
	}
	serve := echo.WrapHandler(web.Handler())
	to.open(http.MethodGet, "/", serve)
	// Each file by its name, so that everything else stays a plain 404.
	err := fs.WalkDir(web.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			to.open(http.MethodGet, "/"+path, serve)
		}
		return err
	})
	if err != nil {
		panic(err) // the files are part of the program
	}
}
