package httpagent

import "aqueduct/bridge/aguiagent"

// An agent may send back its input: AG-UI has the messages in RUN_STARTED's input and in MESSAGES_SNAPSHOT, and frameworks
// put them into RAW, rawEvent and the state. With pictures they exceed a frame's limit, and none of them is new.
//
// So in a frame past the limit, long runs of base64 in these members are removed while it is read. The rest must fit the
// limit. Any other frame past the limit ends the Turn, because its bytes are the agent's own.

const (
	// echoRun is the minimum length of a run of base64 that is removed. Keys and hashes are shorter.
	echoRun = 16 << 10
	// echoBytes bounds a frame whose runs are removed, in bytes read: six times the pictures that one call sends as base64.
	// Reading it costs time and no memory.
	echoBytes = 512 << 20
)

// squeezer removes runs of base64 while JSON is read, and keeps its state between pieces. It assumes that the JSON is valid:
// invalid JSON stays invalid.
type squeezer struct {
	depth            int
	inString, escape bool
	last, key, top   memberName // the last string, the member that is open, and the one of the whole object
	run              int        // bytes of the run so far
	runAt            int        // where it begins in the buffer
	cutting          bool       // its bytes are removed
	read             int        // bytes in all
}

// memberName is the beginning of a string, long enough to distinguish the relevant members.
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

// mayCut reports whether the open string may hold the agent's input. An encrypted value is not a picture; all its bytes
// count.
func (s *squeezer) mayCut() bool {
	t := &s.top
	return (t.is("messages") || t.is("input") || t.is("event") || t.is("rawEvent") || t.is("snapshot")) && !s.key.is("encryptedValue")
}

// squeeze moves the kept bytes of buf[from:to] to buf[at:] and returns their end. at is not after from.
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

// character consumes one byte of a string.
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

// more consumes one byte of a run.
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

// base64Bytes are the bytes of both alphabets, and of percent signs in a URL.
var base64Bytes = func() (table [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=%" {
		table[c] = true
	}
	return table
}()
