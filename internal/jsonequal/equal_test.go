package jsonequal_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"aqueduct/internal/jsonequal"
)

func TestTexts(t *testing.T) {
	t.Parallel()
	deep := func(n int, inside string) string {
		return strings.Repeat("[", n) + inside + strings.Repeat("]", n)
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[true,null]}`, " { \"b\" : [true , null], \"a\":1 } ", true},
		{`9007199254740993`, `9007199254740992`, false},
		{`{"id":9007199254740993}`, `{"id":9007199254740992}`, false},
		{`123456789012345678901234567890.0`, `12345678901234567890123456788e1`, false},
		{`123456789012345678901234567890.0`, `123456789012345678901234567891.0`, false},
		{`123456789012345678901234567890.0`, `1.2345678901234567890123456789e29`, true},
		{`1`, `1.0`, true},
		{`1`, `10e-1`, true},
		{`100`, `1E+2`, true},
		{`0.1`, `1e-1`, true},
		{`-0`, `0.00e7`, true},
		{`-1`, `1`, false},
		{`1e999999999`, `10e999999998`, true},
		{`1e99999999999999999999`, `10e99999999999999999998`, true},
		{`1e99999999999999999999`, `1e99999999999999999998`, false},
		{`"1"`, `1`, false},
		{`"a\u0062\/\n"`, `"ab/\u000a"`, true},
		{`"\ud83d\ude00"`, `"😀"`, true},
		{`"\ud83d"`, `"\ud83e"`, false},
		{`"\ud83d"`, `"\ufffd"`, false},
		{`"\ud83dx"`, `"\uD83Dx"`, true},
		{`"\ud83d\ud83d\ude00"`, `"\ud83d😀"`, true},
		{`{"a":1,"a":2}`, `{"a":2}`, false},
		{`{"a":1,"a":1}`, `{"a":1}`, false},
		{`{"a":1,"a":1}`, `{ "a":1,"a":1}`, false},
		{`{"a":1,"a":2}`, `{"a":1,"a":2}`, true},
		{`{"a":1,"\u0061":1}`, `{"a":1}`, false},
		{`["a","b"]`, `["a\",\"b"]`, false},
		{`["1\"1\"a"]`, `["1","a"]`, false},
		{`{"a":"b","c":"d"}`, `{"a":"d","c":"b"}`, false},
		{`[]`, `{}`, false},
		{`[[]]`, `[]`, false},
		{`null`, ``, false},
		{``, ``, true},
		{`{`, `{ `, false},
		{deep(200, "1"), deep(200, "1.0"), true},
		{deep(400, "1"), deep(400, "1.0"), false},
		{deep(400, "1"), deep(400, "1"), true},
	} {
		if got := jsonequal.Texts([]byte(c.a), []byte(c.b)); got != c.want {
			t.Errorf("%.60s and %.60s: %v", c.a, c.b, got)
		}
		if got := jsonequal.Texts([]byte(c.b), []byte(c.a)); got != c.want {
			t.Errorf("%.60s and %.60s: %v", c.b, c.a, got)
		}
	}
}

func decoded(t testing.TB, text []byte) any {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// FuzzTexts: the comparison is symmetric, knows a text that was only written otherwise, and
// agrees with that of decoded values where a text can be decoded without loss.
func FuzzTexts(f *testing.F) {
	f.Add([]byte(`{"a":[1,2.50,-0],"b":"\ud83d\ude00"}`), []byte(`{"b":"😀","a":[1,2.5,0]}`))
	f.Add([]byte(`{"a":1,"a":1}`), []byte(`1e5`))
	f.Add([]byte(`"\ud83d"`), []byte(`100000`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		same := jsonequal.Texts(a, b)
		if same != jsonequal.Texts(b, a) {
			t.Fatal("not symmetric")
		}
		if !json.Valid(a) || !json.Valid(b) {
			return
		}
		var spaced bytes.Buffer
		if json.Indent(&spaced, a, "", " ") == nil && jsonequal.Texts(a, append(spaced.Bytes(), '\n')) != jsonequal.Texts(a, append(a[:len(a):len(a)], ' ')) {
			t.Fatalf("%q differs from itself", a)
		}
		if same && !jsonequal.Values(decoded(t, a), decoded(t, b)) {
			t.Fatalf("%q is %q, but not when decoded", a, b)
		}
	})
}
