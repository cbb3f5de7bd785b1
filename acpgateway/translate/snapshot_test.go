package translate_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"aqueduct/acpgateway/translate"
)

// TestTranscriptsTakenUpAnywhere: a Translator that takes another's place between any two frames
// writes the same log, but for ids of what the agent gave none.
func TestTranscriptsTakenUpAnywhere(t *testing.T) {
	t.Parallel()
	loads := func(c transcript) bool { return c.frames[0] == 'k' } // begun with a Translator of its own
	for _, c := range slices.DeleteFunc(transcripts(t), loads) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			want := shape(run(t, c.frames, nil))
			n := bytes.Count(c.frames, []byte("\n"))
			for at := range n {
				if got := shape(run(t, c.frames, func(i int) bool { return i == at })); got != want {
					t.Fatalf("before frame %d: got\n%s\nwant\n%s", at, got, want)
				}
			}
			always := shape(run(t, c.frames, func(int) bool { return true }))
			if always != want {
				t.Errorf("before each frame: got\n%s\nwant\n%s", always, want)
			}
		})
	}
}

// run is a transcript's log, by Translators that take each other's place.
func run(t testing.TB, frames []byte, restarts func(int) bool) []string {
	t.Helper()
	j, i := newJudge(t), 0
	tr := translate.New(translate.Config{Namespace: "session", Epoch: "1"})
	var known translate.Known // of the Runs that have ended
	j.begin()
	for line := range bytes.Lines(frames) {
		if restarts != nil && restarts(i) {
			tr = takenUp(t, j, tr, i, known)
		}
		i++
		if line = bytes.TrimRight(line, "\n"); len(line) > 0 {
			step(j, tr, line)
			if strings.IndexByte("efr", line[0]) >= 0 {
				known.IDs = maps.Clone(j.ids)
			}
		}
	}
	j.finish()
	return j.lines
}

func takenUp(t testing.TB, j *judge, tr *translate.Translator, i int, known translate.Known) *translate.Translator {
	t.Helper()
	snapshot, ok := tr.Snapshot(nil)
	if !ok {
		t.Fatal("too much is open")
	}
	next := translate.New(translate.Config{
		Namespace: "session", Epoch: fmt.Sprint("after ", i), State: j.state.Key("acp"), SessionID: tr.SessionID(), Resume: snapshot, Known: known,
	})
	if len(snapshot) == 0 {
		next.Live()
	}
	return next
}

// shape is a log by its kinds of events and their words. The log's writer may have to end
// what was taken over, and does so when something else begins; the state's first delta adds all
// of it only where it is the first; an error context is not carried, nor the picture of a call
// that has its result.
func shape(lines []string) string {
	var b strings.Builder
	ended := false
	for _, line := range lines {
		kind, rest, _ := strings.Cut(strings.TrimPrefix(line, `{"type":"`), `"`)
		switch {
		case strings.HasSuffix(kind, "_END"), strings.HasPrefix(kind, "STATE"), strings.HasPrefix(line, "= "):
			continue
		case kind == "ACTIVITY_DELTA" && ended:
			continue
		case strings.HasSuffix(kind, "CONTENT"):
			_, rest, _ = strings.Cut(rest, `"delta":`)
		default:
			rest = ""
		}
		ended = ended || kind == "TOOL_CALL_RESULT"
		b.WriteString(kind + " " + rest + "\n")
	}
	return b.String()
}

// TestSnapshotIsEmptyWhenNothingIsOpen: before a prompt, and after its end.
func TestSnapshotIsEmptyWhenNothingIsOpen(t *testing.T) {
	t.Parallel()
	tr := translate.New(translate.Config{Namespace: "n"})
	size := func() int {
		raw, ok := tr.Snapshot(nil)
		if !ok {
			t.Fatal("too much")
		}
		return len(raw)
	}
	if n := size(); n != 0 {
		t.Errorf("%d bytes before", n)
	}
	feed(tr, call("c", `,"status":"in_progress","rawInput":{"a":1}`), words("m", "hello"))
	if n := size(); n == 0 || n > 200 {
		t.Errorf("%d bytes", n)
	}
	tr.PromptEnd(nil, "end_turn", nil)
	if n := size(); n != 0 {
		t.Errorf("%d bytes after", n)
	}
}

func words(message, text string) string {
	return `{"sessionUpdate":"agent_message_chunk","messageId":"` + message + `","content":{"type":"text","text":"` + text + `"}}`
}

// TestSnapshotIsBounded: arguments that no person was asked about are carried whole or not at all, and
// so is all of it.
func TestSnapshotIsBounded(t *testing.T) {
	t.Parallel()
	for name, updates := range map[string][]string{
		"arguments": {call("c", `,"status":"in_progress","rawInput":{"a":"`+strings.Repeat("x", 3<<10)+`"}`)},
		"ids":       many(2000),
	} {
		tr := translate.New(translate.Config{Namespace: "n"})
		feed(tr, updates...)
		if raw, ok := tr.Snapshot([]byte("kept")); ok || string(raw) != "kept" {
			t.Errorf("%s: %d bytes, %v", name, len(raw), ok)
		}
	}
}

func many(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = words(fmt.Sprint("m", i), "x")
	}
	return list
}

// TestArgumentsThatDifferAfterASnapshot are reported, also when they were too long to be carried.
func TestArgumentsThatDifferAfterASnapshot(t *testing.T) {
	t.Parallel()
	for _, size := range []int{3, 3 << 10} {
		args := func(rest string) string {
			return `"rawInput":{"a":"` + strings.Repeat("x", size) + `"` + rest + `}`
		}
		tr := translate.New(translate.Config{Namespace: "n"})
		tr.Permission(nil, []byte(`{"request_id":"0","tool_call":{"toolCallId":"c",`+args("")+`},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}`))
		raw, ok := tr.Snapshot(nil)
		if !ok {
			t.Fatal("too much")
		}
		tr = translate.New(translate.Config{Namespace: "n", Resume: raw})
		if outs := feed(tr, `{"sessionUpdate":"tool_call_update","toolCallId":"c",`+args("")+`}`); len(outs) != 0 {
			t.Errorf("%d: the same: %d events", size, len(outs))
		}
		if outs := feed(tr, `{"sessionUpdate":"tool_call_update","toolCallId":"c",`+args(`,"b":1`)+`}`); len(outs) != 1 {
			t.Errorf("%d: others: %d events", size, len(outs))
		}
	}
}

// FuzzResume: whatever a snapshot holds, a Translator begins with it or without.
func FuzzResume(f *testing.F) {
	tr := translate.New(translate.Config{Namespace: "n"})
	feed(tr, call("c", `,"status":"in_progress","rawInput":{"a":1},"content":[{"type":"content","content":{"type":"text","text":"x"}}]`), words("m", "hello"))
	raw, _ := tr.Snapshot(nil)
	f.Add(raw)
	f.Add([]byte("!"))
	f.Fuzz(func(_ *testing.T, raw []byte) {
		tr := translate.New(translate.Config{Namespace: "n", Resume: raw})
		feed(tr, call("c", `,"status":"completed"`), words("m", "more"))
		tr.PromptEnd(nil, "", nil)
		tr.Snapshot(nil)
	})
}

func BenchmarkSnapshot(b *testing.B) {
	tr := translate.New(translate.Config{Namespace: "n"})
	feed(tr, append(many(50), call("c", `,"status":"in_progress","rawInput":{"a":1}`))...)
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = tr.Snapshot(dst[:0])
	}
}
