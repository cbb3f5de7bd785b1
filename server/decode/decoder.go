// Package decode reads what a request or a socket message holds: whole, within limits, checked; and counts who sent it.
package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-playground/validator/v10"
	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/internal/ids"
	"aqueduct/internal/strictjson"
	"aqueduct/server/limit"
	"aqueduct/server/problem"
)

// Decoder reads bodies and queries: whole, within limits, and checked. Its fields do not change after New, and the
// parts behind them have their own locks, so any goroutine may use it.
type Decoder struct {
	Limits   limit.Limits
	validate *validator.Validate
	bodies   *limit.BodyBudget
	Brakes   *limit.Brakes
}

// New makes a Decoder. It is shared by all handlers.
func New(limits limit.Limits, bodies *limit.BodyBudget, brakes *limit.Brakes) *Decoder {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(wireName)
	return &Decoder{Limits: limits, validate: v, bodies: bodies, Brakes: brakes}
}

// embedded stands for a struct that is embedded in another one: its members are the outer one's on the wire.
const embedded = "~"

// wireName is what the client calls a member.
func wireName(f reflect.StructField) string {
	for _, tag := range []string{"json", "query"} {
		if name, _, _ := strings.Cut(f.Tag.Get(tag), ","); name != "" && name != "-" {
			return name
		}
	}
	if f.Anonymous {
		return embedded
	}
	return f.Name
}

// Body reads a request's body.
func (in *Decoder) Body(c echo.Context) ([]byte, error) { return in.readBody(c, in.Limits.Body) }

// BodyError is why a body could not be read. The network's own error text is not for the client.
func BodyError(err error) error {
	if problem.Of(err).Code == problem.Internal {
		return problem.Refuse(problem.InvalidBody, "The body could not be read.")
	}
	return err
}

// JSON reads a body into v and checks v's rules. Unknown members are no fault.
func (in *Decoder) JSON(c echo.Context, v any) error {
	_, err := in.jsonWithin(c, in.Limits.Body, v)
	return err
}

// KnownJSON decodes like JSON, for a body that lists changes. It refuses a member that v does not have, because the client
// would believe that the member was changed.
func (in *Decoder) KnownJSON(c echo.Context, v any) error {
	raw, err := in.jsonWithin(c, in.Limits.Body, v)
	if raw == nil {
		return err
	}
	if name, known := strictjson.Unknown(raw, v); name != "" {
		return problem.Unknown(name, known)
	}
	return err
}

// SmallJSON is json where the sender has shown no credential yet.
func (in *Decoder) SmallJSON(c echo.Context, v any) error {
	_, err := in.jsonWithin(c, limit.SmallBody, v)
	return err
}

// The depth is checked before the decoder sees the body: encoding/json recurses. Names are taken in their exact case
// and once, because a proxy in between could read another value from "Decision" than this server does.
func (in *Decoder) jsonWithin(c echo.Context, limit int64, v any) (raw []byte, err error) {
	raw, err = in.readBody(c, min(limit, in.Limits.Body))
	if err != nil {
		return nil, err
	}
	values, err := agui.CheckBounded(raw, agui.MaxJSONDepth, strictjson.MostValues, strictjson.BoundsOf(reflect.TypeOf(v).Elem()))
	if err != nil {
		return nil, err
	}
	if err := in.Weigh(c, len(raw), values); err != nil {
		return nil, err
	}
	if len(raw) == 0 || bytes.TrimSpace(raw)[0] != '{' {
		return nil, problem.Refuse(problem.InvalidBody, "The body must be an object.")
	}
	if err := strictjson.Unmarshal(raw, v); err != nil {
		if named := ambiguous(err); named != nil {
			return nil, named
		}
		if wrong := wrongType(v, err); wrong != nil {
			return nil, wrong
		}
		return nil, problem.Refuse(problem.InvalidBody, "")
	}
	return raw, in.Check(v, problem.InvalidBody)
}

// ambiguous is the refusal of a member whose name others could read otherwise; nil when err is of another kind.
func ambiguous(err error) error {
	var name *strictjson.NameError
	if !errors.As(err, &name) {
		return nil
	}
	return problem.Refuse(problem.AmbiguousMember, fmt.Sprintf("/%s: names are case-sensitive, and stand once.", name.Known))
}

// wrongType is the refusal of a member that is of another type; nil when err is of another kind, or about the value as a whole.
func wrongType(v any, err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) || wrong.Field == "" {
		return nil
	}
	path := strings.Split(wrong.Field, ".")
	for t := reflect.TypeOf(v).Elem(); len(path) > 1 && t.Kind() == reflect.Struct; path = path[1:] { // encoding/json names embedded structs as well
		f, ok := t.FieldByName(path[0])
		if !ok || !f.Anonymous {
			break
		}
		t = f.Type
	}
	return problem.Refuse(problem.InvalidBody, fmt.Sprintf("At /%s: must be %s.", strings.Join(path, "/"), kindName(wrong.Type)))
}

