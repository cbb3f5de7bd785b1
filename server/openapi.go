package server

import (
	_ "embed"
	"net/http"

	"github.com/labstack/echo/v4"
)

// openapiJSON lists every route but the page's files; a test compares it with what is
// mounted.
//
//go:embed openapi.json
var openapiJSON []byte

// openAPI is GET /openapi.json.
type openAPI struct{}

func (openAPI) mount(to *routes) {
	to.open(http.MethodGet, "/openapi.json", func(c echo.Context) error {
		return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, openapiJSON)
	})
}
