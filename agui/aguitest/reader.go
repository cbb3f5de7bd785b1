// Package aguitest reads streams for tests as strictly as the strictest official client
// does: what it takes, no client throws on or warns of.
package aguitest

import (
	"bytes"
	"fmt"

	"aqueduct/agui"
)

// Reader checks the events of one thread, in order. The zero value is not ready; see [New].
type Reader struct {
	grammar   agui.Grammar
	fold      *agui.Fold
	state     *agui.StateDoc
	terminals int
}

// New is a Reader of a client that holds nothing yet.
func New() *Reader {
	return &Reader{fold: agui.NewFold(nil), state: new(agui.StateDoc)}
}

// Read checks one event as it stands on the wire: that every member is known and none is
// null that may not be, that the event may come now, and that a patch is one and applies.
func (r *Reader) Read(event []byte) error {
	ev, err := agui.Decode(event)
	if err != nil {
		return err
	}
	if again := ev.AppendJSON(nil); !bytes.Equal(again, event) {
		return fmt.Errorf("aguitest: %s is read as %s", event, again)
	}
	if err := r.grammar.Check(ev); err != nil {
		return err
	}
	if err := r.fold.CheckActivity(ev); err != nil {
		return err
	}
	r.fold.Apply(ev)
	switch e := ev.(type) {
	case *agui.StateSnapshot:
		return r.state.Snapshot(e.Snapshot)
	case *agui.StateDelta:
		return r.state.Patch(e.Delta)
	case *agui.RunFinished, *agui.RunError:
		r.terminals++
	}
	return nil
}

// Terminals is how many runs have ended.
func (r *Reader) Terminals() int { return r.terminals }

// Running reports whether a run has begun and not ended.
func (r *Reader) Running() bool { return r.grammar.Running() }

// Messages is what the thread amounts to.
func (r *Reader) Messages() []agui.Message { return r.fold.Messages() }

// State is the shared state.
func (r *Reader) State() *agui.StateDoc { return r.state }

// Fits reports whether an event could be read next as far as its patch is concerned.
func (r *Reader) Fits(ev agui.Event) bool {
	if d, ok := ev.(*agui.StateDelta); ok {
		state, err := agui.NewStateDoc(r.state.JSON())
		return err == nil && state.Patch(d.Delta) == nil
	}
	return r.fold.CheckActivity(ev) == nil
}
