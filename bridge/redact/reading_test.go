package redact

import (
	"reflect"
	"slices"
	"testing"

	"aqueduct/store"
)

// shownOnly are reads of rows that hold such rows, and serve lists for people.
var shownOnly = []string{"OpenApprovals", "ApprovalChanges", "ChildTurns"}

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
			if _, is := own.MethodByName(m.Name); holds(row, sealed) && !is && !slices.Contains(shownOnly, m.Name) {
				t.Errorf("%s gives a %s, and masked to reads that ask for originals", m.Name, row)
			}
		}
	}
}

// holds reports whether a row is one of those, or has one as a member.
func holds(row reflect.Type, sealed map[reflect.Type]bool) bool {
	if sealed[row] || row.Kind() != reflect.Struct {
		return sealed[row]
	}
	for f := range row.Fields() {
		of := f.Type
		if of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if sealed[of] {
			return true
		}
	}
	return false
}
