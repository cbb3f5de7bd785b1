package translate_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"aqueduct/acpgateway/translate"
	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
)

// judge is a log's owner: it admits events, and judges what it admits as a client would.
type judge struct {
	t          testing.TB
	writer     agui.Grammar
	reader     agui.Grammar
	state      *agui.StateDoc
	activities map[string]json.RawMessage
	results    map[string]bool
	ids        map[string]bool // of messages and calls
	runs       int
	lines      []string
}

func newJudge(t testing.TB) *judge {
	t.Helper()
	state, err := agui.NewStateDoc(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &judge{t: t, state: state, activities: map[string]json.RawMessage{}, results: map[string]bool{}, ids: map[string]bool{}}
}

func (j *judge) begin() {
	j.runs++
	j.take(&agui.RunStarted{ThreadID: "t", RunID: "r" + string(rune('0'+j.runs%10))})
}

func (j *judge) finish() { j.take(&agui.RunFinished{}) }

// outs takes what a translation gave; a prompt's end is no event of the translator's.
func (j *judge) outs(outs []translate.Out) {
	for _, o := range outs {
		if o.Event != nil {
			j.once(o.Event)
			j.take(o.Event)
			continue
		}
		j.lines = append(j.lines, describe(o))
		if o.Question != nil && !json.Valid(o.Question.Args) {
			j.t.Fatalf("arguments %s", o.Question.Args)
		}
	}
}

// once demands that nothing begins twice under one id. The grammar may reopen what it
// closed itself; a translator may not.
func (j *judge) once(ev agui.Event) {
	id := ""
	switch e := ev.(type) {
	case *agui.TextMessageStart:
		id = e.MessageID
	case *agui.ReasoningStart:
		id = e.MessageID
	case *agui.ToolCallStart:
		id = e.ToolCallID
	}
	if id != "" && j.ids[id] {
		j.t.Fatalf("%s begins twice", ev.AppendJSON(nil))
	}
	if id != "" {
		j.ids[id] = true
	}
}

func (j *judge) take(ev agui.Event) {
	admitted, err := j.writer.Admit(nil, ev)
	if err != nil {
		j.t.Fatalf("%s: %v", ev.AppendJSON(nil), err)
	}
	for _, a := range admitted {
		raw := a.AppendJSON(nil)
		j.lines = append(j.lines, string(raw))
		if _, err := agui.Decode(raw); err != nil {
			j.t.Fatalf("%s: %v", raw, err)
		}
		if err := j.reader.Check(a); err != nil {
			j.t.Fatalf("%s: %v", raw, err)
		}
		j.apply(a)
	}
}

// apply demands that patches fit and that a call has one result.
func (j *judge) apply(ev agui.Event) {
	var err error
	switch e := ev.(type) {
	case *agui.StateDelta:
		err = j.state.Patch(e.Delta)
	case *agui.ActivitySnapshot:
		if j.activities[e.MessageID] != nil {
			j.t.Fatalf("activity %s is drawn twice", e.MessageID)
		}
		j.activities[e.MessageID] = e.Content
	case *agui.ActivityDelta:
		j.activities[e.MessageID], err = agui.ApplyPatch(j.activities[e.MessageID], e.Patch)
	case *agui.ToolCallResult:
		if j.results[e.ToolCallID] {
			j.t.Fatalf("call %s has two results", e.ToolCallID)
		}
		j.results[e.ToolCallID] = true
	}
	if err != nil {
		j.t.Fatalf("%s: %v", ev.AppendJSON(nil), err)
	}
}

func describe(o translate.Out) string {
	switch {
	case o.Question != nil:
		raw, _ := json.Marshal(o.Question)
		return "? " + string(raw)
	case o.End != nil:
		raw, _ := json.Marshal(o.End)
		return "= " + string(raw)
	}
	return "- " + wire.RequestID(o.Withdrawn).String()
}

// step feeds one frame: a line whose first byte is its kind.
func step(j *judge, tr *translate.Translator, line []byte) {
	body := json.RawMessage(line[1:])
	switch line[0] {
	case 'u':
		j.outs(tr.Update(nil, body))
	case 'p':
		j.outs(tr.Permission(nil, body))
	case 'x':
		j.outs(tr.ProxyUpdate(nil, body))
	case 's':
		tr.Session(string(body))
	case 'e':
		reason, usage, _ := bytes.Cut(body, []byte(" "))
		j.outs(tr.PromptEnd(nil, string(reason), usage))
	case 'f':
		var c translate.Cause
		_ = json.Unmarshal(body, &c) // an empty cause is one too
		j.outs(tr.Failed(nil, c))
	case 'c':
		j.outs(tr.Close(nil))
	case 'm':
		tr.Replay(string(body) == "1")
	case 'l':
		tr.Live()
	case 'r': // the Run ends with a question; the next begins
		j.finish()
		j.begin()
	}
}

// FuzzUpdates: whatever frames come, in whatever order, what is written is a legal log
// whose patches apply, and nothing panics. Then all of it comes again, as after a restart
// and a load: nothing that has an id of its own is in the log twice.
func FuzzUpdates(f *testing.F) {
	for _, transcript := range transcripts(f) {
		f.Add(transcript.frames)
	}
	f.Fuzz(func(t *testing.T, frames []byte) {
		j := newJudge(t)
		known := translate.Known{Texts: []string{"a", "Done."}}
		for _, epoch := range []string{"1", "2"} {
			tr := translate.New(translate.Config{Namespace: "n", Epoch: epoch, Known: known, State: j.state.Key("acp")})
			j.begin()
			for line := range bytes.Lines(frames) {
				if line = bytes.TrimRight(line, "\n"); len(line) > 0 {
					step(j, tr, line)
				}
			}
			j.outs(tr.Close(nil))
			j.finish()
			known.IDs = j.ids
		}
	})
}
