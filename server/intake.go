package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/go-playground/validator/v10"
	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/bridge"
)

// intake reads bodies and queries: whole, within limits, and checked.
type intake struct {
	limits   Limits
	validate *validator.Validate
	bodies   *bodyBudget
	brakes   *brakes
}

func newIntake(limits Limits, bodies *bodyBudget, brakes *brakes) *intake {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(wireName)
	return &intake{limits: limits, validate: v, bodies: bodies, brakes: brakes}
}

// wireName is what the client calls a member.
func wireName(f reflect.StructField) string {
	for _, tag := range []string{"json", "query"} {
		if name, _, _ := strings.Cut(f.Tag.Get(tag), ","); name != "" && name != "-" {
			return name
		}
	}
	return f.Name
}

// body reads a request's body.
func (in *intake) body(c echo.Context) ([]byte, error) { return in.readBody(c, in.limits.Body) }

// bodyError is why a body could not be read. What the network says is nothing for the client.
func bodyError(err error) error {
	if problemOf(err).Code == bridge.CodeInternal {
		return refuse(codeInvalidBody, "The body could not be read.")
	}
	return err
}

// json reads a body into v and checks v's rules. Unknown members are no fault.
func (in *intake) json(c echo.Context, v any) error { return in.jsonWithin(c, in.limits.Body, v) }

// smallJSON is json where the sender has shown no credential yet.
func (in *intake) smallJSON(c echo.Context, v any) error { return in.jsonWithin(c, smallBody, v) }

func (in *intake) jsonWithin(c echo.Context, limit int64, v any) error {
	raw, err := in.readBody(c, min(limit, in.limits.Body))
	if err != nil {
		return err
	}
	if err := agui.CheckJSON(raw, agui.MaxJSONDepth); err != nil {
		return err
	}
	if len(raw) == 0 || bytes.TrimSpace(raw)[0] != '{' {
		return refuse(codeInvalidBody, "The body must be an object.")
	}
	if err := json.Unmarshal(raw, v); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return refuse(codeInvalidBody, fmt.Sprintf("At /%s: must be %s.", strings.ReplaceAll(wrong.Field, ".", "/"), kindName(wrong.Type)))
		}
		return refuse(codeInvalidBody, "")
	}
	return in.check(v, codeInvalidBody)
}

// awaits makes room in time for an answer that comes from elsewhere and may take so much
// longer than one of ours.
func (in *intake) awaits(c echo.Context, longer time.Duration) {
	rc := http.NewResponseController(c.Response())
	_ = rc.SetWriteDeadline(time.Now().Add(in.limits.AnswerTime + longer))
}

// query reads the query parameters into v and checks v's rules.
func (in *intake) query(c echo.Context, v any) error {
	if _, err := url.ParseQuery(c.Request().URL.RawQuery); err != nil {
		return refuse(codeInvalidQuery, "")
	}
	if err := (&echo.DefaultBinder{}).BindQueryParams(c, v); err != nil {
		return refuse(codeInvalidQuery, "")
	}
	return in.check(v, codeInvalidQuery)
}

func (in *intake) check(v any, code string) error {
	err := in.validate.Struct(v)
	var fields validator.ValidationErrors
	if !errors.As(err, &fields) {
		return err
	}
	f := fields[0]
	rule := f.Tag()
	if f.Param() != "" {
		rule += " " + f.Param()
	}
	return refuse(code, fmt.Sprintf("%s: %s.", f.Field(), rule))
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a number"
}

// pathID reads an id from the path. An id of a form nobody can have is refused rather
// than looked for, so it gets into no log line and no frame.
func pathID(c echo.Context, name string) (string, error) {
	id, err := c.Param(name), error(nil)
	if c.Request().URL.RawPath != "" { // else the path is unescaped already, and a % in it is the id's
		id, err = url.PathUnescape(id)
	}
	if err != nil || !bridge.ValidExternalID(id) {
		return "", refuse(bridge.RefusedInvalidID, bridge.InvalidIDs)
	}
	return id, nil
}

// setID puts an id into a header, which takes no more than visible ASCII: the rest is
// percent-encoded, as in a path.
func setID(h http.Header, name, id string) {
	value := make([]byte, 0, len(id))
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c > '~' || c == '%' {
			value = fmt.Appendf(value, "%%%02X", c)
		} else {
			value = append(value, c)
		}
	}
	h.Set(name, string(value))
}

// headerID is the thread a request names in its header: as it is, or percent-encoded.
func headerID(h http.Header) string {
	given := h.Get(headerThread)
	if id, err := url.PathUnescape(given); err == nil {
		return id
	}
	return given
}
