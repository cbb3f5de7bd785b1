// Package schema checks values against JSON Schemas that agents, users and operators wrote. All of them are hostile until
// shown otherwise: a schema loads nothing, is bounded before it is compiled, and a value is checked only after the work
// that the check takes has been counted.
//
// The library that compiles and validates can be neither interrupted nor given a budget, so everything is measured
// before it is called, in the order in which the cost arises: the text (measure), its nodes and references (document),
// regular expressions (pattern.go), the compiled schema with references followed (graph), and for each value the visits
// that its check takes at most (work). What is refused is refused by these; of the library's own errors
// only where a value does not fit and by which rule is passed on (misfit); their texts, which quote the value, go nowhere.
//
// verdicts.go keeps checks out of transactions. The package knows no store and no caller; it is given texts.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"aqueduct/internal/fault"
)

const (
	// MaxBytes bounds the text of a schema. Schemas of tools in use are a few KiB.
	MaxBytes = 64 << 10
	// MaxNodes bounds the schema with every reference followed: a few definitions that each use the next one twice double
	// with every level.
	MaxNodes = 10_000
	// MaxDepth bounds the nesting of a schema's text and of a value. The compiler names each subschema by its whole path,
	// so that its memory grows with the square of the depth.
	MaxDepth = 128
	// MaxValueBytes bounds a value. It is as large as the largest arguments or answer that a person could review.
	MaxValueBytes = 1 << 20
	// maxNumber bounds the digits and the exponent of a number: the library computes with exact fractions, and 1e999999999
	// takes a gigabyte.
	maxNumber = 1000
)

// Codes of Error. They are stable. Those of the first group are of the schema, whatever the value; the others are of a
// value.
const (
	CodeTooLarge   = "schema_too_large"
	CodeInvalid    = "schema_invalid"
	CodeReference  = "schema_reference"
	CodeTooComplex = "schema_too_complex"
	CodePattern    = "schema_pattern"

	CodeValueInvalid    = "value_invalid"
	CodeValueMismatch   = "value_mismatch"
	CodeValueTooComplex = "value_too_complex"
)

// Error is why a schema is refused or a value does not fit. Its message holds nothing of either.
type Error struct{ Code, Message string }

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Fault is an error of Check or CheckIn for the one who gave the value: a value that does not fit has the code unfit,
// whatever is wrong with it. A schema that is at fault keeps its own code, since no other value would do. Other errors
// are passed on.
func Fault(err error, unfit string) error {
	var e *Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.Code == CodeValueMismatch || e.Code == CodeValueInvalid:
		return fault.New(unfit, e.Message)
	}
	return fault.New(e.Code, e.Message)
}

// Schema is a JSON Schema. It is compiled when it is first needed, once. The zero length accepts every value. It is safe
// for concurrent use: after the compilation nothing of it changes.
type Schema struct {
	raw  json.RawMessage
	once sync.Once
	root *jsonschema.Schema
	dyn  map[string][]*jsonschema.Schema // what a $dynamicRef of that anchor may lead to
	err  *Error
}

// Of is the schema of that text. It does not compile it.
func Of(raw json.RawMessage) *Schema { return &Schema{raw: raw} }

// Compile reports what is wrong with the schema; the error is an *Error.
func (s *Schema) Compile() error {
	if len(s.raw) == 0 {
		return nil
	}
	s.once.Do(func() { s.err = s.compile() })
	if s.err != nil { // a nil *Error would be an error that is not nil
		return s.err
	}
	return nil
}

// base is the address of the schema itself. The domain .invalid exists nowhere (RFC 2606).
const base = "https://schema.invalid/value.json"

