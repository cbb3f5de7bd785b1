// This file reads the standard output of a server that is a program. MCP has nothing but messages there (transports,
// stdio: one a line); many programs print more.

package mcpservers

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"

	"golang.org/x/time/rate"

	"aqueduct/internal/strictjson"
)

// messages is the standard output of a server without the lines that are no messages: programs print what they are
// about, and clients of MCP pass that over. A line that begins as a message does is passed on whatever it is: half of
// one may be an answer, whose call must not wait for another. The goroutine of the library that reads the connection
// alone uses it.
type messages struct {
	io.Closer
	lines   *bufio.Reader
	may     *rate.Limiter
	logger  *slog.Logger
	rest    []byte             // is passed on next; it lies in the buffer of lines, which is read into again only when rest is empty
	values  strictjson.Counter // of the line
	inside  bool               // of a line, whose beginning was read
	passing bool               // that line is passed on
	err     error
}

func newMessages(from io.ReadCloser, logger *slog.Logger) *messages {
	return &messages{Closer: from, lines: bufio.NewReader(from), may: rate.NewLimiter(linesPerSecond, linesAtOnce), logger: logger}
}

// Read implements io.Reader.
func (m *messages) Read(b []byte) (int, error) {
	for len(m.rest) == 0 {
		if m.err != nil {
			return 0, m.err
		}
		m.next()
	}
	n := copy(b, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// next reads a line, or a part of one that is longer than the buffer.
func (m *messages) next() {
	part, err := m.lines.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		m.err = err
	}
	if !m.inside {
		m.values = strictjson.Counter{}
		if m.passing = beginsMessage(part); !m.passing {
			m.log(part)
		}
	}
	m.inside = !bytes.HasSuffix(part, []byte("\n"))
	if m.passing {
		m.rest = part
		if m.values.Add(part) > strictjson.MostFrameValues {
			m.rest, m.err = nil, errTooLong
		}
	}
}

// beginsMessage: a message is an object, or, until the revision of June 2025, a list of objects.
func beginsMessage(line []byte) bool {
	line = bytes.TrimSpace(line)
	if list, ok := bytes.CutPrefix(line, []byte("[")); ok {
		line = bytes.TrimSpace(list)
	}
	return bytes.HasPrefix(line, []byte("{"))
}

// log logs what is no message, as far as its limiter lets it.
func (m *messages) log(line []byte) {
	if text := strings.TrimSpace(string(line[:min(len(line), longestLine)])); text != "" && m.may.Allow() {
		m.logger.Info("an MCP server writes a line that is no message", slog.String("line", strings.ToValidUTF8(text, "\uFFFD")))
	}
}
