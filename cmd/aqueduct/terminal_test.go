package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"
)

// hostileText acts on a terminal, turns its line around, or shows nothing: C0, DEL, C1 as a character, bidi, invisible, a tag.
const hostileText = "x\x1b[2J\x07\x7f\u009b31m\u0085\u202e\u2066\u200b\u00ad\u2028\U000e0041y"

// silent reports an error for each character that a terminal acts on or does not show.
func silent(t *testing.T, what, printed string) {
	t.Helper()
	for _, r := range printed {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			t.Errorf("%s prints %q: %.300q", what, r, printed)
			return
		}
	}
}

// TestS62Terminal: of what a terminal acts on nothing is written, wherever the text is cut, and JSON means the same.
func TestS62Terminal(t *testing.T) {
	t.Parallel()
	line, err := json.Marshal(hostileText + "日本é")
	if err != nil {
		t.Fatal(err)
	}
	raw := strings.NewReplacer(`\u2028`, "\u2028", `\u007f`, "\x7f").Replace(string(line)) // as other encoders leave it
	for cut := range len(raw) {
		var out bytes.Buffer
		w := onTerminal(onTerminal(&out))
		for _, piece := range []string{raw[:cut], raw[cut:]} {
			if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
		silent(t, fmt.Sprint("cut at ", cut), out.String())
		var back string
		if err := json.Unmarshal(out.Bytes(), &back); err != nil || back != hostileText+"日本é" {
			t.Fatalf("cut at %d: %q is read as %q: %v", cut, out.String(), back, err)
		}
	}
	var out bytes.Buffer
	fmt.Fprint(onTerminal(&out), hostileText+"\x9b2J\xc2a\tb\n")
	silent(t, "a text", out.String())
	if !strings.HasSuffix(out.String(), "\ufffd2J\ufffda\tb\n") || !strings.Contains(out.String(), `\u001b[2J\u0007\u007f\u009b`) || !strings.Contains(out.String(), `\udb40\udc41`) {
		t.Errorf("%q", out.String())
	}
}

// TestS62Commands: no command prints what a server or an agent chose as it came: not as a result, and not as an error.
func TestS62Commands(t *testing.T) {
	t.Parallel()
	quoted := strings.ReplaceAll(strings.ReplaceAll(string(must(json.Marshal(hostileText))), `\u2028`, "\u2028"), `\u007f`, "\x7f")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		event := `{"type":"CUSTOM","name":` + quoted + `,"value":` + quoted + `}`
		over := `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, "/bad"):
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"title":%s,"detail":%[1]s,"code":%[1]s}`, quoted)
		case path == "/agui":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":%s}\n\ndata: %s\n\ndata: {\"type\":%[1]s}\n\ndata: %[3]s\n\n", quoted, event, over)
		case path == "/api/runs/r/events" && r.URL.Query().Get("limit") == "":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "id: 1\x1b[2J\u202e\ndata: %s\n\nid: 2\ndata: %s\n\n", event, over)
		case path == "/api/runs/r":
			fmt.Fprintf(w, `{"id":"r","runId":%s,"threadId":%[1]s,"lastSeq":3}`, quoted)
		case path == "/api/runs/r/events" && r.URL.Query().Get("after") == "0":
			fmt.Fprintf(w, `{"events":[{"seq":1,"ts":"2026-11-26T00:00:00Z","event":{"type":"RUN_STARTED","threadId":"t","runId":"r"}},{"seq":2,"ts":"2026-11-26T00:00:00Z","event":%s},{"seq":3,"ts":"2026-11-26T00:00:00Z","event":%s}],"next":3}`, event, over)
		case path == "/api/runs/r/events":
			fmt.Fprint(w, `{"events":[],"next":3}`)
		case path == "/api/tokens":
			fmt.Fprintf(w, `{"tokens":[{"jti":%s,"kind":%[1]s,"user":%[1]s,"name":%[1]s,"roles":[%[1]s]}]}`, quoted)
		case path == "/api/service_accounts":
			fmt.Fprintf(w, `{"service_accounts":[{"id":%s,"kind":%[1]s,"user":%[1]s,"name":%[1]s}]}`, quoted)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	token := write(t, "token", strings.Repeat("t", 40)+"\n")
	client := func(url string) []string { return []string{"--url", url, "--token-file", token} }
	for what, c := range map[string]struct {
		args  []string
		fails bool
		shows string
	}{
		"tail":                     {append([]string{"tail", "r"}, client(server.URL)...), false, `\u202e`},
		"tail, refused":            {append([]string{"tail", "r"}, client(server.URL+"/bad")...), true, "x"},
		"export":                   {append([]string{"export", "r"}, client(server.URL)...), false, `\u202e`},
		"export, refused":          {append([]string{"export", "r"}, client(server.URL+"/bad")...), true, "x"},
		"doctor":                   {[]string{"doctor", server.URL + "/agui", "--patience", "5s"}, true, "x"},
		"doctor --json":            {[]string{"doctor", server.URL + "/agui", "--patience", "5s", "--json"}, true, "x"},
		"doctor, refused":          {[]string{"doctor", server.URL + "/bad", "--patience", "5s"}, true, ""},
		"token list":               {append([]string{"token", "list"}, client(server.URL)...), false, "x"},
		"token list, refused":      {append([]string{"token", "list"}, client(server.URL+"/bad")...), true, "x"},
		"service-account list":     {append([]string{"service-account", "list"}, client(server.URL)...), false, "x"},
		"an argument":              {[]string{"tail", hostileText, "--thread", "t"}, true, ""},
		"a flag that is not there": {[]string{"tail", "--" + hostileText}, true, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var out, log bytes.Buffer
			err := run(t.Context(), c.args, env(), output{&out, &log})
			if err != nil {
				fmt.Fprintln(onTerminal(&log), "aqueduct:", err) // as main does
			}
			if (err != nil) != c.fails || !strings.Contains(out.String()+log.String(), c.shows) {
				t.Fatalf("%v %q %q", err, out.String(), log.String())
			}
			silent(t, what, out.String())
			silent(t, what, log.String())
			for line := range strings.Lines(out.String()) {
				_, event, found := strings.Cut(line, "\t")
				if what == "export" {
					event, found = line, true
				}
				if (what == "tail" || what == "export") && (!found || !json.Valid([]byte(event))) {
					t.Errorf("not JSON: %q", line)
				}
				if strings.Contains(event, `"CUSTOM"`) && !strings.Contains(decoded(t, event), hostileText) {
					t.Errorf("another value: %q", event)
				}
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// decoded is a JSON text with its strings as they mean, for looking into.
func decoded(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(v)
}
