package tdesign_test

import (
	"strconv"
	"testing"
)

// TestCallsThatAreChangedLater: of two calls that were streamed as one the first is shown whole, and the arguments that an agent
// puts right reach the card: by merging an object, or by what is left of them.
func TestCallsThatAreChangedLater(t *testing.T) {
	t.Parallel()
	call, end := `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`, `{"type":"TOOL_CALL_END","toolCallId":"c"}`
	args := func(d string) string {
		return `{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":` + strconv.Quote(d) + `}`
	}
	changed := func(d string) string {
		return `{"type":"CUSTOM","name":"message_changed","value":{"messageId":"m","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":` + strconv.Quote(d) + `}}]}}`
	}
	for name, c := range map[string]struct{ in, out []string }{
		"streamed as one":  {[]string{args(`{"a":1`), args(`}{"a"`), args(`:2}`), end, changed(`{"a":1}`)}, []string{args(`{"a":1`), args(`}`), end, changed(`{"a":1}`)}},
		"other arguments":  {[]string{args(`{"a":1}`), end, changed(`{"a":2}`)}, []string{args(`{"a":1}`), end, args(`{"a":2}`), end, changed(`{"a":2}`)}},
		"cut arguments":    {[]string{args(`{"a":`), end, changed(`{"a":2}`)}, []string{args(`{"a":`), end, args(`2}`), end, changed(`{"a":2}`)}},
		"no arguments":     {[]string{end, changed(`{"a":2}`)}, []string{end, args(`{"a":2}`), end, changed(`{"a":2}`)}},
		"spelled as shown": {[]string{args(`{ "a": 1 }`), end, changed(`{"a":1}`)}, []string{args(`{ "a": 1 }`), end, changed(`{"a":1}`)}},
		"not to be merged": {[]string{args(`{"a":x}`), end, changed(`{"a":1}`)}, []string{args(`{"a":x}`), end, changed(`{"a":1}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			same(t, shown(t, "", append([]string{started, call}, c.in...)...), append([]string{started, call}, c.out...)...)
		})
	}
}
