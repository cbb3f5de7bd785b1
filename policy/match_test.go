package policy

import (
	"encoding/json"
	"strings"
	"testing"
)

func covers(tb testing.TB, match, args string) bool {
	tb.Helper()
	m, err := readMatch(json.RawMessage(match))
	if err != nil {
		return false
	}
	value, err := readStrictly([]byte(args))
	return err == nil && m.covers("", value)
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		match, args string
		want        bool
	}{
		{`{}`, `{}`, true}, {`{}`, ``, true}, {`{}`, `{"a":1}`, false}, {`{}`, `[]`, false}, {`{}`, `null`, false}, {``, `{}`, false}, {`null`, `{}`, false},
		{`{"a":1}`, `{"a":1}`, true}, {`{"a":1}`, `{"a":2}`, false}, {`{"a":1}`, `{}`, false}, {`{"a":1}`, `{"a":1,"b":1}`, false},
		{`{"a":1,"*":true}`, `{"a":1,"b":1}`, true}, {`{"a":1,"*":true}`, `{"a":1,"A":2}`, false}, {`{"*":true}`, `{"a":1,"A":2}`, false},
		{`{"*":false}`, `{}`, false}, {`{"*":1}`, `{"*":1}`, false}, {`{"\\*":1}`, `{"*":1}`, true}, {`{"\\\\*":1}`, `{"\\*":1}`, true},
		{`{"\\a":1,"a":1}`, `{"a":1}`, false},
		{`{"a":null}`, `{"a":null}`, true}, {`{"a":null}`, `{}`, false}, {`{"a":"1"}`, `{"a":1}`, false}, {`{"a":[]}`, `{"a":{}}`, false},
		{`{"a":1}`, `{"a":1.0}`, true}, {`{"a":0}`, `{"a":-0}`, true}, {`{"a":9007199254740993}`, `{"a":9007199254740992}`, false}, {`{"a":1e999999999}`, `{"a":2e999999999}`, false},
		{`{"a":{"b":[1,{"c":true}]}}`, `{"a":{"b":[1,{"c":true}]}}`, true}, {`{"a":{"b":1}}`, `{"a":{"b":1,"c":1}}`, false}, {`{"a":{"b":1}}`, `{"a":{"c":1}}`, false},
		{`{"a":{"equals":{"glob":"*"}}}`, `{"a":{"glob":"*"}}`, true}, {`{"a":{"equals":{"glob":"*"}}}`, `{"a":"x"}`, false},
		{`{"a":{"glob":"x*","path":"/"}}`, `{"a":{"glob":"x*","path":"/"}}`, false}, // no one can say what is meant
		// read in two ways
		{`{"a":1,"*":true}`, `{"a":1,"a":2}`, false}, {`{"a":1}`, `{"a":1,"a":1}`, false}, {`{"a":1,"a":1}`, `{"a":1}`, false},
		{`{"a":"\ud800"}`, `{"a":"\udfff"}`, false}, {`{"a":"\ufffd"}`, `{"a":"\ud800"}`, false}, {`{"a":"😀"}`, `{"a":"\ud83d\ude00"}`, true}, {"{\"a\":\"\xff\"}", "{\"a\":\"\xff\"}", false},
		{`{"a":1}`, `{"a":1} {"a":1}`, false}, {`{"a":1}`, `{"a":1`, false},
		// one of
		{`{"a":{"one_of":[1,"x",null]}}`, `{"a":"x"}`, true}, {`{"a":{"one_of":[1,"x"]}}`, `{"a":"y"}`, false}, {`{"a":{"one_of":[]}}`, `{"a":[]}`, false}, {`{"a":{"one_of":"x"}}`, `{"a":"x"}`, false},
		// globs
		{`{"a":{"glob":"feature/*"}}`, `{"a":"feature/x"}`, true}, {`{"a":{"glob":"feature/*"}}`, `{"a":"feature/x;rm"}`, false},
		{`{"a":{"glob":"/w/*"}}`, `{"a":"/w/../etc"}`, false}, {`{"a":{"glob":"/w/*"}}`, `{"a":"/w/..\\etc"}`, false}, {`{"a":{"glob":"*"}}`, `{"a":"x\ny"}`, false}, {`{"a":{"glob":"*"}}`, `{"a":"x\u200by"}`, false},
		{`{"a":{"glob":"git *"}}`, `{"a":"git $(rm)"}`, false}, {`{"a":{"glob":"a|*"}}`, `{"a":"a|b"}`, true}, {`{"a":{"glob":"a|*"}}`, `{"a":"a|b|c"}`, false}, {`{"a":{"glob":"*"}}`, `{"a":1}`, false}, {`{"a":{"glob":""}}`, `{"a":""}`, false}, {`{"a":{"glob":"../*"}}`, `{"a":"../x"}`, false},
	} {
		if got := covers(t, c.match, c.args); got != c.want {
			t.Errorf("%s covers %s: %t", c.match, c.args, got)
		}
	}
}

