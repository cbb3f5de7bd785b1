package httpagent

import "aqueduct/bridge/aguiagent"

// An agent may send back what it was sent: AG-UI has the messages in RUN_STARTED's input and in MESSAGES_SNAPSHOT, and
// frameworks put them into RAW, rawEvent and the state. With pictures that is more than a frame may have, and none of it is
// news. So in a frame past the limit long runs of base64 in these members are replaced while it is read, and the rest has to
// keep to the limit. Anywhere else a frame past the limit ends the Turn: what would be left out is the agent's own.

const (
	// echoRun is how long a run of base64 is that is left out. What else has such runs, keys and hashes, is shorter.
	echoRun = 16 << 10
	// echoBytes bounds a frame whose runs are left out, as it is read: six times the pictures that one call sends as base64.
	// It costs time and no memory.
	echoBytes = 512 << 20
)

// squeezer leaves out runs of base64 while JSON is read, and keeps its state from one piece to the next. It trusts that the
// JSON is valid: what becomes of other text is not valid either.
type squeezer struct {
	depth            int
	inString, escape bool
	last, key, top   memberName // the last string, the member that is open, and the one of the whole object
	run              int        // bytes of the run so far
	runAt            int        // where it begins in the buffer
	cutting          bool       // its bytes are left out
	read             int        // bytes in all
}

// memberName is the beginning of a string, by which the members that count here differ.
type memberName struct {
	text [16]byte
	size int
}

func (m *memberName) add(c byte) {
	if m.size < len(m.text) {
		m.text[m.size] = c
	}
	m.size++
}

func (m *memberName) is(name string) bool {
	return m.size == len(name) && string(m.text[:m.size]) == name
}

// mayCut reports whether the string that is open may hold what the agent was sent. An encrypted value is no picture, and
// counts to its last byte.
func (s *squeezer) mayCut() bool {
	t := &s.top
	return (t.is("messages") || t.is("input") || t.is("event") || t.is("rawEvent") || t.is("snapshot")) && !s.key.is("encryptedValue")
}

// squeeze moves what is kept of buf[from:to] to buf[at:], at being from or before it, and returns where that ends.
func (s *squeezer) squeeze(buf []byte, at, from, to int) int {
	s.read += to - from
	for i := from; i < to; i++ {
		c := buf[i]
		if s.inString {
			at = s.character(buf, at, c)
			continue
		}
		switch c {
		case '"':
			s.inString, s.last, s.run = true, memberName{}, 0
		case '{', '[':
			s.depth++
		case '}', ']':
			s.depth--
		case ':':
			if s.key = s.last; s.depth == 1 {
				s.top = s.last
			}
		}
		buf[at] = c
		at++
	}
	return at
}

// character takes one byte of a string.
func (s *squeezer) character(buf []byte, at int, c byte) int {
	escaped := s.escape
	s.escape = c == '\\' && !escaped
	switch {
	case s.escape, escaped && (c == 'n' || c == 'r' || c == '/'), !escaped && base64Bytes[c]: // a line break in base64, or a slash
		return s.more(buf, at, c)
	}
	if s.cutting && escaped { // the backslash was left out with the run before it
		buf[at] = '\\'
		at++
	}
	s.run, s.cutting = 0, false
	if c == '"' && !escaped {
		s.inString = false
	} else {
		s.last.add(c)
	}
	buf[at] = c
	return at + 1
}

// more takes one byte of a run.
func (s *squeezer) more(buf []byte, at int, c byte) int {
	if s.cutting {
		return at
	}
	if s.run == 0 {
		s.runAt = at
	}
	s.last.add(c)
	buf[at] = c
	at++
	if s.run++; s.run < echoRun || c == '\\' || !s.mayCut() {
		return at
	}
	s.cutting = true
	return s.runAt + copy(buf[s.runAt:], aguiagent.LeftOut)
}

// base64Bytes are those of both alphabets, and of percent signs in a URL.
var base64Bytes = func() (table [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=%" {
		table[c] = true
	}
	return table
}()
