package bridge

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"aqueduct/agui"
)

func raw(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

// If this fails, a page that sends back what it was given looks as if it had changed it, and overwrites an agent's change.
func TestValueHashIsThatOfTheValue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"spaces":              {`{"a":1}`, ` { "a" : 1 } `, true},
		"order of members":    {`{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
		"order within":        {`{"x":{"a":1,"b":2}}`, `{"x":{"b":2,"a":1}}`, true},
		"spelling of numbers": {`1.0`, `1`, true},
		"beyond float64":      {`9007199254740993`, `9007199254740992`, true},
		"escapes":             {`"\u0061"`, `"a"`, true},
		"order of elements":   {`[1,2]`, `[2,1]`, false},
		"null and nothing":    {`null`, ``, false},
		"text and number":     {`"1"`, `1`, false},
		"another value":       {`{"a":1}`, `{"a":2}`, false},
	} {
		if same := valueHash(raw(c.a)) == valueHash(raw(c.b)); same != c.same {
			t.Errorf("%s: %s and %s count as the same: %v", name, c.a, c.b, same)
		}
	}
	if valueHash(nil) != "" || valueHash(raw(`null`)) == "" {
		t.Error("a key that is not there cannot be told from one that is null")
	}
}

// If this fails, a stale page undoes what an agent changed, or memory grows with each delta of a long Run.
func TestStateChangesNote(t *testing.T) {
	t.Parallel()
	values := func(c *stateChanges, key string) string {
		var all []string
		for _, v := range c.values[key] {
			all = append(all, string(v))
		}
		return strings.Join(all, " ")
	}
	var c stateChanges
	if c.encode() != nil {
		t.Errorf("without a change %s is kept", c.encode())
	}
	c.note("a", raw(`1`), raw(`1`))
	if len(c.values) != 0 {
		t.Error("a key that stays as it is counts as changed")
	}
	c.note("a", raw(`1`), raw(`2`))
	c.note("a", raw(`2`), raw(`3`))
	c.note("new", nil, raw(`1`))
	c.note("gone", raw(`1`), nil)
	if a, n, g := values(&c, "a"), values(&c, "new"), values(&c, "gone"); a != "1 2 3" || n != " 1" || g != "1 " {
		t.Errorf("noted are %q, %q, %q", a, n, g)
	}
	var kept map[string][]string
	if err := json.Unmarshal(c.encode(), &kept); err != nil {
		t.Fatal(err)
	}
	if kept["new"][0] != "" || kept["gone"][1] != "" || kept["a"][2] != valueHash(raw(`3`)) || len(kept) != 3 {
		t.Errorf("kept is %s", c.encode())
	}
	for i := range 2 * maxChangedValues {
		c.note("a", raw(fmt.Sprint(i+3)), raw(fmt.Sprint(i+4)))
	}
	if got := c.values["a"]; len(got) != maxChangedValues || string(got[0]) != "1" || string(got[len(got)-1]) != fmt.Sprint(2*maxChangedValues+3) {
		t.Errorf("%d values are kept, from %s to %s", len(got), got[0], got[len(got)-1])
	}
	c.note(strings.Repeat("k", maxChangedKey+1), nil, raw(`1`))
	for i := range 2 * maxChangedKeys {
		c.note(fmt.Sprint("k", i), nil, raw(`1`))
	}
	if len(c.values) != maxChangedKeys || c.values[strings.Repeat("k", maxChangedKey+1)] != nil {
		t.Errorf("%d keys are kept", len(c.values))
	}
}

// If this fails, an agent that writes large and small values in turn fills the server's memory within one Run.
func TestStateChangesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	var c stateChanges
	small := raw(`1`)
	for key := range 16 {
		for i := range maxChangedValues {
			large := raw(fmt.Sprintf(`"%d%s"`, i, strings.Repeat("x", agui.MaxStateBytes-64)))
			c.note(fmt.Sprint(key), small, large)
			c.note(fmt.Sprint(key), large, small)
		}
	}
	held := 0
	for _, values := range c.values {
		for _, v := range values {
			held += len(v)
		}
	}
	if held != c.bytes || held > maxChangedBytes+2*agui.MaxStateBytes {
		t.Errorf("%d bytes are held, and counted as %d; the bound is %d and the state's own", held, c.bytes, maxChangedBytes)
	}
}

// If this fails, a snapshot that removes or adds a key is not seen as a change, and a stale page brings the key back.
func TestStateChangesBetween(t *testing.T) {
	t.Parallel()
	var c stateChanges
	c.between(state(t, `{"same":1,"changed":1,"gone":1}`), state(t, `{"same":1,"changed":2,"new":1}`))
	for key, want := range map[string]string{"changed": "1,2", "gone": "1,", "new": ",1"} {
		v := c.values[key]
		if len(v) != 2 || string(v[0])+","+string(v[1]) != want {
			t.Errorf("%s: noted is %q, want %s", key, v, want)
		}
	}
	if len(c.values) != 3 {
		t.Errorf("%d keys are noted", len(c.values))
	}
}

// written writes what a runState passes on, state events whole and the others by their names.
func written(events []agui.Event) string {
	var all []string
	for _, ev := range events {
		switch e := ev.(type) {
		case *agui.StateSnapshot:
			all = append(all, "="+string(e.Snapshot))
		case *agui.StateDelta:
			all = append(all, "+"+string(e.Delta))
		case *agui.Custom:
			var n notApplied
			_ = json.Unmarshal(e.Value, &n)
			all = append(all, e.Name+" "+n.Source+" "+n.Code)
		}
	}
	return strings.Join(all, "\n")
}

func whole(s string) agui.Event { return &agui.StateSnapshot{Snapshot: raw(s)} }
func set(key, value string) agui.Event {
	return &agui.StateDelta{Delta: raw(`[{"op":"add","path":"/` + key + `","value":` + value + `}]`)}
}

// If this fails, an official client ends its whole stream for a patch that it cannot apply, or shows another state than is kept.
func TestRunStateOn(t *testing.T) {
	t.Parallel()
	const refusal = "state_not_applied agent invalid_state"
	bad := &agui.StateDelta{Delta: raw(`[{"op":"remove","path":"/nothing"}]`)}
	huge := whole(`{"a":"` + strings.Repeat("x", agui.MaxStateBytes) + `"}`)
	for name, c := range map[string]struct {
		before string
		first  bool // the Run is the thread's first
		events []agui.Event
		want   string
		after  string
	}{
		"a snapshot":                          {`{}`, true, []agui.Event{whole(`{"a":1}`)}, `={"a":1}`, `{"a":1}`},
		"null is the empty object":            {`{}`, true, []agui.Event{whole(`null`)}, `={}`, `{}`},
		"reserved keys stay":                  {`{"agent":{"m":1},"x":1}`, false, []agui.Event{whole(`{"a":1}`)}, `={"a":1,"agent":{"m":1}}`, `{"a":1,"agent":{"m":1}}`},
		"reserved keys may be replaced":       {`{"agent":1}`, false, []agui.Event{whole(`{"agent":2}`)}, `={"agent":2}`, `{"agent":2}`},
		"a first delta is a snapshot":         {`{}`, true, []agui.Event{set("a", "1")}, `={"a":1}`, `{"a":1}`},
		"a later Run shows the state first":   {`{"x":1}`, false, []agui.Event{set("a", "1"), set("a", "2")}, "={\"x\":1}\n+[{\"op\":\"add\",\"path\":\"/a\",\"value\":1}]\n+[{\"op\":\"add\",\"path\":\"/a\",\"value\":2}]", `{"x":1,"a":2}`},
		"one that does not apply":             {`{"x":1}`, false, []agui.Event{whole(`{"x":1}`), bad}, "={\"x\":1}\n" + refusal + "\n={\"x\":1}", `{"x":1}`},
		"the state is shown once for several": {`{"x":1}`, false, []agui.Event{whole(`{"x":1}`), bad, bad, bad}, "={\"x\":1}\n" + refusal + "\n={\"x\":1}\n" + refusal + "\n" + refusal, `{"x":1}`},
		"and again after one that applies":    {`{"x":1}`, false, []agui.Event{whole(`{"x":1}`), bad, set("x", "2"), bad}, "={\"x\":1}\n" + refusal + "\n={\"x\":1}\n+[{\"op\":\"add\",\"path\":\"/x\",\"value\":2}]\n" + refusal + "\n={\"x\":2}", `{"x":2}`},
		"too large":                           {`{"x":1}`, false, []agui.Event{huge}, "state_not_applied agent state_too_large\n={\"x\":1}", `{"x":1}`},
	} {
		s := runState{doc: state(t, c.before), first: c.first}
		var out []agui.Event
		for _, ev := range c.events {
			out = append(out, s.on(ev)...)
		}
		if got := written(out); got != c.want {
			t.Errorf("%s: passed on is\n%s\nwant\n%s", name, got, c.want)
		}
		if got := string(s.doc.JSON()); got != c.after {
			t.Errorf("%s: the state is %s, want %s", name, got, c.after)
		}
	}
}

// If this fails, a snapshot in the log changes after it was written, and readers of one Run see different states.
func TestASnapshotDoesNotChangeAfterwards(t *testing.T) {
	t.Parallel()
	s := runState{doc: state(t, `{"a":1}`)}
	shown := s.snapshot().(*agui.StateSnapshot)
	s.on(set("a", "2"))
	if string(shown.Snapshot) != `{"a":1}` {
		t.Errorf("a snapshot has become %s", shown.Snapshot)
	}
}

// baseOf is the base for a client that has no message of the Session, so that no store is read.
func baseOf(t *testing.T, kept string, c *clientState) stateBase {
	t.Helper()
	return stateBase{state: &runState{doc: state(t, kept)}, client: c}
}

// If this fails, a client's state is lost, or it wipes the state that other pages and agents have written.
func TestStateBaseTake(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kept     string
		client   *clientState
		prompted bool
		after    string
		events   string
	}{
		"no state at all":             {`{}`, nil, true, `{}`, ``},
		"a client without a state":    {`{"a":1}`, nil, true, `{"a":1}`, `={"a":1}`},
		"not prompted":                {`{"a":1}`, nil, false, `{"a":1}`, ``},
		"it holds what is kept":       {`{"a":1}`, &clientState{Held: valueHash(raw(`{"a":1}`))}, true, `{"a":1}`, ``},
		"it holds something else":     {`{"a":1}`, &clientState{Held: "x"}, true, `{"a":1}`, `={"a":1}`},
		"it sends what is kept":       {`{"a":1}`, &clientState{State: raw(`{"a":1}`)}, true, `{"a":1}`, ``},
		"it changes a key":            {`{"a":1,"b":1}`, &clientState{State: raw(`{"a":2,"b":1}`)}, true, `{"a":2,"b":1}`, `={"a":2,"b":1}`},
		"it has a new key":            {`{"a":1}`, &clientState{State: raw(`{"a":1,"n":1}`)}, true, `{"a":1,"n":1}`, `={"a":1,"n":1}`},
		"it lacks a key":              {`{"a":1,"b":1}`, &clientState{State: raw(`{"a":1}`)}, true, `{"a":1,"b":1}`, `={"a":1,"b":1}`},
		"it writes a reserved key":    {`{"agent":1}`, &clientState{State: raw(`{"agent":2,"acp":3}`)}, true, `{"agent":1}`, `={"agent":1}`},
		"no object, in place of one":  {`{"a":1}`, &clientState{State: raw(`[1]`)}, true, `{"a":1}`, "state_not_applied client invalid_state\n={\"a\":1}"},
		"no object, for an empty one": {`{}`, &clientState{State: raw(`[1]`)}, true, `[1]`, `=[1]`},
		"an object in place of none":  {`[1]`, &clientState{State: raw(`{"a":1,"agent":2}`)}, true, `{"a":1}`, `={"a":1}`},
	} {
		b := baseOf(t, c.kept, c.client)
		out, err := b.take(t.Context(), c.prompted)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(b.state.doc.JSON()); got != c.after {
			t.Errorf("%s: the base is %s, want %s", name, got, c.after)
		}
		if got := written(out); got != c.events {
			t.Errorf("%s: the client gets\n%s\nwant\n%s", name, got, c.events)
		}
	}
}

// If this fails, a value that the client merely had before looks like its own change.
func TestSeenState(t *testing.T) {
	t.Parallel()
	s := seenState{begun: map[string]string{"a": "1", "new": ""}, part: map[string][]string{"p": {"1", "2"}}}
	for _, c := range []struct {
		key, hash string
		want      bool
	}{
		{"a", "1", true}, {"a", "2", false}, {"new", "", true}, {"other", "", false}, {"p", "2", true}, {"p", "3", false},
	} {
		if got := s.unchanged(c.key, c.hash); got != c.want {
			t.Errorf("%s with %q counts as unchanged: %v", c.key, c.hash, got)
		}
	}
}

// If this fails, a page's activity card disappears, or its whole stream ends for a patch that does not apply.
func TestActivitiesOn(t *testing.T) {
	t.Parallel()
	show := func(content string) agui.Event {
		return &agui.ActivitySnapshot{MessageID: "a", ActivityType: "plan", Content: raw(content)}
	}
	patch := func(id, path string) agui.Event {
		return &agui.ActivityDelta{MessageID: id, ActivityType: "plan", Patch: raw(`[{"op":"replace","path":"` + path + `","value":2}]`)}
	}
	for name, c := range map[string]struct {
		events []agui.Event
		want   string
	}{
		"no activity":         {[]agui.Event{textStart("m")}, "TEXT_MESSAGE_START m"},
		"one that applies":    {[]agui.Event{show(`{"n":1}`), patch("a", "/n")}, "ACTIVITY_SNAPSHOT a\nACTIVITY_DELTA a"},
		"of nothing shown":    {[]agui.Event{patch("b", "/n")}, "CUSTOM activity_not_applied"},
		"one that does not":   {[]agui.Event{show(`{"n":1}`), patch("a", "/x/y")}, "ACTIVITY_SNAPSHOT a\nCUSTOM activity_not_applied\nACTIVITY_SNAPSHOT a"},
		"several that do not": {[]agui.Event{show(`{"n":1}`), patch("a", "/x/y"), patch("a", "/x/y")}, "ACTIVITY_SNAPSHOT a\nCUSTOM activity_not_applied\nACTIVITY_SNAPSHOT a\nCUSTOM activity_not_applied"},
		"one that applies between": {
			[]agui.Event{show(`{"n":1}`), patch("a", "/x/y"), patch("a", "/n"), patch("a", "/x/y")},
			"ACTIVITY_SNAPSHOT a\nCUSTOM activity_not_applied\nACTIVITY_SNAPSHOT a\nACTIVITY_DELTA a\nCUSTOM activity_not_applied\nACTIVITY_SNAPSHOT a",
		},
	} {
		a := activities{fold: agui.NewFold(nil)}
		var out []agui.Event
		for _, ev := range c.events {
			for _, passed := range a.on(ev) {
				a.fold.Apply(passed)
				out = append(out, passed)
			}
		}
		if got := brief(out...); got != c.want {
			t.Errorf("%s: passed on is\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// If this fails, each delta of an activity from an earlier Run reads the whole transcript again.
func TestAnActivityIsLookedForOnce(t *testing.T) {
	t.Parallel()
	delta := &agui.ActivityDelta{MessageID: "a", ActivityType: "plan", Patch: raw(`[{"op":"replace","path":"/n","value":2}]`)}
	a := activities{fold: agui.NewFold(nil)}
	if _, lacks := a.lacks(textDelta("a", "x")); lacks {
		t.Error("a text lacks an activity")
	}
	if id, lacks := a.lacks(delta); !lacks || id != "a" {
		t.Errorf("an activity that is not known is not looked for: %q, %v", id, lacks)
	}
	past := []pastMessage{
		{message: agui.Message{ID: "a", Role: agui.RoleActivity, ActivityType: "plan", Activity: raw(`{"n":0}`)}},
		{message: agui.Message{ID: "a", Role: agui.RoleActivity, ActivityType: "plan", Activity: raw(`{"n":1}`)}},
		{message: agui.Message{ID: "b", Role: agui.RoleAssistant}},
	}
	a.restore("a", past)
	if m, ok := a.fold.Activity("a"); !ok || string(m.Activity) != `{"n":1}` {
		t.Errorf("recalled is %+v, %v", m, ok)
	}
	if _, lacks := a.lacks(delta); lacks {
		t.Error("an activity that is known is looked for")
	}
	a.restore("never", past)
	if _, lacks := a.lacks(&agui.ActivityDelta{MessageID: "never"}); lacks {
		t.Error("an activity that is in no transcript is looked for again")
	}
	if out := a.on(delta); brief(out...) != "ACTIVITY_DELTA a" {
		t.Errorf("its delta becomes %s", brief(out...))
	}
}
