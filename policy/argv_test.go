package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"git status": "git|status", "  git\tstatus ": "git|status", `git "status"`: "git|status", `gi"t" st'atu's`: "git|status", `echo ""`: "echo|", `echo 'a b'`: "echo|a b",
		`echo 'a*b'`: "echo|a*b", `echo "a'b"`: "echo|a'b", "A=b git": "A=b|git", "grep -n ü .": "grep|-n|ü|.", `echo 'a\b'`: `echo|a\b`,
	} {
		if words, ok := split(command); !ok || strings.Join(words, "|") != want {
			t.Errorf("%q: %q %t", command, words, ok)
		}
	}
	for _, command := range []string{
		"", " ", "git status; rm -rf /", "git status && rm", "git status & rm", "git status | sh", "git status > x", "git < x", "git $(rm)", "git ${x}", "git `rm`", "(git)", "{ git; }",
		"git\nrm", "git\rrm", "git\x00rm", "git 'a;b'", `git "$x"`, `git "a\"b"`, `git a\ b`, `git \`, "git 'a", `git "a`, "rm *", "rm a?", "rm [ab]", "ls ~", "git #x", "git !x", "git ^x", `git "!x"`,
		"git\u00a0status", "git status\u200b", "git \u202estatus", "git\u2028rm", "git \xff", "git\vstatus", "%COMSPEC%",
	} {
		if words, ok := split(command); ok {
			t.Errorf("%q: %q", command, words)
		}
	}
}

func TestArgvGrants(t *testing.T) {
	t.Parallel()
	const grant = `{"command":{"argv":["git","status"]}}`
	for args, want := range map[string]bool{
		`{"command":"git status"}`: true, `{"command":["git","status"]}`: true, `{"command":"git 'status'"}`: true,
		`{"command":"git status; rm -rf /"}`: false, `{"command":"git status -s"}`: false, `{"command":"git"}`: false, `{"command":["git","status","x"]}`: false,
		`{"command":["git status"]}`: false, `{"command":["git",1]}`: false, `{"command":{"0":"git"}}`: false, `{"command":"git status","cwd":"/"}`: false,
		`{"command":"git status\n"}`: false, `{"command":["git","status\n"]}`: false, `{"command":"GIT status"}`: false,
	} {
		if got := covers(t, grant, args); got != want {
			t.Errorf("%s: %t", args, got)
		}
	}
	for _, wrong := range []string{`[]`, `"git"`, `["git",1]`, `["sh","-c","a;b"]`, `["git\u200b"]`} {
		if err := CheckMatch([]byte(`{"c":{"argv":` + wrong + `}}`)); err == nil {
			t.Errorf("argv %s is taken", wrong)
		}
	}
}

func FuzzArgv(f *testing.F) {
	for _, command := range []string{"git status", "git status; rm -rf /", `a "b'c" 'd"e'`, "a\\ b", "$(x)", "'", "a\u200bb"} {
		f.Add(command)
	}
	f.Fuzz(func(t *testing.T, command string) {
		words, ok := split(command)
		if ok && (len(words) == 0 || strings.ContainsAny(command, shellMeta) || hasMeta(words)) {
			t.Fatalf("%q was split into %q", command, words)
		}
		raw, err := json.Marshal(map[string]any{"c": map[string]any{"argv": append(slices.Clone(words), strings.Fields(command)...)}})
		if err != nil {
			t.Fatal(err)
		}
		args, err := json.Marshal(map[string]any{"c": command})
		if err != nil {
			t.Fatal(err)
		}
		if covers(t, string(raw), string(args)) && strings.ContainsAny(command, shellMeta) {
			t.Fatalf("%s covers %s", raw, args)
		}
	})
}
