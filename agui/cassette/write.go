// This file writes cassettes. One that is not closed has no trailer, so a file that was cut by a crash is known for
// it.

package cassette

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"aqueduct/agui"
	"aqueduct/internal/fault"
)

// Writer writes a cassette. It holds the events of one Run until that is whole, so that a Run which is under way when
// the log is read leaves nothing in the file. One goroutine uses it.
type Writer struct {
	out   *bufio.Writer
	err   error // of the first write that failed
	sum   *sum
	began time.Time     // when the first event was kept; times in the file count from it
	at    time.Duration // of the last event
	open  Run           // that has not ended
	// Runs and Events count what is in the file.
	Runs   int
	Events int64
	size   int64
}

// NewWriter begins a cassette.
func NewWriter(out io.Writer, h Header) *Writer {
	w := &Writer{out: bufio.NewWriter(out), sum: newSum()}
	h.Version = Version
	w.json(h)
	return w
}

// Add takes the next event of the log and when it was kept. A time before that of the event in front of it, of a clock
// that was set back, counts as the same moment. What no reader would take is refused with TooLarge.
func (w *Writer) Add(seq int64, kept time.Time, event []byte) error {
	if len(event) > MaxEvent && w.err == nil {
		w.err = fault.New(TooLarge, fmt.Sprintf("event %d has %d bytes; a cassette's has at most %d", seq, len(event), MaxEvent))
	}
	if bytes.ContainsAny(event, "\r\n") && w.err == nil {
		w.err = fault.New(Broken, fmt.Sprintf("event %d has a line break: it is not as a server keeps events", seq))
	}
	if w.began.IsZero() {
		w.began = kept
	}
	w.at = max(w.at, kept.Sub(w.began).Truncate(time.Millisecond))
	w.open = append(w.open, Event{Seq: seq, At: w.at, JSON: event})
	if !agui.IsTerminal(event) {
		return w.err
	}
	for _, e := range w.open {
		w.event(e)
	}
	w.open = nil
	w.Runs++
	return w.err
}

// Close ends the cassette. Events of a Run that has not ended are left out; unfinished is how many. A cassette without a
// Run could not be played: nothing is written of it.
func (w *Writer) Close() (unfinished int, err error) {
	if w.Runs == 0 {
		return len(w.open), w.err
	}
	w.json(trailer{Events: w.Events, SHA256: w.sum.hex()})
	if w.err == nil {
		w.err = w.out.Flush()
	}
	return len(w.open), w.err
}

// event writes one line. encoding/json would write the event's own bytes anew, so the line is put together by hand.
func (w *Writer) event(e Event) {
	w.sum.add(e.Seq, e.JSON)
	b := strconv.AppendInt([]byte(`{"seq":`), e.Seq, 10)
	b = strconv.AppendInt(append(b, `,"atMs":`...), e.At.Milliseconds(), 10)
	b = append(append(append(b, `,"event":`...), e.JSON...), "}\n"...)
	w.write(b)
	w.Events++
}

// json writes a line of our own.
func (w *Writer) json(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		w.err = fmt.Errorf("cassette: %w", err)
		return
	}
	w.write(append(b, '\n'))
}

// trailerBytes is room for the last line.
const trailerBytes = 1 << 10

// write keeps the first error, after which nothing is written.
func (w *Writer) write(b []byte) {
	if w.size += int64(len(b)); w.err == nil && w.size > MaxBytes-trailerBytes {
		w.err = fault.New(TooLarge, fmt.Sprintf("it would have more than %d bytes; export a Run of it alone", MaxBytes))
	}
	if w.err == nil {
		_, w.err = w.out.Write(b)
	}
}
