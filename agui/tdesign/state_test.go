package tdesign_test

import "testing"

func snapshot(s string) string { return `{"type":"STATE_SNAPSHOT","snapshot":` + s + `}` }
func delta(s string) string    { return `{"type":"STATE_DELTA","delta":[` + s + `]}` }

// TestStateDeltaOneKeyPerFrame: TDesign applies a delta to the key of its first
// operation and drops the operations on others.
func TestStateDeltaOneKeyPerFrame(t *testing.T) {
	t.Parallel()
	first := snapshot(`{"a":{"n":1,"l":[]},"b":{"n":9007199254740993}}`)
	got := shown(t, "", started, first, delta(`{"op":"replace","path":"/a/n","value":2},{"op":"test","path":"/b/n","value":9007199254740993},{"op":"replace","path":"/b/n","value":9007199254740994},{"op":"add","path":"/a/l/-","value":"x"}`))
	same(t, got, started, first,
		delta(`{"op":"replace","path":"/a/n","value":2},{"op":"add","path":"/a/l/-","value":"x"}`),
		delta(`{"op":"replace","path":"/b/n","value":9007199254740994}`))
}

// TestUnsafeDeltaBecomesASnapshotOfItsKey: TDesign's patch is not RFC 6902.
func TestUnsafeDeltaBecomesASnapshotOfItsKey(t *testing.T) {
	t.Parallel()
	first := snapshot(`{"a":{"n":1,"l":[{"x":1},2]},"b":0,"c":{}}`)
	for name, c := range map[string][2]string{
		"insert":             {`{"op":"add","path":"/a/l/0","value":0}`, snapshot(`{"a":{"n":1,"l":[0,{"x":1},2]}}`)},
		"index replaced":     {`{"op":"replace","path":"/a/l/1","value":0}`, snapshot(`{"a":{"n":1,"l":[{"x":1},0]}}`)},
		"index removed":      {`{"op":"remove","path":"/a/l/0"}`, snapshot(`{"a":{"n":1,"l":[2]}}`)},
		"member of element":  {`{"op":"replace","path":"/a/l/0/x","value":2}`, delta(`{"op":"replace","path":"/a/l/0/x","value":2}`)},
		"member removed":     {`{"op":"remove","path":"/a/n"}`, delta(`{"op":"remove","path":"/a/n"}`)},
		"the key itself":     {`{"op":"replace","path":"/a","value":{"n":2}}`, snapshot(`{"a":{"n":2}}`)},
		"the key removed":    {`{"op":"remove","path":"/a"}`, snapshot(`{"a":null}`)},
		"the empty key":      {`{"op":"add","path":"/","value":{"n":2}}`, snapshot(`{"":{"n":2}}`)},
		"an empty key below": {`{"op":"add","path":"/c/","value":2}`, snapshot(`{"c":{"":2}}`)},
		"a new key":          {`{"op":"add","path":"/d","value":{"n":2}}`, snapshot(`{"d":{"n":2}}`)},
		"a falsy key":        {`{"op":"replace","path":"/b","value":1}`, snapshot(`{"b":1}`)},
		"moved inside":       {`{"op":"move","from":"/a/n","path":"/a/m"}`, snapshot(`{"a":{"l":[{"x":1},2],"m":1}}`)},
		"grown then changed": {`{"op":"add","path":"/a/l/-","value":{}},{"op":"add","path":"/a/l/2/y","value":1}`, snapshot(`{"a":{"n":1,"l":[{"x":1},2,{"y":1}]}}`)},
	} {
		got := shown(t, "", started, first, delta(c[0]))
		same(t, got, started, first, c[1])
		if t.Failed() {
			t.Fatal(name)
		}
	}
	got := shown(t, "", started, first, delta(`{"op":"move","from":"/a/n","path":"/c/n"}`))
	same(t, got, started, first, snapshot(`{"c":{"n":1}}`), snapshot(`{"a":{"l":[{"x":1},2]}}`))
	got = shown(t, "", started, first, delta(`{"op":"replace","path":"","value":{"a":1}}`))
	same(t, got, started, first, snapshot(`{"a":1,"b":null,"c":null}`))
}

// TestFirstDeltaOfAPageIsASnapshot: a page loaded since has nothing to patch.
func TestFirstDeltaOfAPageIsASnapshot(t *testing.T) {
	t.Parallel()
	change := func(n string) string { return delta(`{"op":"replace","path":"/a/n","value":` + n + `}`) }
	got := shown(t, `{"a":{"n":1},"b":{}}`, started, change("2"), change("3"))
	same(t, got, started, snapshot(`{"a":{"n":2}}`), change("3"))
}

// TestSnapshotTellsWhatIsGone: keys missing from a snapshot are kept.
func TestSnapshotTellsWhatIsGone(t *testing.T) {
	t.Parallel()
	got := shown(t, `{"a":1}`, started, snapshot(`{"b":2}`), snapshot(`null`), snapshot(`[1]`), snapshot(`{}`))
	same(t, got, started, snapshot(`{"b":2,"a":null}`), snapshot(`{"b":null}`))
}

func TestDeltaThatFailsIsDropped(t *testing.T) {
	t.Parallel()
	same(t, shown(t, `{"a":1}`, started, delta(`{"op":"remove","path":"/z"}`), finished), started, finished)
}
