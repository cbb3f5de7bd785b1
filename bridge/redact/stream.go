// This file masks a text that comes in pieces. It must give what a Filter would give of the whole, and hold back as
// little as it can.

package redact

import "bytes"

// Stream masks the secrets of a text that comes in pieces, however they are cut. A marker is no secret and passes at
// once; what follows one is held back until it is known whether it is a secret, so that text without markers is never
// late. The zero value is ready. It is not safe for concurrent use.
// An agent's answer arrives in deltas of a few bytes, cut anywhere: "sk-ab" and "cd…" are two frames. A Filter on each
// delta would let both pass. The Stream of a message is owned by what translates it; the pieces it returns, put
// together, are the Filter's text of the whole, but for bodies that pass a bound.
type Stream struct {
	buf    []byte // what may become a marker and has passed, and behind it what is held back
	passed int    // how much of buf has passed
	inWord bool   // what passed before buf ends within a word, which buf may go on with

	hiding *rule // of a secret that goes on: its bytes are dropped
	prev   byte  // the last of them
	hidden int

	custom customStream
}

// Push takes the next piece and returns what may pass: the piece itself when nothing is hidden or held back.
// With no configured pattern and no marker in sight it returns its argument without copying, which is nearly always.
func (s *Stream) Push(f *Filter, piece string) string {
	if f == nil {
		return piece
	}
	out := s.push(piece, false)
	if len(f.custom) > 0 {
		out = s.custom.push(f, out, false)
	}
	return out
}

// End returns what is held back: the text is over. The Stream is ready for another.
// Each message, argument text and reasoning block ends its own: a secret does not go on in another message.
func (s *Stream) End(f *Filter) string {
	if f == nil {
		return ""
	}
	out := s.push("", true)
	if len(f.custom) > 0 {
		out = s.custom.push(f, out, true)
	}
	s.reset()
	return out
}

// reset keeps the buffers.
func (s *Stream) reset() {
	*s = Stream{buf: s.buf[:0], custom: customStream{held: s.custom.held[:0]}}
}

// Holds reports whether something is held back.
func (s *Stream) Holds() bool { return len(s.buf) > s.passed || len(s.custom.held) > 0 }

// push walks from secret to secret in what was kept of the last pieces and this one. Three things may end it: a secret that
// reaches the end of the text and so goes on in the next piece (hiding), a body that is not decided yet (held back from
// its beginning), or no secret at all (only the beginning of what may be a marker is remembered, and it has passed).
func (s *Stream) push(piece string, final bool) string {
	rest := piece
	if s.hiding != nil {
		rest = s.hide(rest)
	}
	b, passed := view(rest), 0 // nothing before it matters, mostly: then it is looked at where it is
	whole := len(s.buf) > 0
	if whole {
		s.buf = append(s.buf, rest...)
		b, passed = s.buf, s.passed
	}
	// Something was held back, so what is returned is not the piece; unless the walk finds a secret, it otherwise is.
	changed := passed < len(b)-len(rest)
	var out []byte
	i := 0
	// The word that passed before goes on: no marker begins within it.
	for s.inWord && i < len(b) && word[b[i]] {
		i++
	}
	for {
		f, st, last := forms.next(b, i, final)
		switch at := max(f.at, passed); st {
		case secret: // what has passed of it has passed
			out, changed = append(append(out, b[passed:at]...), Mask...), true
			if f.end == len(b) && !final && f.rule.until == 0 {
				s.hiding, s.hidden, s.prev = f.rule, f.end-f.at, b[f.end-1]
				s.keep(nil, 0)
				return string(out)
			}
			passed, i = f.end, f.end
			continue
		case undecided:
			if !changed && at == len(b) {
				s.keep(b[f.from:], at-f.from)
				return rest
			}
			out = append(out, b[passed:at]...)
			s.keep(b[f.from:], at-f.from)
			return string(out)
		default:
		}
		if changed {
			out = append(out, b[passed:]...)
		}
		inWord := last.inWord && last.open == len(b) || s.inWord && i == len(b)
		s.keep(b[last.open:], len(b)-last.open)
		s.inWord = inWord
		if changed {
			return string(out)
		}
		return rest
	}
}