// compile goes through the measures in the order in which what they bound would cost: the text, the document, the
// patterns while the library compiles, and the graph at the end.
func (s *Schema) compile() *Error {
	if len(s.raw) > MaxBytes {
		return &Error{CodeTooLarge, fmt.Sprintf("The schema is larger than %d bytes.", MaxBytes)}
	}
	if err := measure(s.raw); err != nil {
		return &Error{CodeInvalid, "The schema " + err.Error() + "."}
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.raw))
	if err != nil {
		return &Error{CodeInvalid, "The schema is not JSON."}
	}
	// Before the compiler sees it: references to elsewhere would be loaded, and the compiler's time grows with the
	// nodes.
	if failure := new(document).check(doc); failure != nil {
		return failure
	}
	patterns := patternCompiler{}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(patterns.compile)
	if err := c.AddResource(base, doc); err != nil {
		return &Error{CodeInvalid, "It is not a JSON Schema."}
	}
	root, err := c.Compile(base)
	switch {
	case patterns.refused != nil: // the compiler's error has the expression in it
		return patterns.refused
	case err != nil:
		return &Error{CodeInvalid, "It is not a JSON Schema."}
	}
	g := graph{expanded: map[*jsonschema.Schema]int{}, dynamic: map[string][]*jsonschema.Schema{}}
	if failure := g.check(root); failure != nil {
		return failure
	}
	s.root, s.dyn = root, g.dynamic
	return nil
}

// noLoader loads nothing. The library's own loader opens any file, devices too.
type noLoader struct{}

// Load implements jsonschema.URLLoader. It is the net under document.check, which refuses such references first.
func (noLoader) Load(string) (any, error) { return nil, &Error{CodeReference, referenceMessage} }

// Check reports whether a value fits; the error is an *Error. It takes bounded time and memory, but too much of both
// to be called while a transaction is open: CheckIn is for that.
func (s *Schema) Check(value json.RawMessage) error {
	if len(s.raw) == 0 {
		return nil
	}
	if err := s.Compile(); err != nil {
		return err
	}
	if len(value) > MaxValueBytes {
		return &Error{CodeValueTooComplex, fmt.Sprintf("The value is larger than %d bytes.", MaxValueBytes)}
	}
	if err := measure(value); err != nil {
		return &Error{CodeValueInvalid, "The value " + err.Error() + "."}
	}
	// The library's reader keeps numbers as they are written, which measure has bounded.
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return &Error{CodeValueInvalid, "The value is not JSON."}
	}
	w := work{left: maxWork, dynamic: s.dyn}
	if !w.count(s.root, v, 1) {
		return &Error{CodeValueTooComplex, "Checking the value against the schema takes too much work."}
	}
	if err := s.root.Validate(v); err != nil {
		return &Error{CodeValueMismatch, misfit(err)}
	}
	return nil
}

// misfit is where and why a value does not fit, for the one who gave it, often a model: of all places the first by name, as
// the library finds them in any order. Names of members are the giver's own and are shown; what the value holds is not, as it may
// be a secret.
func misfit(err error) string {
	var e *jsonschema.ValidationError
	if !errors.As(err, &e) {
		return "It does not fit the schema."
	}
	where, why := firstOf(e)
	if where != "" {
		where = " at /" + short(where)
	}
	return "It does not fit the schema" + where + ": " + why + "."
}

// firstOf is the place that comes first, and its rule. Of alternatives the causes are other ways to fit, and are left out.
func firstOf(e *jsonschema.ValidationError) (where, why string) {
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not:
	default:
		for i, cause := range e.Causes {
			at, rule := firstOf(cause)
			if i == 0 || at < where || at == where && rule < why {
				where, why = at, rule
			}
		}
	}
	if why == "" {
		where, why = strings.Join(e.InstanceLocation, "/"), reason(e.ErrorKind)
	}
	return where, why
}

// reason is the rule that is broken.
func reason(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Required:
		return short(strings.Join(k.Missing, ", ")) + " is required"
	case *kind.Type:
		return "must be " + strings.Join(k.Want, " or ")
	case *kind.AdditionalProperties:
		return short(strings.Join(k.Properties, ", ")) + " is not among its members"
	case *kind.FalseSchema:
		return "nothing is allowed here"
	case *kind.Not:
		return "the rule is not"
	}
	if rule := strings.Join(k.KeywordPath(), "/"); rule != "" {
		return "the rule is " + rule
	}
	return "another rule is broken"
}

// short cuts names that others chose, and shows what hides in them.
func short(names string) string {
	const most = 200
	cut := ""
	if len(names) > most {
		names, cut = names[:most], "…"
	}
	quoted := strconv.QuoteToGraphic(strings.ToValidUTF8(names, ""))
	return quoted[1:len(quoted)-1] + cut
}
