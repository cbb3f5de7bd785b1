package agui_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"aqueduct/agui"
)

func TestCheckJSON(t *testing.T) {
	t.Parallel()
	for _, ok := range []string{
		`{}`, `[]`, ` 0 `, `-0.5e+3`, `"\u00e9\ud800"`, `null`, `{"a":{"a":1},"b":[{"a":1},{"a":2}]}`,
		`[[],{},[{}]]`, "\t{\r\n\"\" : [true , false] }", strings.Repeat("[", 64) + strings.Repeat("]", 64),
	} {
		if err := agui.CheckJSON([]byte(ok), agui.MaxJSONDepth); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
	for in, want := range map[string]agui.InputError{
		``:                           {Path: "", Reason: "unexpected end of JSON"},
		`{"a":1} {}`:                 {Path: "", Reason: "more than one JSON value"},
		`{"a":[1,{"b":tru}]}`:        {Path: "/a/1/b", Reason: "not a JSON value"},
		`{"a":1,"b":2,"a":3}`:        {Path: "/a", Reason: "duplicate key"},
		`{"x":[{"a":1,"\u0061":2}]}`: {Path: "/x/0/a", Reason: "duplicate key"},
		`{"a/b":{"~":1,"~":2}}`:      {Path: "/a~1b/~0", Reason: "duplicate key"},
		"[\"a\xff\"]":                {Path: "/0", Reason: "not valid UTF-8"},
		"[\"a\nb\"]":                 {Path: "/0", Reason: "a control character in a string"},
		`["\x"]`:                     {Path: "/0", Reason: "an unknown escape in a string"},
		`[1 2]`:                      {Path: "/0", Reason: "a comma or a closing bracket is missing"},
		`[1}`:                        {Path: "/0", Reason: "a comma or a closing bracket is missing"},
		`{"a" 1}`:                    {Path: "/a", Reason: "a colon is missing"},
		`{a:1}`:                      {Path: "", Reason: "a key must be a string"},
		`[01]`:                       {Path: "/0", Reason: "a comma or a closing bracket is missing"},
		`[-]`:                        {Path: "/0", Reason: "not a number"},
		`[1.]`:                       {Path: "/0", Reason: "not a number"},
		`[1,]`:                       {Path: "/1", Reason: "not a JSON value"},
	} {
		err := agui.CheckJSON([]byte(in), agui.MaxJSONDepth)
		var bad *agui.InputError
		if !errors.As(err, &bad) || *bad != want {
			t.Errorf("%q: %v, want %v", in, err, &want)
		}
	}
}

func TestCheckJSONBoundsDepth(t *testing.T) {
	t.Parallel()
	deep := []byte(strings.Repeat(`{"a":[`, 100_000))
	err := agui.CheckJSON(deep, agui.MaxJSONDepth)
	if err == nil || !strings.Contains(err.Error(), "nested too deeply") {
		t.Error(err)
	}
	if err := agui.CheckJSON(deep, 1<<20); err == nil || !strings.Contains(err.Error(), "unexpected end") {
		t.Error("without a recursion, depth alone hurts nobody:", err)
	}
}

func TestCheckJSONManyKeys(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"k":{`)
	for i := range 50_000 {
		b.WriteString(`"key`)
		b.WriteString(strings.Repeat("x", i%7))
		b.Write(json.RawMessage(strings.TrimSpace(string(mustJSON(i)))))
		b.WriteString(`":0,`)
	}
	ok := b.String() + `"last":0}}`
	if err := agui.CheckJSON([]byte(ok), 8); err != nil {
		t.Error(err)
	}
	if err := agui.CheckJSON([]byte(b.String()+`"key0":0}}`), 8); err == nil {
		t.Error("a duplicate among many keys went unseen")
	}
}

func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// FuzzCheckJSON: encoding/json is the judge of validity.
func FuzzCheckJSON(f *testing.F) {
	for _, s := range []string{realInput, `{"a":1,"a":2}`, `[1e5,-0,"\u12aB"]`, "\"\xff\"", `{"":{"":[]}}`, `[[[[`, `nul`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		err := agui.CheckJSON(in, 1000)
		if err == nil {
			if !json.Valid(in) || !utf8.Valid(in) {
				t.Fatalf("accepted %q", in)
			}
			return
		}
		var bad *agui.InputError
		if !errors.As(err, &bad) {
			t.Fatalf("%T", err)
		}
		switch bad.Reason {
		case "duplicate key", "nested too deeply", "not valid UTF-8":
		default:
			if json.Valid(in) {
				t.Fatalf("refused %q: %v", in, err)
			}
		}
	})
}
