package httpagent

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/agui/aguitest"
	"aqueduct/bridge"
)

var update = flag.Bool("update", false, "write the golden files")

// TestTranscripts checks testdata/transcripts: each .frames file, a frame a line as "event data", gives its .golden file,
// an output a line. The translator is pure, so with counted ids the bytes are always the same. The events of every
// transcript are also read by the strict reader.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/transcripts/*.frames")
	if err != nil || len(paths) < 8 {
		t.Fatalf("%d transcripts: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".frames"), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := transcript(t, raw)
			golden := strings.TrimSuffix(path, ".frames") + ".golden"
			if *update {
				if err := os.WriteFile(golden, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// transcript translates frames with ids that are counted, and renders the outputs.
func transcript(t *testing.T, raw []byte) []byte {
	t.Helper()
	ids := 0
	tr := newTranslator("01890000-0000-7000-8000-000000000001", func() string {
		ids++
		return fmt.Sprintf("id-%d", ids)
	})
	reader := aguitest.New()
	read := func(ev agui.Event) {
		if err := reader.Read(ev.AppendJSON(nil)); err != nil {
			t.Error(err)
		}
	}
	read(&agui.RunStarted{ThreadID: "t", RunID: "r"})
	var text bytes.Buffer
	for line := range strings.Lines(string(raw)) {
		name, data, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		outputs, err := tr.translate(nil, frame{name, []byte(data)})
		for _, o := range outputs {
			if o.Event != nil {
				read(o.Event)
			}
			text.Write(rendered(t, o))
		}
		if err != nil {
			fmt.Fprintf(&text, "refused: %v\n", err)
		}
	}
	return text.Bytes()
}

// rendered is an output in one line: the bytes of its event, or its Question or End as JSON.
func rendered(t *testing.T, o bridge.Output) []byte {
	t.Helper()
	var line []byte
	var err error
	switch {
	case o.Event != nil:
		line = o.Event.AppendJSON(nil)
	case o.Question != nil:
		line, err = json.Marshal(o.Question)
		line = append([]byte("question "), line...)
	default:
		line, err = json.Marshal(o.End)
		line = append([]byte("end "), line...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return append(line, '\n')
}
