package agui_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"aqueduct/agui"
	"aqueduct/agui/tdesign"
)

// TestTravel follows the ten steps of TDesign's travel example, the question
// splitting them into two runs, in all three dialects. A TDesign page reads the
// second run on a connection of its own.
func TestTravel(t *testing.T) {
	t.Parallel()
	log := travelLog(t)
	g := new(agui.Grammar)
	for i, event := range log {
		ev, err := agui.Decode(event)
		if err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if err := g.Check(ev); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if got := ev.AppendJSON(nil); !bytes.Equal(got, event) {
			t.Errorf("line %d is encoded\n%s", i+1, got)
		}
	}
	for name, dialect := range map[string]func(state json.RawMessage, names map[string]string) agui.Dialect{
		"v1": func(json.RawMessage, map[string]string) agui.Dialect { return agui.NewV1() },
		"v0": func(json.RawMessage, map[string]string) agui.Dialect { return agui.NewV0() },
		"tdesign": func(state json.RawMessage, names map[string]string) agui.Dialect {
			return tdesign.New(state, names, func(cardID string, n int) string { return fmt.Sprintf("%s:%d", cardID, n) })
		},
	} {
		golden(t, "travel/"+name+".sse", frames(t, log, dialect))
	}
}

func travelLog(t testing.TB) [][]byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "travel", "log.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(raw), []byte("\n"))
}

// frames runs a log through a dialect, a new one for each run.
func frames(t testing.TB, log [][]byte, dialect func(json.RawMessage, map[string]string) agui.Dialect) []byte {
	t.Helper()
	var out []byte
	var d agui.Dialect
	state, err := agui.NewStateDoc(nil)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]string)
	for i, event := range log {
		if agui.TypeOf(event) == agui.TypeRunStarted {
			d = dialect(state.JSON(), names)
		}
		out = d.AppendFrames(out, int64(i+1), event)
		ev, err := agui.Decode(event)
		if err != nil {
			t.Fatal(err)
		}
		switch e := ev.(type) {
		case *agui.ToolCallStart:
			names[e.ToolCallID] = e.ToolCallName
		case *agui.StateSnapshot:
			err = state.Snapshot(e.Snapshot)
		case *agui.StateDelta:
			err = state.Patch(e.Delta)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// golden compares with a file under testdata; -update writes it.
func golden(t testing.TB, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", filepath.FromSlash(name))
	if update := flag.Lookup("update"); update != nil && update.Value.String() == "true" {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s", name, got)
	}
}

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the golden files")
	flag.Parse()
	os.Exit(m.Run())
}
