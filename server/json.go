package server

import (
	"encoding/json"

	"github.com/labstack/echo/v4"
)

// plainJSON writes JSON without rewriting <, > and & inside it: events go out as they are
// kept. Answers are never sniffed for HTML (X-Content-Type-Options).
type plainJSON struct{ echo.DefaultJSONSerializer }

// Serialize implements echo.JSONSerializer.
func (plainJSON) Serialize(c echo.Context, v any, indent string) error {
	enc := json.NewEncoder(c.Response())
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	return enc.Encode(v)
}
