package tdesign_test

import "testing"

func picture(id, kind, content string) string {
	return `{"type":"ACTIVITY_SNAPSHOT","messageId":"` + id + `","activityType":"` + kind + `","content":` + content + `}`
}

func change(id, kind, patch string) string {
	return `{"type":"ACTIVITY_DELTA","messageId":"` + id + `","activityType":"` + kind + `","patch":[` + patch + `]}`
}

// TestSecondSnapshotIsADelta: TDesign draws a block for every snapshot.
func TestSecondSnapshotIsADelta(t *testing.T) {
	t.Parallel()
	got := shown(t, "", started, picture("a", "plan", `{"x":1,"y":[1],"z":0}`), picture("a", "plan", `{"x":1,"y":[1,2],"w/v":3}`), picture("a", "plan", `{"x":1,"y":[1,2],"w/v":3}`))
	same(t, got, started, picture("a", "plan", `{"x":1,"y":[1],"z":0}`),
		change("a", "plan", `{"op":"replace","path":"/y","value":[1,2]},{"op":"add","path":"/w~1v","value":3},{"op":"remove","path":"/z"}`))
	kept := `{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"plan","content":{"x":2},"replace":false}`
	same(t, shown(t, "", started, picture("a", "plan", `{}`), kept), started, picture("a", "plan", `{}`))
}

func TestActivityDeltaStaysInTheCommonSubset(t *testing.T) {
	t.Parallel()
	first := picture("a", "plan", `{"l":[{"s":1},2]}`)
	safe := change("a", "plan", `{"op":"replace","path":"/l/0/s","value":2},{"op":"add","path":"/l/-","value":3}`)
	got := shown(t, "", started, first, safe, change("a", "plan", `{"op":"add","path":"/l/0","value":0}`), change("a", "plan", `{"op":"remove","path":"/nope"}`))
	same(t, got, started, first, safe, change("a", "plan", `{"op":"replace","path":"/l","value":[0,{"s":2},2,3]}`))
}

// TestTwoActivitiesOfOneType: a delta reaches the last block of its type only.
// The other is drawn once more when the run ends.
func TestTwoActivitiesOfOneType(t *testing.T) {
	t.Parallel()
	set := func(id, n string) string { return change(id, "plan", `{"op":"replace","path":"/n","value":`+n+`}`) }
	got := shown(t, "", started, picture("a", "plan", `{"n":1}`), picture("b", "plan", `{"n":1}`), set("a", "2"), set("b", "5"), set("a", "3"), finished)
	same(t, got, started, picture("a", "plan", `{"n":1}`), picture("b", "plan", `{"n":1}`), set("b", "5"), picture("a", "plan", `{"n":3}`), finished)
}

// TestActivityOfAnEarlierRun: its block is in another bubble.
func TestActivityOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	same(t, shown(t, "", started, change("a", "plan", ``), finished), started, finished)
}
