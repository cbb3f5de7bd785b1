package agui_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"aqueduct/agui"
)

func stateOf(t testing.TB, raw string) *agui.StateDoc {
	t.Helper()
	d, err := agui.NewStateDoc(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestStatePatch(t *testing.T) {
	t.Parallel()
	const big = `{"a":{"n":9007199254740993,"l":[1,2]},"b":1.50,"s":"<&>\u2028"}`
	for name, c := range map[string][3]string{
		"replace":         {big, `[{"op":"replace","path":"/b","value":2}]`, `{"a":{"n":9007199254740993,"l":[1,2]},"b":2,"s":"<&>\u2028"}`},
		"beside a number": {big, `[{"op":"add","path":"/a/l/-","value":3}]`, `{"a":{"n":9007199254740993,"l":[1,2,3]},"b":1.50,"s":"<&>\u2028"}`},
		"insert":          {big, `[{"op":"add","path":"/a/l/0","value":0}]`, `{"a":{"n":9007199254740993,"l":[0,1,2]},"b":1.50,"s":"<&>\u2028"}`},
		"remove a key":    {big, `[{"op":"remove","path":"/a"}]`, `{"b":1.50,"s":"<&>\u2028"}`},
		"new key":         {`{}`, `[{"op":"add","path":"/x~1y","value":{"n":1}}]`, `{"x/y":{"n":1}}`},
		"move":            {`{"a":{"x":1},"b":{}}`, `[{"op":"move","from":"/a/x","path":"/b/x"}]`, `{"a":{},"b":{"x":1}}`},
		"copy":            {`{"a":{"x":1}}`, `[{"op":"copy","from":"/a","path":"/b"}]`, `{"a":{"x":1},"b":{"x":1}}`},
		"test and set":    {`{"a":1}`, `[{"op":"test","path":"/a","value":1},{"op":"replace","path":"/a","value":2}]`, `{"a":2}`},
		"whole document":  {`{"a":1}`, `[{"op":"replace","path":"","value":{"b":2}}]`, `{"b":2}`},
		"null value":      {`{"a":1}`, `[{"op":"add","path":"/b","value":null}]`, `{"a":1,"b":null}`},
		"empty":           {`{"a":1}`, `[]`, `{"a":1}`},
		"empty key":       {`{}`, `[{"op":"add","path":"/","value":1}]`, `{"":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := stateOf(t, c[0])
			if err := d.Patch(json.RawMessage(c[1])); err != nil {
				t.Fatal(err)
			}
			if got := string(d.JSON()); got != c[2] {
				t.Errorf("got  %s\nwant %s", got, c[2])
			}
		})
	}
}

func TestStatePatchIsAtomic(t *testing.T) {
	t.Parallel()
	const before = `{"a":{"x":1},"b":2}`
	for _, ops := range []string{
		`[{"op":"replace","path":"/b","value":3},{"op":"remove","path":"/a/y"}]`,
		`[{"op":"replace","path":"/b","value":3},{"op":"replace","path":"/nope","value":1}]`,
		`[{"op":"replace","path":"/b","value":3},{"op":"test","path":"/a/x","value":2}]`,
		`[{"op":"replace","path":"/b","value":3},{"op":"append","path":"/b","value":"x"}]`,
		`[{"op":"replace","path":"/b","value":3},{"path":"/b"}]`,
		`[{"op":"replace","path":"b","value":3}]`,
		`[{"op":"add","path":"/a/-1","value":3}]x`,
		`[{"op":"add","path":"/q/r/s","value":3}]`,
		`{"op":"add"}`, `[1]`, `x`, ``,
		`[{"op":"add","path":"/b","value":"` + strings.Repeat("x", agui.MaxStateBytes) + `"}]`,
	} {
		d := stateOf(t, before)
		if err := d.Patch(json.RawMessage(ops)); err == nil {
			t.Errorf("%.80s: no error, %s", ops, d.JSON())
		}
		if got := string(d.JSON()); got != before {
			t.Errorf("%.80s left %s", ops, got)
		}
	}
}

func TestStateKeys(t *testing.T) {
	t.Parallel()
	d := stateOf(t, ` { "a" : [ 1 ] } `)
	if string(d.Key("a")) != "[1]" || d.Key("b") != nil {
		t.Errorf("%s %s", d.Key("a"), d.Key("b"))
	}
	for _, set := range [][2]string{{"b", `null`}, {"c", `"x"`}, {"a", ` {"y": 2} `}, {"d", `0`}, {"f", " {} "}} {
		if err := d.SetKey(set[0], json.RawMessage(set[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.SetKey("d", nil); err != nil {
		t.Fatal(err)
	}
	if got := string(d.JSON()); got != `{"a":{"y":2},"b":null,"c":"x","f":{}}` {
		t.Error(got)
	}
	if err := d.SetKey("e", json.RawMessage(`{`)); err == nil {
		t.Error("no JSON, no error")
	}
}

func TestStateThatIsNoObject(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{``: `{}`, `null`: `{}`, `[1, 2]`: `[1,2]`, `"x"`: `"x"`} {
		if got := string(stateOf(t, in).JSON()); got != want {
			t.Errorf("%s is %s", in, got)
		}
	}
	d := stateOf(t, `[1]`)
	if err := d.Patch(json.RawMessage(`[{"op":"add","path":"/-","value":2}]`)); err != nil || string(d.JSON()) != `[1,2]` {
		t.Errorf("%s, %v", d.JSON(), err)
	}
	if err := d.SetKey("k", json.RawMessage(`1`)); err != nil || string(d.JSON()) != `{"k":1}` {
		t.Errorf("%s, %v", d.JSON(), err)
	}
}

func TestStateIsBounded(t *testing.T) {
	t.Parallel()
	half := json.RawMessage(`"` + strings.Repeat("x", agui.MaxStateBytes/2) + `"`)
	d := stateOf(t, `{}`)
	if err := d.SetKey("a", half); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"key":      d.SetKey("b", half),
		"copy":     d.Patch(json.RawMessage(`[{"op":"copy","from":"/a","path":"/b"}]`)),
		"snapshot": d.Snapshot(json.RawMessage(`{"a":` + string(half) + `,"b":` + string(half) + `}`)),
	} {
		if !errors.Is(err, agui.ErrStateTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if d.Key("b") != nil {
		t.Error("too large and yet there")
	}
	deep := strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70)
	if err := d.Snapshot(json.RawMessage(deep)); err == nil {
		t.Error("too deep and yet there")
	}
	grow := `[{"op":"add","path":"/d","value":{}}`
	for range 70 {
		grow += `,{"op":"copy","from":"/d","path":"/e"},{"op":"move","from":"/e","path":"/d/x"}`
	}
	if err := d.Patch(json.RawMessage(grow + `]`)); err == nil {
		t.Error("a patch built what no body may bring")
	}
}

// FuzzPatch: a patch applies or changes nothing, whatever an agent sends, and
// what is left is within bounds.
func FuzzPatch(f *testing.F) {
	f.Add([]byte(`{"a":{"l":[1,{"x":null}]},"":1}`), []byte(`[{"op":"test","path":""},{"op":"move","from":"/a/l/1","path":"/a/l/0"}]`))
	f.Add([]byte(`[1]`), []byte(`[{"op":"copy","from":"","path":"/0"},{"op":"remove","path":"/-"}]`))
	f.Add([]byte(`{}`), []byte(`[{"op":"add","path":"","value":null},{"op":"test","path":"/x","value":null}]`))
	f.Fuzz(func(t *testing.T, state, ops []byte) {
		d, err := agui.NewStateDoc(state)
		if err != nil {
			return
		}
		before := string(d.JSON())
		err = d.Patch(ops)
		after := d.JSON()
		if err != nil && string(after) != before {
			t.Fatalf("%v changed %s to %s", err, before, after)
		}
		if !json.Valid(after) || len(after) > agui.MaxStateBytes+2 {
			t.Fatalf("%d bytes: %.200s", len(after), after)
		}
	})
}