// keep remembers the end of the text: what is held back, and what passed and may become a marker.
func (s *Stream) keep(b []byte, passed int) {
	s.inWord = false
	if len(b) == 0 {
		s.buf, s.passed = s.buf[:0], 0
		return
	}
	s.buf, s.passed = append(s.buf[:0], b...), passed
}

// hide drops what goes on with a secret, and returns what is behind it.
// It keeps no byte of a secret: only the rule, the last byte and a count, so that a secret of any length costs nothing.
func (s *Stream) hide(piece string) string {
	for i := range len(piece) {
		c := piece[i]
		// The same rules as those of rule.end, which counts from the body's beginning; that has been dropped here.
		if s.hiding == pemKey {
			if c == '-' && s.prev == '-' {
				s.hiding = nil
				return "-" + piece[i:] // the first dash was dropped before it was known for the footer's
			}
			if s.hidden+i >= pemMost || !pem[c] || s.prev == '\\' && c != 'n' && c != 'r' && c != 't' && c != '\\' {
				s.hiding = nil
				return piece[i:]
			}
			if s.prev == '\\' && c == '\\' {
				c = 0 // an escaped backslash escapes nothing
			}
			s.prev = c
			continue
		}
		if !s.hiding.member(s.prev, c) {
			s.hiding = nil
			return piece[i:]
		}
		s.prev = c
	}
	s.hidden += len(piece)
	return ""
}

// customMost bounds what is held back for a configured pattern. Half a kilobyte of text late is the most that a user
// should notice; a longer match is masked up to there only.
const customMost = 512

// customStream masks what configured patterns match in a stream. It holds back the word that the text ends in, from
// the prefix on that a pattern's matches begin with, and a match that may go on.
// A configured pattern is a regular expression, which cannot be asked whether more text could make it match. So the last
// word is always held back, and released with the next space, a match or the end.
type customStream struct{ held []byte }

// push gets what the forms have let pass, and returns what no pattern can match any more.
func (c *customStream) push(f *Filter, piece string, final bool) string {
	c.held = append(c.held, piece...)
	if len(c.held) == 0 {
		return ""
	}
	keep := len(c.held)
	if !final {
		keep = max(c.undecided(f), len(c.held)-customMost)
	}
	out := c.held[:keep]
	for _, p := range f.custom {
		// Matches that reach into what is held back begin in it, unless they are longer than is held back at most.
		if p.expr.Match(c.held) {
			for _, m := range p.expr.FindAllIndex(c.held, -1) {
				if m[0] < keep && m[1] > keep {
					keep = m[1]
				}
			}
			out = c.held[:keep]
		}
	}
	text := append([]byte(nil), out...)
	for _, p := range f.custom {
		text = p.expr.ReplaceAllLiteral(text, []byte(Mask))
	}
	c.held = c.held[:copy(c.held, c.held[keep:])]
	return string(text)
}

// undecided is where what may yet become a match begins.
// Three things may begin one: the last word, a pattern's literal prefix (whose match may hold spaces), and a match that
// reaches the end of the text.
func (c *customStream) undecided(f *Filter) int {
	at := bytes.LastIndexAny(c.held, " \t\r\n") + 1
	for _, p := range f.custom {
		if len(p.prefix) > 0 {
			if i := bytes.LastIndex(c.held, p.prefix); i >= 0 && i < at && !bytes.ContainsAny(c.held[i:], "\n") && !settledBehind(p, c.held[i:]) {
				at = i
			}
			for n := min(len(p.prefix)-1, len(c.held)); n > 0; n-- { // a prefix that is cut
				if bytes.HasSuffix(c.held, p.prefix[:n]) {
					at = min(at, len(c.held)-n)
					break
				}
			}
		}
		for _, m := range p.expr.FindAllIndex(c.held, -1) {
			if m[1] == len(c.held) && m[0] < at {
				at = m[0]
			}
		}
	}
	return at
}

// settledBehind reports whether a match begins where the prefix does and ends before the text does: more text does not
// make it longer.
func settledBehind(p pattern, b []byte) bool {
	m := p.expr.FindIndex(b)
	return m != nil && m[0] == 0 && m[1] < len(b)
}
