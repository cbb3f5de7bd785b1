package translate_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aqueduct/acpgateway/translate"
)

var update = flag.Bool("update", false, "write the golden files")

type transcript struct {
	name   string
	path   string
	frames []byte
}

// transcripts are the shapes that real agents were seen to send.
func transcripts(t testing.TB) []transcript {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	var list []transcript
	for _, path := range paths {
		frames, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, transcript{strings.TrimSuffix(filepath.Base(path), ".jsonl"), path, frames})
	}
	return list
}

// TestTranscripts: testdata/<agent and shape>.jsonl gives its .golden, and none of the
// agent's ids, which all begin with UP, is in it.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	for _, c := range transcripts(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := translated(t, c.frames)
			golden := strings.TrimSuffix(c.path, ".jsonl") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			for line := range strings.Lines(got) {
				if strings.HasPrefix(line, `{"type"`) && strings.Contains(line, "UP") {
					t.Errorf("an agent's id is in the log: %s", line)
				}
			}
		})
	}
}

// translated runs a transcript. A first line "k…" is what the log knows.
func translated(t testing.TB, frames []byte) string {
	t.Helper()
	j := newJudge(t)
	cfg := translate.Config{Namespace: "session", Epoch: "1"}
	if rest, ok := bytes.CutPrefix(frames, []byte("k")); ok {
		line, more, _ := bytes.Cut(rest, []byte("\n"))
		cfg.Known, frames = knownFrom(t, line), more
	}
	tr := translate.New(cfg)
	j.begin()
	for line := range bytes.Lines(frames) {
		if line = bytes.TrimRight(line, "\n"); len(line) > 0 {
			step(j, tr, line)
		}
	}
	return strings.Join(j.lines, "\n") + "\n"
}

// knownFrom builds what a log holds as the log came to hold it: by translating the frames
// of before.
func knownFrom(t testing.TB, line []byte) translate.Known {
	t.Helper()
	var before struct {
		Frames []json.RawMessage
		Texts  []string
	}
	if err := json.Unmarshal(line, &before); err != nil {
		t.Fatal(err)
	}
	known := translate.Known{IDs: map[string]bool{}, Texts: before.Texts}
	tr := translate.New(translate.Config{Namespace: "session", Epoch: "0"})
	for _, frame := range before.Frames {
		for _, o := range tr.Update(nil, frame) {
			var ids struct{ MessageID, ToolCallID string }
			if err := json.Unmarshal(o.Event.AppendJSON(nil), &ids); err != nil {
				t.Fatal(err)
			}
			known.IDs[ids.MessageID], known.IDs[ids.ToolCallID] = true, true
		}
	}
	delete(known.IDs, "")
	return known
}
