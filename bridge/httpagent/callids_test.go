package httpagent

import (
	"fmt"
	"strings"
	"testing"

	"aqueduct/agui"
)

// TestCallIDsAgain: an id that an agent gives several calls of an answer is several calls, and each has its own result, whether
// the calls come one after the other or at once.
func TestCallIDsAgain(t *testing.T) {
	t.Parallel()
	call := frame{event: frameToolCall, data: []byte(`{"id":"call_0","name":"f","args":{}}`)}
	result := frame{event: frameToolResult, data: []byte(`{"id":"call_0","content":"x"}`)}
	for name, c := range map[string]struct {
		frames []frame
		want   string
	}{
		"one after the other": {[]frame{call, result, call, result}, "call 0, result of 0, call 1, result of 1"},
		"at once":             {[]frame{call, call, result, result}, "call 0, call 1, result of 0, result of 1"},
		"two results of one":  {[]frame{call, result, result}, "call 0, result of 0, result of 0"},
		"results before":      {[]frame{result, call, result}, "result of 0, call 0, result of 0"},
	} {
		tr := newTranslator("turn", newID)
		ids := make(map[string]int)
		place := func(id string) int {
			if _, known := ids[id]; !known {
				ids[id] = len(ids)
			}
			return ids[id]
		}
		var got []string
		for _, f := range c.frames {
			outputs, err := tr.translate(nil, f)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range outputs {
				switch e := o.Event.(type) {
				case *agui.ToolCallStart:
					got = append(got, fmt.Sprint("call ", place(e.ToolCallID)))
				case *agui.ToolCallResult:
					got = append(got, fmt.Sprint("result of ", place(e.ToolCallID)))
				}
			}
		}
		if is := strings.Join(got, ", "); is != c.want {
			t.Errorf("%s: %s", name, is)
		}
	}
}
