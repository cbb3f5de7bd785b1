// The description of the API, embedded and served as it is. It is written by hand; openapi_test.go compares its
// routes, openapi_schema_test.go its schemas with the types of this package, and openapi_judge_test.go every request and
// response of the tests with it.

package server

import (
	_ "embed"
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/server/route"
)

// openapiJSON lists every route but the page's files; a test compares it with what is
// mounted.
//
//go:embed openapi.json
var openapiJSON []byte

// openAPI is GET /openapi.json. It is open: what the API looks like is no secret, and tools fetch it without
// credentials.
type openAPI struct{}

// Mount adds the route. The bytes are part of the program and need no caching header.
func (openAPI) Mount(to *route.Routes) {
	to.Open(http.MethodGet, "/openapi.json", func(c echo.Context) error {
		return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, openapiJSON)
	})
}
