// The description of the API, embedded and served as it is. It is written by hand; openapi_test.go compares its
// routes, openapi_schema_test.go its schemas with the types of this package, and openapi_judge_test.go every request and
// response of the tests with it.

package server

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

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

// pathParam matches a path parameter in openapi.json.
var pathParam = regexp.MustCompile(`{(\w+)}`)

// listQueries returns the query parameters of the routes that answer GET with JSON, from openapi.json. The description
// decides, so a parameter that it lacks does not work. Routes that only stream accept any, because clients of EventSource add
// their own. So do routes with x-any-query, whose clients are made for another server's API.
func listQueries() (route.Queries, error) {
	var doc struct {
		Paths map[string]struct {
			Get *struct {
				AnyQuery   bool `json:"x-any-query"`
				Parameters []struct {
					Name, In string
				}
				Responses map[string]struct {
					Content map[string]json.RawMessage
				}
			}
		}
	}
	if err := json.Unmarshal(openapiJSON, &doc); err != nil {
		return nil, fmt.Errorf("server: openapi.json: %w", err)
	}
	queries := make(route.Queries)
	for path, item := range doc.Paths {
		if item.Get == nil || item.Get.AnyQuery || !strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/v1/") {
			continue
		}
		if _, answersJSON := item.Get.Responses["200"].Content[echo.MIMEApplicationJSON]; !answersJSON {
			continue
		}
		names := []string{}
		for _, p := range item.Get.Parameters {
			if p.In == "query" {
				names = append(names, p.Name)
			}
		}
		queries["GET "+pathParam.ReplaceAllString(path, ":$1")] = names
	}
	return queries, nil
}
