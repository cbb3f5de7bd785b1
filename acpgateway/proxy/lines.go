// This file reads the lines of an agent's standard output. An agent is a program of others: a line may have any
// length, and one that is too long must neither cost its memory nor end the connection.

package proxy

import (
	"bufio"
	"errors"
	"io"
)

// errLine is a line past the limit.
var errLine = errors.New("a line of the agent is too long")

// lineReader reads lines up to a limit and passes over longer ones.
// bufio.Scanner would end at a line that is too long, and keeps a buffer of the longest line for good.
type lineReader struct {
	r     *bufio.Reader
	limit int
	buf   []byte
}

const (
	lineBuffer = 64 << 10
	// lineKept is how much memory stays with a reader after a long line.
	lineKept = 1 << 20
	// lineHead is what is kept of a line past the limit.
	lineHead = 4 << 10
)

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, lineBuffer), limit: limit}
}

// next returns a line, good until the next call; its beginning with errLine when it was too
// long; and the rest of the input beside the error that ended it.
func (l *lineReader) next() ([]byte, error) {
	if cap(l.buf) > lineKept {
		l.buf = nil
	}
	l.buf = l.buf[:0]
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		// Once it is too long the rest of the line is read and dropped, so a line of any length costs the limit at
		// most.
		if long = long || len(l.buf)+len(part) > l.limit; !long {
			l.buf = append(l.buf, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return l.buf, err
		case long:
			return l.buf[:min(len(l.buf), lineHead)], errLine
		default:
			return l.buf, nil
		}
	}
}
