// This file collects the frames of one event of the log.

package tdesign

import "aqueduct/agui"

// frames are what one event of the log becomes. The log's id is on the last frame only, so that a page that reconnects
// with it has seen the whole event; which frame is the last is known when the next one, or none, has come.
type frames struct {
	dst     []byte // the frames being appended
	last    []byte // the latest of them, not appended yet
	pending bool
}

func (f *frames) begin(dst []byte) { f.dst, f.pending = dst, false }

// end appends the last frame, with the id, and gives the buffer back.
func (f *frames) end(id int64) []byte {
	if f.pending {
		f.dst = agui.AppendFrame(f.dst, id, f.last)
	}
	dst := f.dst
	f.dst = nil
	return dst
}

// pass sends JSON as it is: the bytes of the log, or an event AG-UI 1.0 has no type for.
func (f *frames) pass(event []byte) {
	f.flush()
	f.last = append(f.last[:0], event...)
	f.pending = true
}

// send sends an event that is not in the log.
func (f *frames) send(ev agui.Event) {
	f.flush()
	f.last = ev.AppendJSON(f.last[:0])
	f.pending = true
}

// flush appends the latest frame, without an id since another one follows.
func (f *frames) flush() {
	if f.pending {
		f.dst = agui.AppendFrame(f.dst, 0, f.last)
	}
}
