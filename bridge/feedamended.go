package bridge

import (
	"bytes"
	"context"

	"aqueduct/agui"
	"aqueduct/internal/retry"
	"aqueduct/store"
)

// changesMessages reports whether an event is the one at the end of a Run in which messages changed after they were streamed.
func changesMessages(event []byte) bool {
	return agui.TypeOf(event) == agui.TypeCustom && bytes.Contains(event, []byte(`"name":"`+messagesAmended+`"`))
}

// amended gives the messages as they are now, in a snapshot that is not kept: what changed in a message that a client has, no
// other event of AG-UI changes. The rows are in the commit that the event is in. A snapshot has all that a client may have, as
// that of a join does, since clients drop what it leaves out.
func (f *Feed) amended(ctx context.Context) error {
	return retry.While(ctx, isAway, func() error {
		history, older, err := f.from.transcript.newest(ctx, f.in, f.session.ID, until{run: f.at, output: true})
		if err != nil {
			return err
		}
		f.items = append(f.items, transientItems(append([]agui.Event{&agui.MessagesSnapshot{Messages: history}}, older...))...)
		return nil
	})
}

// until is the Run at which a transcript ends; the zero value is no end.
type until struct {
	run    string
	output bool // with the output of the Run itself
}

// has reports whether a message is before the end.
func (u until) has(row *store.Message) bool {
	return u.run == "" || row.RunID < u.run || row.RunID == u.run && (u.output || !row.Output)
}
