// This file has the parts that last: one by time, one by number. Tests of clients that leave, come back or read
// slowly use them.

package demoagent

import (
	"strconv"
)

const (
	slowDeltas   = 60 // a minute at the default pace
	floodDefault = 200
	// floodMost bounds what a prompt can ask for: some 40 MB of frames.
	floodMost = 1_000_000
	// floodChunk frames are written between two looks at whether anybody still reads.
	floodChunk = 512
)

// showSlow is long enough to leave, to come back to and to cancel.
func showSlow(s *stream, c invocation) {
	for i := 1; i <= slowDeltas && !s.gone(); i++ {
		s.send("delta", textFrame{Text: strconv.Itoa(i) + " "})
		s.sent++
		s.wait(s.pace.Slow)
	}
	s.done(c)
}

// showFlood numbers its deltas, so that a lost, doubled or moved one shows in the text. The
// frames are put together by hand: the demo is to be the cheap end of a measurement.
func showFlood(s *stream, c invocation) {
	n, err := strconv.Atoi(c.argument())
	if err != nil || n < 1 {
		n = floodDefault
	}
	n = min(n, floodMost)
	frame := make([]byte, 0, 64)
	for i := 1; i <= n; i++ {
		if i%floodChunk == 0 && s.gone() {
			return
		}
		frame = append(frame[:0], "event: delta\ndata: {\"text\":\""...)
		frame = strconv.AppendInt(frame, int64(i), 10)
		frame = append(frame, " \"}\n\n"...)
		if s.err == nil {
			_, s.err = s.w.Write(frame)
		}
	}
	s.sent += n
	s.done(c)
}
