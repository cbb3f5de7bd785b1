package bridge

import (
	"bytes"

	"aqueduct/agui"
	"aqueduct/store"
)

// changesMessages reports whether an event is the one at the end of a Run whose messages changed after they were streamed.
func changesMessages(event []byte) bool {
	return agui.TypeOf(event) == agui.TypeCustom && bytes.Contains(event, []byte(`"name":"`+messagesAmended+`"`))
}

// until is the Run at which a transcript ends; the zero value means no end.
type until struct {
	run    string
	output bool // with the output of the Run itself
}

// has reports whether a message is before the end.
func (u until) has(row *store.Message) bool {
	return u.run == "" || row.RunID < u.run || row.RunID == u.run && (u.output || !row.Output)
}
