package agui_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"aqueduct/agui"
)

func TestCheckActivity(t *testing.T) {
	t.Parallel()
	const shown = `{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"plan","content":{"n":9007199254740993,"list":[1],"s":"x"}}`
	big := strings.Repeat("x", agui.MaxStateBytes)
	deep := strings.Repeat("[", agui.MaxJSONDepth) + strings.Repeat("]", agui.MaxJSONDepth)
	delta := func(patch string) string {
		return `{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"plan","patch":` + patch + `}`
	}
	snapshot := func(content string) string {
		return `{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"plan","content":` + content + `}`
	}
	for name, c := range map[string]struct{ event, reason string }{
		"applies":                      {delta(`[{"op":"add","path":"/list/-","value":2},{"op":"test","path":"/n","value":9007199254740993}]`), ""},
		"extra members":                {delta(`[{"op":"remove","path":"/s","value":7,"why":"old"}]`), ""},
		"the whole content":            {delta(`[{"op":"replace","path":"","value":{"m":1}}]`), ""},
		"odd names of members":         {delta(`[{"op":"add","path":"/+1","value":1},{"op":"add","path":"/~001","value":1},{"op":"add","path":"/01","value":null},{"op":"test","path":"/01","value":null}]`), ""},
		"empty":                        {delta(`[]`), ""},
		"another event":                {textStart("m"), ""},
		"a snapshot":                   {snapshot(`{"m":1}`), ""},
		"never shown":                  {`{"type":"ACTIVITY_DELTA","messageId":"b","activityType":"plan","patch":[]}`, agui.ActivityUnknown},
		"another type":                 {`{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"chart","patch":[]}`, agui.ActivityOtherType},
		"an operation unknown":         {delta(`[{"op":"merge","path":"/n","value":1}]`), agui.ActivityBadPatch},
		"no pointer":                   {delta(`[{"op":"remove","path":"n"}]`), agui.ActivityBadPatch},
		"a tilde that escapes nothing": {delta(`[{"op":"add","path":"/a~2","value":1}]`), agui.ActivityBadPatch},
		"a tilde at the end":           {delta(`[{"op":"add","path":"/a~","value":1}]`), agui.ActivityBadPatch},
		"through a prototype":          {delta(`[{"op":"add","path":"/__proto__/x","value":1}]`), agui.ActivityBadPatch},
		"through a constructor":        {delta(`[{"op":"add","path":"/constructor/prototype","value":1}]`), agui.ActivityBadPatch},
		"an operation that is null":    {delta(`[null]`), agui.ActivityBadPatch},
		"without a value":              {delta(`[{"op":"add","path":"/m"}]`), agui.ActivityBadPatch},
		"without from":                 {delta(`[{"op":"move","path":"/m"}]`), agui.ActivityBadPatch},
		"points at nothing":            {delta(`[{"op":"replace","path":"/m","value":1}]`), agui.ActivityUnfitPatch},
		"a test that fails":            {delta(`[{"op":"test","path":"/n","value":9007199254740992}]`), agui.ActivityUnfitPatch},
		"null where nothing is":        {delta(`[{"op":"test","path":"/m","value":null}]`), agui.ActivityUnfitPatch},
		"an index with a sign":         {delta(`[{"op":"replace","path":"/list/+0","value":1}]`), agui.ActivityUnfitPatch},
		"an index with a zero":         {delta(`[{"op":"replace","path":"/list/00","value":1}]`), agui.ActivityUnfitPatch},
		"an index from the end":        {delta(`[{"op":"replace","path":"/list/-1","value":1}]`), agui.ActivityUnfitPatch},
		"past the end":                 {delta(`[{"op":"add","path":"/list/2","value":1}]`), agui.ActivityUnfitPatch},
		"content becomes a list":       {delta(`[{"op":"replace","path":"","value":[]}]`), agui.ActivityNoObject},
		"grows too large":              {delta(`[{"op":"add","path":"/b","value":"` + big + `"}]`), agui.ActivityTooLarge},
		"grows too deep":               {delta(`[{"op":"add","path":"/b","value":` + deep + `}]`), agui.ActivityTooLarge},
		"a snapshot too large":         {snapshot(`{"b":"` + big + `"}`), agui.ActivityTooLarge},
		"a snapshot too deep":          {snapshot(`{"b":` + deep + `}`), agui.ActivityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := foldOf(t, "", shown).CheckActivity(decodeAll(t, c.event)[0])
			var bad *agui.ActivityError
			switch {
			case c.reason == "" && err != nil:
				t.Error(err)
			case c.reason != "" && (!errors.As(err, &bad) || bad.Reason != c.reason):
				t.Errorf("%v, want %s", err, c.reason)
			}
		})
	}
}

// TestActivityKeepsNumbers: a patch leaves the digits alone that it does not name.
func TestActivityKeepsNumbers(t *testing.T) {
	t.Parallel()
	f := foldOf(t, "", `{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"p","content":{"id":9007199254740993,"x":1.10}}`,
		`{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"p","patch":[{"op":"add","path":"/y","value":12345678901234567890},{"op":"copy","from":"/id","path":"/z"}]}`)
	var got map[string]json.Number
	if m, _ := f.Activity("a"); json.Unmarshal(m.Activity, &got) != nil || got["id"] != "9007199254740993" ||
		got["z"] != "9007199254740993" || got["y"] != "12345678901234567890" || got["x"] != "1.10" {
		t.Errorf("%s", m.Activity)
	}
}
