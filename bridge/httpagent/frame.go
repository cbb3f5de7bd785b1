package httpagent

import (
	"bytes"
	"errors"
	"io"
)

// frame is one SSE event: its name, and its data with lines joined by "\n". Both are valid until the next call of
// frameReader.next, because data is a slice of the read buffer where that is possible.
type frame struct {
	event string
	data  []byte
}

var errFrameTooLarge = errors.New("httpagent: frame too large")

// readBuffer is what one read may take at first; it grows up to the frame limit.
const readBuffer = 16 << 10

// frameReader reads SSE as the HTML standard defines it (section 9.2): LF, CRLF or CR end a line, a blank line ends an
// event, and an event that the end of the stream cuts off is dropped. It is our own because it reads most frames without a
// copy and bounds a frame's size; the fuzz test compares it with r3labs/sse.
//
// It is used by one goroutine. The slices it returns lie in its buffer, so the frames of one call must be translated
// before the next.
//
// data begins as a slice of buf. It becomes a copy of its own (owned) before anything can move or overwrite these
// bytes: at a second data line, and when parse ends in the middle of a frame. A frame of one data line that
// one read completes is never copied.
type frameReader struct {
	r     io.Reader
	limit int

	buf        []byte // read, not yet parsed, from start to end
	start, end int
	scanned    int  // of the first unfinished line, so that no byte is searched twice
	skipLF     bool // the last line ended in CR
	begun      bool // the byte order mark has been looked for

	// echo leaves out of a line past the limit what the agent was sent, and squeezing is set while it does; nil leaves out nothing.
	echo      *squeezer
	squeezing bool

	event  string
	data   []byte // of the frame under construction; in buf until the next read
	inData bool
	owned  bool // data is no longer in buf, so that many lines are copied once
	frames []frame
}

func newFrameReader(r io.Reader, limit int) *frameReader {
	return &frameReader{r: r, limit: limit, buf: make([]byte, readBuffer)}
}

// next reads until at least one frame or comment is complete, and returns all complete frames. An error comes alone: what
// was complete before it was returned by the call before. io.EOF is the end of the stream.
func (f *frameReader) next() ([]frame, error) {
	f.frames = f.frames[:0]
	for {
		if alive := f.parse(); alive {
			return f.frames, nil
		}
		if err := f.fill(); err != nil {
			return nil, err
		}
	}
}

// fill makes room and reads once. The buffer and the part of a frame that was copied out of it together may not exceed the
// limit: a frame of many data lines would otherwise grow without a bound.
func (f *frameReader) fill() error {
	if f.start > 0 {
		copy(f.buf, f.buf[f.start:f.end])
		f.end -= f.start
		f.start = 0
	}
	if f.end+len(f.data) > f.limit && !f.squeeze() || f.squeezing && f.echo.read > echoBytes {
		return errFrameTooLarge
	}
	if f.end == len(f.buf) { // one unfinished line fills it
		f.buf = append(f.buf, make([]byte, len(f.buf))...)
	}
	// A reader may return bytes and an error at once. The error comes again with the next read.
	n, err := f.r.Read(f.buf[f.end:])
	f.took(n)
	if n > 0 {
		return nil
	}
	return err
}

// squeeze removes the agent's own input from a line past the limit, until the line ends. It returns false if the frame has
// several lines, or if the rest of the line still exceeds the limit.
func (f *frameReader) squeeze() bool {
	if f.echo == nil || f.squeezing || f.inData {
		return false
	}
	*f.echo, f.squeezing = squeezer{}, true
	f.end = f.echo.squeeze(f.buf, 0, 0, f.end)
	f.scanned = f.end
	return f.end <= f.limit
}

// took accounts for the bytes that a read has put after the end.
func (f *frameReader) took(n int) {
	from, to := f.end, f.end+n
	if !f.squeezing {
		f.end = to
		return
	}
	line := to
	if i := bytes.IndexAny(f.buf[from:to], "\r\n"); i >= 0 {
		line, f.squeezing = from+i, false
	}
	f.end = f.echo.squeeze(f.buf, from, from, line)
	f.scanned = f.end // all before the line's end, and a run that was left out may have begun before
	f.end += copy(f.buf[f.end:], f.buf[line:to])
}

// parse takes all complete lines. It reports whether a frame or a comment was completed; an upstream sends comments as
// heartbeats.
func (f *frameReader) parse() (alive bool) {
	if !f.begun {
		// Fewer bytes that could still become a byte order mark are waited for.
		if f.end-f.start < 3 && bytes.HasPrefix([]byte("\xEF\xBB\xBF"), f.buf[f.start:f.end]) {
			return false
		}
		f.begun = true
		if bytes.HasPrefix(f.buf[f.start:f.end], []byte("\xEF\xBB\xBF")) {
			f.start += 3
		}
	}
	for {
		line, ok := f.line()
		if !ok {
			f.own() // the buffer moves before the frame is complete
			return alive || len(f.frames) > 0
		}
		if len(line) == 0 {
			f.dispatch()
		} else if line[0] == ':' {
			alive = true
		} else {
			f.field(line)
		}
	}
}

// line takes one line off the buffer. A CR at the buffer's end may be the first half of a CRLF whose LF has not arrived, so
// the line ends at once and the LF is skipped when it comes: waiting for it would hold the frame back until the next one.
func (f *frameReader) line() ([]byte, bool) {
	if f.skipLF && f.start < f.end {
		if f.buf[f.start] == '\n' {
			f.start++
		}
		f.skipLF = false
	}
	rest := f.buf[f.start:f.end]
	i := bytes.IndexByte(rest[f.scanned:], '\n')
	limit := len(rest)
	if i >= 0 {
		limit = f.scanned + i
	}
	if cr := bytes.IndexByte(rest[f.scanned:limit], '\r'); cr >= 0 {
		limit = f.scanned + cr
		f.skipLF = true
	} else if i < 0 {
		f.scanned = len(rest)
		return nil, false
	}
	f.scanned = 0
	f.start += limit + 1
	return rest[:limit], true
}

// field takes one "name: value" line. Names other than event and data are ignored: an agent's ids and retry times mean
// nothing here, since the log gives each event its own position.
func (f *frameReader) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "event":
		f.event = internName(value)
	case "data":
		if f.inData {
			f.own()
			f.data = append(append(f.data, '\n'), value...)
		} else {
			f.inData, f.data = true, value
		}
	}
}

// own copies the unfinished frame out of the buffer, before fill moves the buffer's bytes under it.
func (f *frameReader) own() {
	if f.inData && !f.owned {
		f.data, f.owned = bytes.Clone(f.data), true
	}
}

// dispatch ends a frame. A frame without a data line is dropped, as the standard asks.
func (f *frameReader) dispatch() {
	if f.inData {
		f.frames = append(f.frames, frame{event: f.event, data: f.data})
		f.data = nil
	}
	f.event, f.inData, f.owned = "", false, false
}

// internName returns the names of the most frequent frames without an allocation: the conversion in a switch makes none.
func internName(name []byte) string {
	switch string(name) {
	case frameDelta:
		return frameDelta
	case frameThought:
		return frameThought
	}
	return string(name)
}
