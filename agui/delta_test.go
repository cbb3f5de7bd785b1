package agui

import (
	"reflect"
	"testing"
)

// TestDeltasMatchTheirTables: the three events with a codec of their own are written and read as their tables would.
func TestDeltasMatchTheirTables(t *testing.T) {
	t.Parallel()
	for _, ev := range []sharing{new(TextMessageContent), new(ToolCallArgs), new(ReasoningMessageContent)} {
		if _, ok := ev.(delta); !ok {
			t.Fatalf("%T has no codec of its own", ev)
		}
		for _, text := range []string{"", "\"\u2028é"} {
			fillEvent(reflect.ValueOf(ev).Elem(), "", text)
			byHand := ev.AppendJSON(nil)
			if byTable := appendEvent(nil, ev); string(byHand) != string(byTable) {
				t.Errorf("by hand  %s\nby table %s", byHand, byTable)
			}
			again := blank(ev.EventType())
			if err := readObject(byHand, again); err != nil || string(again.AppendJSON(nil)) != string(byHand) {
				t.Errorf("read by the table: %v, %s", err, again.AppendJSON(nil))
			}
		}
		if err := readObject([]byte(`{}`), ev.(delta)); err != nil { // all members are still set
			t.Error(err)
		}
		empty := blank(ev.EventType()).(delta)
		if err := readObject([]byte(`{}`), empty); err == nil || empty.missing() == "" {
			t.Errorf("%T without an id: %v, %q", ev, err, empty.missing())
		}
	}
}