func TestPathsInside(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/w": true, "/w/": true, "/w/a": true, "/w/a/b.go": true, "/w//a": true, "/w/./a": true, "/w/..a": true, "/w/a..": true, "/w/...": true, "/w/ü": true,
		"/w2": false, "/w2/a": false, "/wa": false, "/": false, "": false, "w": false, "w/a": false, "./w": false, "/a/w": false, "/W/a": false,
		"/w/..": false, "/w/../etc": false, "/w/a/../b": false, "/w/a/../../etc": false, "/../w/a": false, "/w/..\\..\\etc": false, "/w\\..\\etc": false,
		"/w/\x00": false, "/w/a\n/etc": false, "/w/\u202ea": false, "/w/%2e%2e/etc": false, "/w/%2E%2E%2fetc": false, "~/w": false, "file:///w/a": false,
	} {
		if got := within("/w", path); got != want {
			t.Errorf("%q in /w: %t", path, got)
		}
	}
	for _, c := range []struct {
		root, path string
		want       bool
	}{
		{"/w/", "/w", true}, {"/", "/etc", true}, {"/", "etc", false}, {"src", "src/a", true}, {"src", "/src/a", false}, {"src", "srcs", false}, {"src", "./src/a", true},
		{".", "a", true}, {".", "/a", false}, {".", "../a", false}, {"/w/..", "/etc", false}, {"", "a", false}, {"~", "~/a", false}, {"src", "~/a", false}, {".", "~root/a", false},
	} {
		if got := within(c.root, c.path); got != c.want {
			t.Errorf("%q in %q: %t", c.path, c.root, got)
		}
	}
	if covers(t, `{"p":{"prefix_path":"/w"}}`, `{"p":["/w/a"]}`) || !covers(t, `{"p":{"prefix_path":"/w"}}`, `{"p":"/w/a"}`) {
		t.Error("only texts are paths")
	}
	if err := CheckMatch([]byte(`{"p":{"prefix_path":"/w/../x"}}`)); err == nil || !strings.Contains(err.Error(), `"p"`) {
		t.Errorf("%v", err)
	}
}

func FuzzMatch(f *testing.F) {
	f.Add(`{"a":{"glob":"x*"},"*":true}`, `{"a":"xy","b":[1,{"c":null}]}`)
	f.Add(`{"p":{"prefix_path":"/w"}}`, `{"p":"/w/../etc"}`)
	f.Add(`{"c":{"argv":["git","status"]}}`, `{"c":"git status; rm -rf /"}`)
	f.Add(`{"\\*":{"one_of":[1,1.0,"\ud800"]}}`, `{"*":1e9}`)
	f.Fuzz(func(t *testing.T, match, args string) {
		covers(t, match, args)
		// What an always is built for, it covers, and nothing with one field more.
		c := Call{AgentID: "a", Session: "s", By: Principal{Tenant: "t", User: "u"}, Args: []byte(args), Title: match}
		g, err := GrantFor(c, ForSession)
		if err != nil {
			return
		}
		value, _ := readStrictly(c.Args)
		m, err := readMatch(g.Match)
		if err != nil {
			t.Fatalf("%s for %q: %v", g.Match, args, err)
		}
		fields := value.(map[string]any)
		if !m.covers(match, fields) {
			t.Fatalf("%s does not cover %q", g.Match, args)
		}
		if _, taken := fields["one more"]; !taken {
			fields["one more"] = "x"
			if m.covers(match, fields) {
				t.Fatalf("%s covers more than %q", g.Match, args)
			}
		}
	})
}

func FuzzPathsInside(f *testing.F) {
	f.Add("/w/a/../../etc")
	f.Add("/w2")
	f.Fuzz(func(t *testing.T, path string) {
		if within("/w", path) && (path != "/w" && !strings.HasPrefix(path, "/w/") && !strings.Contains(path, "//") && !strings.HasPrefix(path, "/./") || strings.Contains("/"+path+"/", "/../")) {
			t.Fatalf("%q", path)
		}
	})
}
