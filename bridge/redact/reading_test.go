package redact

import (
	"reflect"
	"testing"

	"aqueduct/store"
)

// TestEveryReadGivesOriginals: each method of a Reader that gives rows of which there are originals is one of reading's. One
// that is forgotten gives an agent what is masked.
func TestEveryReadGivesOriginals(t *testing.T) {
	t.Parallel()
	sealed := map[reflect.Type]bool{
		reflect.TypeFor[store.ToolCall](): true, reflect.TypeFor[store.Approval](): true, reflect.TypeFor[store.Message](): true,
		reflect.TypeFor[store.MessagePart](): true, reflect.TypeFor[store.Turn](): true, reflect.TypeFor[store.Agenda](): true,
	}
	own := reflect.TypeFor[*reading]()
	for m := range reflect.TypeFor[store.Reader]().Methods() {
		for row := range m.Type.Outs() {
			if row.Kind() == reflect.Slice {
				row = row.Elem()
			}
			if _, is := own.MethodByName(m.Name); sealed[row] && !is {
				t.Errorf("%s gives a %s, and masked to reads that ask for originals", m.Name, row)
			}
		}
	}
}
