// Which query parameters a route takes. A filter that is misspelled, or that a later version has, would else be ignored, and
// the client would take the list of everything for what it asked for.

package route

import (
	"maps"
	"slices"

	"github.com/labstack/echo/v4"

	"aqueduct/server/problem"
)

// Queries are the parameters of each route whose query is checked, by "GET /path/:id". Routes that are not in it take any.
type Queries map[string][]string

// strict refuses a request with a parameter that the route does not take, before the handler runs. Names are exact: echo
// would take "Limit" for limit.
func (q Queries) strict(method, path string, h echo.HandlerFunc) echo.HandlerFunc {
	known, checked := q[method+" "+path]
	if !checked {
		return h
	}
	return func(c echo.Context) error {
		for _, name := range slices.Sorted(maps.Keys(c.QueryParams())) {
			if !slices.Contains(known, name) {
				return problem.Unknown(name, known)
			}
		}
		return h(c)
	}
}
