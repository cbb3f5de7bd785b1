package httpagent

import (
	"bytes"
	"errors"
	"io"
)

// frame is one SSE event: what it is named, and its data with lines joined by "\n". Both
// are valid until the next call of next.
type frame struct {
	event string
	data  []byte
}

var errFrameTooLarge = errors.New("httpagent: frame too large")

// readBuffer is what one read may take at first; it grows up to the frame limit.
const readBuffer = 16 << 10

// frameReader reads SSE by the letter of the HTML standard: LF, CRLF or CR end a line, a
// blank line ends an event, and an event cut off by the end of the stream never was.
type frameReader struct {
	r     io.Reader
	limit int

	buf        []byte // read, not yet parsed, from start to end
	start, end int
	scanned    int  // of the first unfinished line, so that no byte is searched twice
	skipLF     bool // the last line ended in CR
	begun      bool // the byte order mark has been looked for

	event  string
	data   []byte // of the frame under construction; in buf until the next read
	inData bool
	owned  bool // data is no longer in buf, so that many lines are copied once
	frames []frame
}

func newFrameReader(r io.Reader, limit int) *frameReader {
	return &frameReader{r: r, limit: limit, buf: make([]byte, readBuffer)}
}

// next reads until at least one frame, or a comment, is complete and returns all that
// are. Frames may come together with an error; io.EOF is the stream's end.
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

// fill makes room and reads once.
func (f *frameReader) fill() error {
	if f.start > 0 {
		copy(f.buf, f.buf[f.start:f.end])
		f.end -= f.start
		f.start = 0
	}
	if f.end+len(f.data) > f.limit {
		return errFrameTooLarge
	}
	if f.end == len(f.buf) {
		f.buf = append(f.buf, make([]byte, len(f.buf))...)
	}
	n, err := f.r.Read(f.buf[f.end:])
	f.end += n
	if n > 0 {
		return nil
	}
	return err
}

// parse takes all complete lines. It reports whether something came to an end: a frame,
// or a comment, by which an upstream shows that it lives.
func (f *frameReader) parse() (alive bool) {
	if !f.begun {
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

// line takes one line off the buffer.
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

// own takes what there is of a frame out of the buffer.
func (f *frameReader) own() {
	if f.inData && !f.owned {
		f.data, f.owned = bytes.Clone(f.data), true
	}
}

// dispatch ends a frame. One without data is none.
func (f *frameReader) dispatch() {
	if f.inData {
		f.frames = append(f.frames, frame{event: f.event, data: f.data})
		f.data = nil
	}
	f.event, f.inData, f.owned = "", false, false
}

// internName gives the names we know without an allocation.
func internName(name []byte) string {
	switch string(name) {
	case frameDelta:
		return frameDelta
	case frameThought:
		return frameThought
	}
	return string(name)
}
