// How JSON answers are written. Echo's own serializer escapes for HTML, which would change the bytes of events.

package server

import (
	"encoding/json"

	"github.com/labstack/echo/v4"
)

// plainJSON writes JSON without rewriting <, > and & inside it: events go out as they are
// kept. Answers are never sniffed for HTML (X-Content-Type-Options).
type plainJSON struct{ echo.DefaultJSONSerializer }

// Serialize implements echo.JSONSerializer. The same event then has the same bytes in a page and in a stream.
func (plainJSON) Serialize(c echo.Context, v any, indent string) error {
	enc := json.NewEncoder(c.Response())
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	return enc.Encode(v)
}
