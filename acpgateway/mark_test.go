package acpgateway

import (
	"testing"

	"aqueduct/acpgateway/wire"
)

// If this fails, a restarted server repeats what the log has of an answer, or loses what it has not.
func TestMarkRoundTrip(t *testing.T) {
	t.Parallel()
	for text, m := range map[string]mark{
		"e:7:12:":              {epoch: "e", seq: 7, at: 12},
		"e:7:12:turn.c25hcA":   {epoch: "e", seq: 7, at: 12, turn: "turn", open: "c25hcA"},
		"bob|e:7:12:":          {epoch: "e", seq: 7, at: 12, of: "bob"},
		"bob|e:0:1:turn.!":     {epoch: "e", at: 1, turn: "turn", open: markLost, of: "bob"},
		"a%3Ab%7Cc%25:1:2:t.x": {epoch: "a:b|c%", seq: 1, at: 2, turn: "t", open: "x"},
		":0:0:":                {},
	} {
		if got := m.String(); got != text {
			t.Errorf("%+v is written as %q, want %q", m, got, text)
		}
		if got := parseMark(text); got != m {
			t.Errorf("%q is read as %+v, want %+v", text, got, m)
		}
	}
}

// If this fails, a mark that an older version wrote, or a broken one, makes the Turn that is taken up fail.
func TestMarkOfAnotherForm(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]mark{
		"":            {},
		"e":           {},
		"e:7":         {},
		"bob|":        {},
		"e:7:12":      {epoch: "e", seq: 7, at: 12, open: markLost}, // of a version without snapshots
		"e:x:y:":      {epoch: "e"},
		"e:7:12:turn": {epoch: "e", seq: 7, at: 12, turn: "turn"},
	} {
		if got := parseMark(text); got != want {
			t.Errorf("%q is read as %+v, want %+v", text, got, want)
		}
	}
}

// If this fails, frames that the log has are shown again after a restart, or new ones of a restarted proxy are dropped.
func TestMarkCovers(t *testing.T) {
	t.Parallel()
	m := mark{epoch: "e", seq: 7}
	for name, c := range map[string]struct {
		seq   int64
		epoch string
		want  bool
	}{
		"before":                 {6, "e", true},
		"the frame itself":       {7, "e", true},
		"behind":                 {8, "e", false},
		"not numbered":           {0, "e", false},
		"of another start":       {3, "f", false},
		"of the proxy's own end": {7, "", false},
	} {
		if got := m.covers(frame{seq: c.seq}, c.epoch); got != c.want {
			t.Errorf("%s: covered is %v", name, got)
		}
	}
}

// If this fails, a Turn begins with what another one had open, and its first delta goes to a message that is closed.
func TestMarkResumes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		m    mark
		want string
		none bool
	}{
		"nothing was open":          {mark{turn: "t"}, "", true},
		"of this Turn":              {mark{turn: "t", open: "c25hcA"}, "snap", false},
		"of another":                {mark{turn: "u", open: "c25hcA"}, "", true},
		"of no Turn, older form":    {mark{open: markLost}, markLost, false},
		"too long to keep":          {mark{turn: "t", open: markLost}, markLost, false},
		"of a form that is unknown": {mark{turn: "t", open: "{}"}, "{}", false},
	} {
		got := c.m.resumes("t")
		if string(got) != c.want || (got == nil) != c.none {
			t.Errorf("%s: the translator gets %q", name, got)
		}
	}
}

// If this fails, the numbers that a restarted proxy begins anew are never acknowledged.
func TestFrameAfter(t *testing.T) {
	t.Parallel()
	if got := (frame{seq: 5}).after(3); got != 5 {
		t.Errorf("behind frame 5 the number is %d", got)
	}
	if got := (frame{}).after(3); got != 3 {
		t.Errorf("behind a frame without a number it is %d", got)
	}
	if got := (frame{Frame: &restarted{}}).after(3); got != 0 {
		t.Errorf("behind a restart it is %d", got)
	}
}

// If this fails, a title that the agent sent while nothing read it is lost, or a dead agent's reports begin a Run.
func TestFrameStale(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		f    frame
		want bool
	}{
		"could not be read": {frame{}, true},
		"a restart":         {frame{Frame: &restarted{}}, true},
		"a cut link":        {frame{Frame: &gap{}}, false},
		"the process ended": {newFrame(&wire.Exit{}, "run"), true},
		"a result":          {newFrame(&wire.PromptResult{}, "run"), false},
		"usage":             {updateFrame(t, "", aUsage), true},
		"a mode":            {updateFrame(t, "", aMode), false},
		"text":              {updateFrame(t, "p", aText), false},
		"the console":       {signalFrame(t, aLine), true},
	} {
		if got := c.f.stale(); got != c.want {
			t.Errorf("%s: stale is %v", name, got)
		}
	}
}
