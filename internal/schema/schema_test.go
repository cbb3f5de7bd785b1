package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"aqueduct/internal/schema"
)

func doubling(levels int, keyword, leaf string) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/l0","$defs":{`)
	for i := range levels {
		fmt.Fprintf(&b, `"l%d":{"%s":[{"$ref":"#/$defs/l%d"},{"$ref":"#/$defs/l%d"}]},`, i, keyword, i+1, i+1)
	}
	fmt.Fprintf(&b, `"l%d":%s}}`, levels, leaf)
	return b.String()
}

func code(err error) string {
	var e *schema.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return fmt.Sprint(err)
}

func chain(n int) string {
	return strings.Repeat(`{"not":`, n) + `{}` + strings.Repeat(`}`, n)
}

func TestHostileSchemasAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ schema, want string }{
		"a device":          {`{"$ref":"file:///dev/ptmx"}`, schema.CodeReference},
		"a file":            {`{"$ref":"file:///etc/passwd"}`, schema.CodeReference},
		"relative":          {`{"$ref":"other.json"}`, schema.CodeReference},
		"far":               {`{"properties":{"a":{"$ref":"https://example.com/x"}}}`, schema.CodeReference},
		"far metaschema":    {`{"$schema":"file:///dev/ptmx"}`, schema.CodeReference},
		"far id":            {`{"$id":"file:///dev/","$ref":"ptmx"}`, schema.CodeReference},
		"dynamic":           {`{"$dynamicRef":"file:///dev/ptmx#x"}`, schema.CodeReference},
		"id in the middle":  {`{"$ref":"#/$defs/a/b","$defs":{"a":{"$id":"file:///dev/ptmx"}}}`, schema.CodeInvalid},
		"large":             {`{"title":"` + strings.Repeat("x", schema.MaxBytes) + `"}`, schema.CodeTooLarge},
		"deep":              {chain(5000), schema.CodeInvalid},
		"doubling 20":       {doubling(20, "anyOf", `{"type":"string"}`), schema.CodeTooComplex},
		"doubling 24":       {doubling(24, "anyOf", `{"type":"string"}`), schema.CodeTooComplex},
		"doubling allOf":    {doubling(24, "allOf", `true`), schema.CodeTooComplex},
		"doubling in items": {doubling(24, "prefixItems", `true`), schema.CodeTooComplex},
		"itself":            {`{"$ref":"#"}`, schema.CodeTooComplex},
		"itself by two":     {`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`, schema.CodeTooComplex},
		"repeats":           {`{"pattern":"(?:(?:a{30}){30}){30}"}`, schema.CodePattern},
		"many repeats":      {`{"pattern":"` + strings.Repeat(`\\pL{1000}`, 50) + `"}`, schema.CodePattern},
		"no expression":     {`{"pattern":"(a"}`, schema.CodePattern},
		"great exponent":    {`{"multipleOf":1e-999999999}`, schema.CodeInvalid},
		"not JSON":          {`{`, schema.CodeInvalid},
		"two values":        {`{} {}`, schema.CodeInvalid},
		"no schema":         {`{"type":"nothing"}`, schema.CodeInvalid},
		"dangling":          {`{"$ref":"#/$defs/absent"}`, schema.CodeInvalid},
	} {
		if got := code(schema.Of(json.RawMessage(c.schema)).Compile()); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if got := code(schema.Of(json.RawMessage(c.schema)).Check(json.RawMessage(`{}`))); got != c.want {
			t.Errorf("%s: a value is checked with %s, want %s", name, got, c.want)
		}
	}
}

func TestSchemasInUseWork(t *testing.T) {
	t.Parallel()
	tree := `{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","required":["v"],"properties":{"v":{"type":"integer"},"next":{"$ref":"#/$defs/node"},"kids":{"type":"array","items":{"$ref":"#/$defs/node"}}}}}}`
	for _, c := range []struct{ schema, value, want string }{
		{``, `{"anything":1}`, "<nil>"},
		{`true`, `1`, "<nil>"},
		{`false`, `1`, schema.CodeValueMismatch},
		{`{"type":"string","format":"email","pattern":"^[a-z]{1,255}@"}`, `"a@b.c"`, "<nil>"},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","$id":"https://tools.example/search","type":"object","properties":{"q":{"type":"string"}},"required":["q"],"additionalProperties":false}`, `{"q":"x"}`, "<nil>"},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["q"]}`, `{}`, schema.CodeValueMismatch},
		{tree, `{"v":1,"next":{"v":2,"kids":[{"v":3},{"v":4}]}}`, "<nil>"},
		{tree, `{"v":1,"next":{"v":2,"kids":[{"v":3},{"v":"x"}]}}`, schema.CodeValueMismatch},
		{`{"const":{"$ref":"file:///data, not a schema"}}`, `{"$ref":"file:///data, not a schema"}`, "<nil>"},
		{`{"properties":{"$ref":{"type":"string"}}}`, `{"$ref":"x"}`, "<nil>"},
		{`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, `{"type":"object","properties":{"a":{"items":{"type":"string"}}}}`, "<nil>"},
		{`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, `{"type":"nothing"}`, schema.CodeValueMismatch},
		{`{"$ref":"http://json-schema.org/draft-07/schema#"}`, `{"properties":{"a":{"type":7}}}`, schema.CodeValueMismatch},
		{`{"$dynamicAnchor":"n","type":["array","null"],"items":{"$dynamicRef":"#n"}}`, `[[null],[[]]]`, "<nil>"},
		{`{"$dynamicAnchor":"n","type":["array","null"],"items":{"$dynamicRef":"#n"}}`, `[[null],[[7]]]`, schema.CodeValueMismatch},
		{`{"type":"string","pattern":"^(?!\\.)(?!.*\\.\\.)[a-z.]+@[a-z]+$"}`, `"ada@example"`, "<nil>"}, // as zod writes an email address
		{`{"pattern":"(a)\\1|(?<=x)y|\\u0041"}`, `"anything"`, "<nil>"},
		{`{"type":"string","maxLength":3,"pattern":"(?=a)b"}`, `"abcd"`, schema.CodeValueMismatch}, // the rest of it counts
		{`{"type":"integer"}`, `1e400`, "<nil>"},
		{`{"type":"integer"}`, `1e999999999`, schema.CodeValueInvalid},
		{`{"type":"integer"}`, `{`, schema.CodeValueInvalid},
		{`{"type":"array","uniqueItems":true}`, `[1,1.0]`, schema.CodeValueMismatch},
		{`{"type":"array","items":{"type":"integer"}}`, `[` + strings.Repeat(`1,`, 50_000) + `1]`, "<nil>"},
	} {
		if got := code(schema.Of(json.RawMessage(c.schema)).Check(json.RawMessage(c.value))); got != c.want {
			t.Errorf("%.80s of %.80s: %s, want %s", c.value, c.schema, got, c.want)
		}
	}
}

