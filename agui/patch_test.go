package agui_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"aqueduct/agui"
)

// If this fails, a state holds another value than RFC 6902 and RFC 6901 say, or an agent's valid patch is dropped.
func TestPatchAsTheRFCsSay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ doc, patch, want string }{
		{`{"n":1}`, `[{"op":"test","path":"/n","value":1.0}]`, `{"n":1}`},
		{`{"n":1}`, `[{"op":"test","path":"/n","value":1e0}]`, `{"n":1}`},
		{`{"n":1200}`, `[{"op":"test","path":"/n","value":0.12E+4}]`, `{"n":1200}`},
		{`{"n":-0}`, `[{"op":"test","path":"/n","value":0.00}]`, `{"n":-0}`},
		{`{"n":{"a":[1e2,"\u0041"]}}`, `[{"op":"test","path":"/n","value":{"a":[100,"A"]}}]`, `{"n":{"a":[1e2,"\u0041"]}}`},
		{`{"n":9007199254740993}`, `[{"op":"test","path":"/n","value":9007199254740993.0}]`, `{"n":9007199254740993}`},
		{`{"n":9007199254740993}`, `[{"op":"test","path":"/n","value":9007199254740992}]`, ""},
		{`{"n":1e400}`, `[{"op":"test","path":"/n","value":10e399}]`, `{"n":1e400}`},
		{`{"n":1e400}`, `[{"op":"test","path":"/n","value":1e401}]`, ""},
		{`{"n":1}`, `[{"op":"test","path":"/n","value":-1}]`, ""},
		{`{"n":1}`, `[{"op":"test","path":"/n","value":"1"}]`, ""},
		{`{"n":0}`, `[{"op":"test","path":"/n","value":false}]`, ""},
		{`{"n":[]}`, `[{"op":"test","path":"/n","value":{}}]`, ""},
		{`{"a":1,"b":2}`, `[{"op":"test","path":"","value":{"b":2,"a":1}}]`, `{"a":1,"b":2}`},
		{`{"n":null}`, `[{"op":"test","path":"/n","value":null}]`, `{"n":null}`},
		{`{}`, `[{"op":"test","path":"/n","value":null}]`, ""},
		{`{}`, `[{"op":"add","path":"/n","value":null},{"op":"test","path":"/n","value":null}]`, `{"n":null}`},

		{`{"":{"":1}}`, `[{"op":"replace","path":"//","value":2}]`, `{"":{"":2}}`},
		{`{"":1,"a":{"":2}}`, `[{"op":"test","path":"/","value":1},{"op":"test","path":"/a/","value":2}]`, `{"":1,"a":{"":2}}`},
		{`{"":1,"a":2}`, `[{"op":"copy","from":"/","path":"/b"},{"op":"move","from":"/a","path":"/"}]`, `{"":2,"b":1}`},
		{`{"a":{"":1,"x":2}}`, `[{"op":"remove","path":"/a/"}]`, `{"a":{"x":2}}`},
		{`{"a":1}`, `[{"op":"remove","path":"/"}]`, ""},
		{`{"a":1}`, `[{"op":"replace","path":"/","value":2}]`, ""},
		{`{"a":[1]}`, `[{"op":"add","path":"/a/","value":2}]`, ""},

		{`{"001":1}`, `[{"op":"replace","path":"/001","value":2}]`, `{"001":2}`},
		{`[1,2]`, `[{"op":"replace","path":"/01","value":3}]`, ""},
		{`[1]`, `[{"op":"add","path":"/2","value":3}]`, ""},
		{`[1]`, `[{"op":"replace","path":"/-","value":3}]`, ""},
		{`[1]`, `[{"op":"add","path":"/4294967296","value":3}]`, ""},
		{`{"a":1}`, `[{"op":"add","path":"/a/b","value":3}]`, ""},
		{`{"a":1}`, `[{"op":"add","path":"/b","value":3},{"op":"copy","from":"","path":"/c"}]`, `{"a":1,"b":3,"c":{"a":1,"b":3}}`},
		{`{"a":{"x":1}}`, `[{"op":"move","from":"/a","path":""}]`, `{"x":1}`},
		{`{"a":1}`, `[{"op":"move","from":"/a","path":"/a"}]`, `{"a":1}`},
		{`{"a":{}}`, `[{"op":"move","from":"/a","path":"/a/b"}]`, ""},
		{`[{"a":1},{"b":2}]`, `[{"op":"move","from":"/0","path":"/0/x"}]`, ""},
		{`{"a":1}`, `[{"op":"remove","path":""}]`, ""},
		{`{"a":1}`, `[{"op":"replace","path":"","value":7}]`, `7`},
		{`{"a":1}`, `[{"op":"add","path":"/b","value":2,"from":null,"note":[]}]`, `{"a":1,"b":2}`},
		{`{"b":1,"a":2}`, `[{"op":"remove","path":"/b"},{"op":"test","path":"/a","value":2},{"op":"add","path":"/b","value":3}]`, `{"a":2,"b":3}`},

		// Where the official clients' library departs from the RFC, the patch is refused: no client would have this state.
		{`[1,{"b":2},{"c":3}]`, `[{"op":"move","from":"/0","path":"/1/x"}]`, `[{"b":2},{"c":3,"x":1}]`},
		{`[1,2,{"c":3}]`, `[{"op":"move","from":"/0","path":"/1/x"}]`, ""},
		{`{"o":{"hasOwnProperty":1}}`, `[{"op":"test","path":"/o","value":{"hasOwnProperty":1}}]`, ""},
		{`{"a":{}}`, `[{"op":"add","path":"/__proto__","value":1}]`, ""},
	} {
		got, err := agui.ApplyPatch(json.RawMessage(c.doc), json.RawMessage(c.patch))
		if c.want == "" && err == nil || c.want != "" && (err != nil || string(got) != c.want) {
			t.Errorf("%s with %s is %s, %v; want %s", c.doc, c.patch, got, err, c.want)
		}
	}
}