// Awaits makes room in time for an answer that comes from elsewhere and may take so much
// longer than one of ours.
func (in *Decoder) Awaits(c echo.Context, longer time.Duration) {
	rc := http.NewResponseController(c.Response())
	_ = rc.SetWriteDeadline(time.Now().Add(in.Limits.AnswerTime + longer))
}

// Query reads the query parameters into v and checks v's rules. A query that cannot be parsed is refused whole:
// net/url would otherwise drop the broken part in silence.
func (in *Decoder) Query(c echo.Context, v any) error {
	if _, err := url.ParseQuery(c.Request().URL.RawQuery); err != nil {
		return problem.Refuse(problem.InvalidQuery, "")
	}
	if err := (&echo.DefaultBinder{}).BindQueryParams(c, v); err != nil {
		return problem.Refuse(problem.InvalidQuery, mistyped(c, v))
	}
	return in.Check(v, problem.InvalidQuery)
}

// mistyped names the first parameter that is no number or no boolean where one is needed.
func mistyped(c echo.Context, v any) string {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(v).Elem()) {
		name := f.Tag.Get("query")
		given, err := c.QueryParam(name), error(nil)
		switch f.Type.Kind() {
		case reflect.Bool:
			_, err = strconv.ParseBool(given)
		case reflect.Int, reflect.Int64:
			_, err = strconv.ParseInt(given, 10, 64)
		default:
		}
		if given != "" && err != nil {
			return fmt.Sprintf("%s: must be %s.", name, kindName(f.Type))
		}
	}
	return ""
}

// Check validates v by the rules in its tags. The first rule that is broken is refused under code. The client's own
// name of the member is in the refusal, not Go's.
func (in *Decoder) Check(v any, code string) error {
	err := in.validate.Struct(v)
	var fields validator.ValidationErrors
	if !errors.As(err, &fields) {
		return err
	}
	return problem.Refuse(code, fmt.Sprintf("%s: %s.", memberOf(v, fields[0]), ruleOf(fields[0])))
}

// memberOf is the path to the member of v whose rule is broken, such as message.content.
func memberOf(v any, f validator.FieldError) string {
	path := f.Namespace()
	if name := reflect.Indirect(reflect.ValueOf(v)).Type().Name(); name != "" {
		path = strings.TrimPrefix(path, name+".") // Go's, of the whole struct
	}
	return strings.ReplaceAll(path, embedded+".", "")
}

// ruleOf is the rule that is broken, in words.
func ruleOf(f validator.FieldError) string {
	unit := ""
	switch f.Kind() {
	case reflect.String:
		unit = " characters"
	case reflect.Slice, reflect.Array, reflect.Map:
		if unit = " members"; f.Type() == reflect.TypeFor[json.RawMessage]() {
			unit = " bytes"
		}
	}
	switch f.Tag() {
	case "required", "required_if":
		return "required"
	case "required_without", "required_without_all":
		return "required, unless another member stands for it"
	case "excluded_with", "isdefault":
		return "not allowed here"
	case "oneof":
		return "must be one of " + strings.Join(strings.Fields(f.Param()), ", ")
	case "min", "gte":
		return "must be at least " + f.Param() + unit
	case "max", "lte":
		return "must be at most " + f.Param() + unit
	case "eq":
		return "must be " + f.Param()
	case "uuid":
		return "must be a UUID"
	}
	return strings.TrimSpace(f.Tag() + " " + f.Param())
}

// kindName is a Go kind in the words of JSON.
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

// PathID reads an id from the path. An id of an impossible form is refused before any lookup, so it gets into no log line
// and no frame.
func PathID(c echo.Context, name string) (string, error) {
	id, err := c.Param(name), error(nil)
	if c.Request().URL.RawPath != "" { // else the path is unescaped already, and a % in it is the id's
		id, err = url.PathUnescape(id)
	}
	if err != nil || !ids.Valid(id) {
		return "", problem.Refuse(problem.InvalidID, ids.Form)
	}
	return id, nil
}

// Message reads one message into v and checks v's rules. Unknown members are no fault. raw is nil for a message that
// was larger than the socket reads.
func (in *Decoder) Message(raw []byte, v any) error {
	if raw == nil {
		return problem.Refuse(problem.TooLarge, "A message may have 1048576 bytes.")
	}
	if _, err := agui.CheckBounded(raw, agui.MaxJSONDepth, strictjson.MostMessageValues, strictjson.BoundsOf(reflect.TypeOf(v).Elem())); err != nil {
		return err
	}
	if err := strictjson.Unmarshal(raw, v); err != nil {
		if named := ambiguous(err); named != nil {
			return named
		}
		var input *agui.InputError
		if errors.As(err, &input) {
			return err
		}
		if wrong := wrongType(v, err); wrong != nil {
			return wrong
		}
		return problem.Refuse(problem.InvalidBody, "The message is not an object of its type.")
	}
	return in.Check(v, problem.InvalidBody)
}