// TestMisfit: who gave a value that does not fit, often a model, reads where and why, and nothing of what the value holds.
func TestMisfit(t *testing.T) {
	t.Parallel()
	const pay = `{"type":"object","required":["amount"],"properties":{"amount":{"type":"number","minimum":1},"to":{"type":"object","required":["name"]},"how":{"anyOf":[{"const":"card"},{"const":"cash"}]},"no":{"not":{"type":"string"}}},"additionalProperties":false}`
	for value, want := range map[string]string{
		`{}`:                                   "It does not fit the schema: amount is required.",
		`{"amount":"sk-1"}`:                    "It does not fit the schema at /amount: must be number.",
		`{"amount":0}`:                         "It does not fit the schema at /amount: the rule is minimum.",
		`{"amount":1,"to":{}}`:                 "It does not fit the schema at /to: name is required.",
		`{"amount":1,"how":"sk-1"}`:            "It does not fit the schema at /how: the rule is anyOf.",
		`{"amount":1,"no":"sk-1"}`:             "It does not fit the schema at /no: the rule is not.",
		`{"to":{},"how":7,"no":""}`:            "It does not fit the schema: amount is required.",
		`{"amount":0,"to":{},"how":7,"no":""}`: "It does not fit the schema at /amount: the rule is minimum.",
		`{"amount":1,"a\u202eb":1}`:            `It does not fit the schema: a\u202eb is not among its members.`,
		`{"amount":1,"` + strings.Repeat("x", 300) + `":1}`: "It does not fit the schema: " + strings.Repeat("x", 200) + "… is not among its members.",
	} {
		if got := schema.Of(json.RawMessage(pay)).Check(json.RawMessage(value)); got == nil || got.Error() != want {
			t.Errorf("%.60s: %v, want %s", value, got, want)
		}
	}
}

// costly are schemas that pass alone, with a value that makes them expensive.
func costly() map[string][2]string {
	numbers := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%d.5,", i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	names := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"n%d",`, i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	nested := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	many := `[` + strings.Repeat(`7,`, 100_000) + `7]`
	return map[string][2]string{
		"wide anyOf, many items":  {`{"items":{"$ref":"#/$defs/l0"},` + doubling(10, "anyOf", `{"type":"string"}`)[len(`{"$ref":"#/$defs/l0",`):], many},
		"recursion twice":         {`{"anyOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}`, nested},
		"recursion by patterns":   {`{"patternProperties":{"a":{"$ref":"#"},"b":{"$ref":"#"}}}`, strings.Repeat(`{"ab":`, 100) + `7` + strings.Repeat(`}`, 100)},
		"dynamic recursion":       {`{"$dynamicAnchor":"n","anyOf":[{"items":{"$dynamicRef":"#n"}},{"items":{"$dynamicRef":"#n"}}]}`, nested},
		"recursive recursion":     {`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"anyOf":[{"items":{"$recursiveRef":"#"}},{"items":{"$recursiveRef":"#"}}]}`, nested},
		"dynamic loop":            {`{"$dynamicAnchor":"n","anyOf":[{"$dynamicRef":"#n"},{"type":"string"},{"$dynamicRef":"#n"}]}`, `7`},
		"enum of numbers":         {`{"items":{"enum":[` + numbers(8_000) + `]}}`, many},
		"unique large":            {`{"uniqueItems":true}`, `[` + strings.Repeat(`{"a":`+many+`},`, 4) + `1]`},
		"pattern over a long one": {`{"items":{"pattern":"(x+x+)+y(.*a){300}"}}`, `["` + strings.Repeat("x", 400_000) + `"]`},
		"required by many":        {`{"items":{"required":[` + names(5_000) + `]}}`, `[` + strings.Repeat(`{},`, 100_000) + `{}]`},
		"many mismatches":         {`{"items":{"anyOf":[{"type":"string"},{"minimum":8},{"enum":[1]}]}}`, `[` + strings.Repeat(`7,`, 25_000) + `7]`},
		"many subschemas":         {`{"anyOf":[` + strings.Repeat(`{"minimum":8},`, 4_000) + `{}]}`, `7`},
		"large value":             {`{"type":"array"}`, `[` + strings.Repeat(`1,`, 1<<19) + `1]`},
	}
}