// If this fails, a valid patch is dropped for the names of its keys and the number of its operations.
func TestPatchOfManyOperations(t *testing.T) {
	t.Parallel()
	keys := func(form string) func(i int) string { return func(i int) string { return fmt.Sprintf(form, i) } }
	for name, key := range map[string]func(i int) string{
		"padded": keys("%04d"), "negative": keys("-%d"), "phone": keys("+49%d"), "plain": keys("k%d"), "under the empty key": keys("/n%d"),
	} {
		const n = 5000
		ops := []string{`{"op":"add","path":"/s","value":{"":{},"nil":null}}`, `{"op":"test","path":"/s/nil","value":null}`}
		for i := range n {
			ops = append(ops, fmt.Sprintf(`{"op":"add","path":"/s/%s","value":%d}`, key(i), i))
		}
		for i := range n - 1 {
			ops = append(ops, fmt.Sprintf(`{"op":"remove","path":"/s/%s"}`, key(i)))
		}
		ops = append(ops, fmt.Sprintf(`{"op":"move","from":"/s/%s","path":"/last"}`, key(n-1)))
		doc := stateOf(t, `{}`)
		if err := doc.Patch(json.RawMessage("[" + strings.Join(ops, ",") + "]")); err != nil || string(doc.JSON()) != `{"s":{"":{},"nil":null},"last":4999}` {
			t.Errorf("keys that are %s: %.200s, %v", name, doc.JSON(), err)
		}
	}
}

// If this fails, an agent's patch of one event holds a processor for as long as it likes.
func TestPatchIsBoundedByItsWork(t *testing.T) {
	t.Parallel()
	long := `{"a":[0` + strings.Repeat(",0", 100_000) + `]}`
	many := func(op string, n int) json.RawMessage {
		return json.RawMessage("[" + strings.Repeat(op, n) + `{"op":"add","path":"/z","value":0}]`)
	}
	for name, patch := range map[string]json.RawMessage{
		"front of an array": many(`{"op":"add","path":"/a/0","value":0},`, 25_000),
		"whole values":      many(`{"op":"test","path":"/a","value":[0`+strings.Repeat(",0", 100_000)+`]},`, 200),
		"copies":            many(`{"op":"copy","from":"","path":"/b"},`, 60),
	} {
		if _, err := agui.ApplyPatch(json.RawMessage(long), patch); err == nil || !strings.Contains(err.Error(), "costs too much") {
			t.Errorf("%s: %v", name, err)
		}
	}
	front := many(`{"op":"add","path":"/a/0","value":0},`, 1200) // 120 million elements are moved
	if _, err := agui.ApplyPatch(json.RawMessage(long), front); err != nil {
		t.Errorf("a long patch on a long array: %v", err)
	}
}

// FuzzPatchRoads: the library, where it is used, makes of a patch what the tree makes of it. A test of the document makes the
// patch go to the tree and changes nothing.
func FuzzPatchRoads(f *testing.F) {
	f.Add([]byte(`{"a":{"l":[1,{"x":null}]},"b":1}`), []byte(`[{"op":"add","path":"/a/l/1","value":{}},{"op":"remove","path":"/a/l/2/x"},{"op":"replace","path":"/b","value":[]}]`))
	f.Add([]byte(`[[1],2]`), []byte(`[{"op":"add","path":"/0/-","value":"x"},{"op":"remove","path":"/1"}]`))
	f.Fuzz(func(t *testing.T, state, ops []byte) {
		var list []json.RawMessage
		if agui.CheckJSON(state, agui.MaxJSONDepth) != nil || agui.CheckJSON(ops, agui.MaxJSONDepth) != nil || json.Unmarshal(ops, &list) != nil {
			return
		}
		one, err1 := agui.ApplyPatch(state, ops)
		list = append([]json.RawMessage{json.RawMessage(`{"op":"test","path":"","value":` + string(state) + `}`)}, list...)
		behind, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		two, err2 := agui.ApplyPatch(state, behind)
		if (err1 == nil) != (err2 == nil) {
			t.Fatalf("%s with %s: %v by itself, %v behind a test", state, ops, err1, err2)
		}
		if err1 != nil {
			return
		}
		if _, err := agui.ApplyPatch(one, json.RawMessage(`[{"op":"test","path":"","value":`+string(two)+`}]`)); err != nil {
			t.Fatalf("%s with %s: %s by itself, %s behind a test", state, ops, one, two)
		}
	})
}
