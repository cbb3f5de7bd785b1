// This file checks the query parameters of routes. Without the check, a route would ignore a filter that is misspelled, or
// that a later version has. The client would take the unfiltered list for the filtered one.

package route

import (
	"maps"
	"slices"

	"github.com/labstack/echo/v4"

	"aqueduct/server/problem"
)

// Queries lists the parameters of each route whose query is checked, by "GET /path/:id". Other routes accept any.
type Queries map[string][]string

// strict refuses a request with a parameter that the route does not accept, before the handler runs. Names are exact: echo
// would accept "Limit" for limit.
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
