// This file finds secrets of the well-known forms in a text, also one of which more is to come. It is written by
// hand, because it goes over every byte of every text that is kept.

package redact

import "bytes"

// found is a secret in a text, or what may become one: its body is text[at:end], its marker begins at from.
// The three positions are kept apart since a stream passes the marker on at once and holds back the body only.
type found struct {
	rule          *rule
	from, at, end int
}

// status is what the scanner found at a position.
type status int

const (
	nothing status = iota
	secret
	undecided // a marker, and a body that the text ends in before it is known for one
	partial   // what may become a marker, or an escape: the text ends in it
)

// ending is what a text ends in.
// A Stream needs it to know from where on it must look again when the next piece comes.
type ending struct {
	open   int  // where the first thing begins that may become a marker with what follows; the text's length for none
	inWord bool // what follows may go on with a word
}

// scanner finds secrets. It is immutable, and one serves all.
// It goes over a text once and stops only where a word begins (which may be a marker or a name), at a dash or a colon
// (PEM, URLs) and at a backslash. Text without those costs one table lookup a byte.
type scanner struct {
	first [256][]*rule // of keys, by the first byte of their marker
	names table        // first letters of names in lower case, and all upper-case letters
	class [256]class   // what to do at a byte
}

// class is what a byte may begin.
type class uint8

const (
	other  class = iota
	inside       // a word that is no marker's beginning
	first        // a word that may be one
	backslash
	punctuation
)

var forms = newScanner()

// newScanner orders the rules by first byte, so that at a word's beginning only those are tried that can match there.
func newScanner() *scanner {
	s := &scanner{}
	for _, r := range keys() {
		s.first[r.marker[0]] = append(s.first[r.marker[0]], r)
	}
	for name := range names {
		s.names[name[0]] = true
	}
	for c := 'A'; c <= 'Z'; c++ {
		s.names[c] = true
	}
	for c := range s.class {
		switch {
		case alnum[c] && (s.first[c] != nil || s.names[c]):
			s.class[c] = first
		case alnum[c]:
			s.class[c] = inside
		}
	}
	s.class['\\'], s.class['-'], s.class[':'] = backslash, punctuation, punctuation
	return s
}

// next is the first secret, or undecided body, whose marker begins at or after i. With final the text is whole: nothing
// is undecided. Otherwise last is what the text ends in.
// The scanner is restarted behind what it found: a secret is never looked for within another. It allocates nothing.
func (s *scanner) next(b []byte, i int, final bool) (f found, st status, last ending) {
	last.open = len(b)
	for i < len(b) {
		last.inWord = false
		c := b[i]
		k := s.class[c]
		switch k {
		case other:
			i++
		case inside, first:
			if k == first {
				f, st = s.match(b, i, final)
				if st == secret || st == undecided {
					return f, st, last
				}
			}
			// Markers begin words only: the rest of a word is passed over, or "task-1234…" would be taken for "sk-".
			at := i
			for i++; i < len(b) && word[b[i]]; i++ {
			}
			last.inWord = i == len(b)
			if st == partial {
				last.open, st = min(last.open, at), nothing
			}
		case backslash:
			at := i
			// An escape that the text ends in may turn out to be any letter, so a stream looks at it again with the next piece.
			if i = escape(b, i); i > len(b) {
				last.open = min(last.open, at)
			}
		case punctuation:
			f, st = s.punctuated(b, i, final)
			if st == secret || st == undecided {
				return f, st, last
			}
			if st == partial {
				last.open, st = min(last.open, i), nothing
			}
			i++
			// Dashes in a row are one beginning: a ruler of dashes would otherwise be tried for a PEM header at each of them.
			for c == '-' && i < len(b) && b[i] == '-' {
				i++
			}
		}
	}
	return found{}, nothing, last
}

// escape is the position behind an escape of JSON, of a JSON text in a string too: its letter begins no word. It is
// behind the text's end when the text ends in the escape.
// In a JSON text within a string the backslashes are doubled at each level, hence the loop.
func escape(b []byte, i int) int {
	for i < len(b) && b[i] == '\\' {
		i++
	}
	if i < len(b) && b[i] == 'u' {
		return i + 5
	}
	return i + 1
}

// match looks for a marker at the beginning of a word.
// Vendors' markers are tried before names: they know better where the secret ends.
func (s *scanner) match(b []byte, i int, final bool) (f found, st status) {
	may := nothing
	for _, r := range s.first[b[i]] {
		n := min(len(b)-i, len(r.marker))
		if string(b[i:i+n]) != r.marker[:n] {
			continue
		}
		if n < len(r.marker) {
			may = partial
		} else if f, st = r.body(b, i, i+n, final); st != nothing {
			return f, st
		}
	}
	if !s.names[b[i]] {
		return found{}, may
	}
	end := i
	for end < len(b) && wordDash[b[end]] && end-i <= longestName {
		end++
	}
	if end-i > longestName {
		return found{}, may
	}
	at, st := separator(b, end)
	// The text ends between a name and its value, or within the name: a stream has to see more. A name that is none
	// ends the waiting, so that prose is not held back for a colon.
	if st == partial && (end == len(b) || nameRule(b[i:end]) != nil) {
		return found{}, partial
	}
	if st != secret {
		return found{}, may
	}
	r := nameRule(b[i:end])
	if r == nil {
		return found{}, may
	}
	if r == header {
		return authorization(b, i, at, final)
	}
	if f, st = r.body(b, i, at, final); st != nothing {
		return f, st
	}
	return found{}, may
}

// authorization has a scheme before the secret, or none.
// "Authorization: Bearer abc" keeps the scheme visible, which readers of a log need, and masks what follows. A text that
// ends within what may be a scheme is undecided: masking now would take the scheme for the secret.
func authorization(b []byte, from, at int, final bool) (found, status) {
	for _, scheme := range schemes {
		n := min(len(b)-at, len(scheme))
		if !bytes.EqualFold(b[at:at+n], []byte(scheme[:n])) {
			continue
		}
		if n == len(scheme) {
			return credentials.body(b, from, at+n, final)
		}
		if !final {
			return found{rule: header, from: from, at: at, end: at}, undecided
		}
	}
	return header.body(b, from, at, final)
}

// separator is the position behind what stands between a name and its value: quotes, spaces, and one colon or equals.
func separator(b []byte, i int) (int, status) {
	i = quotes(b, i)
	if i == len(b) {
		return i, partial
	}
	if b[i] != ':' && b[i] != '=' {
		return i, nothing
	}
	return quotes(b, i+1), secret
}

// quotesMost bounds the quotes, their backslashes and the spaces on one side of a separator.
const quotesMost = 8

// A backslash counts where it escapes a quote or another backslash, as in JSON within JSON.
func quotes(b []byte, i int) int {
	for n := 0; n < quotesMost && i < len(b); n++ {
		switch c := b[i]; {
		case c == '"', c == '\'', c == ' ', c == '\\' && i+1 == len(b), c == '\\' && (b[i+1] == '"' || b[i+1] == '\\'):
			i++
		default:
			return i
		}
	}
	return i
}

// punctuated looks for the header of a PEM private key, and for the password in a URL.
// Both begin with punctuation, not with a word: "-----BEGIN … PRIVATE KEY-----" and "://user:password@".
func (s *scanner) punctuated(b []byte, i int, final bool) (found, status) {
	const begin, dashes, scheme = "-----BEGIN ", "-----", "://"
	rest := b[i:]
	if n := min(len(rest), len(begin)); string(rest[:n]) == begin[:n] {
		if n < len(begin) {
			return found{}, partial
		}
		label := rest[n:min(len(rest), n+longestName)]
		end := bytes.Index(label, []byte(dashes))
		switch {
		case end >= 0 && bytes.Contains(label[:end], []byte("PRIVATE KEY")):
			return pemKey.body(b, i, i+n+end+len(dashes), final)
		case end < 0 && len(label) < longestName:
			return found{}, partial
		}
		return found{}, nothing
	}
	if n := min(len(rest), len(scheme)); string(rest[:n]) == scheme[:n] {
		at := i + n
		for at < len(b) && at-i < longestName && userinfo[b[at]] {
			at++
		}
		if at == len(b) {
			return found{}, partial
		}
		if n == len(scheme) && b[at] == ':' {
			return password.body(b, i, at+1, final)
		}
	}
	return found{}, nothing
}

// body decides about the body that begins at a position. It looks at a bounded part unless that is a secret: a text of
// nothing but markers takes time in proportion to its length too.
func (r *rule) body(b []byte, from, at int, final bool) (found, status) {
	// Without a bound "eyJeyJeyJ…" would look at the whole rest for each of its markers, which takes quadratic time.
	most := longestOther
	if r == jwt {
		most = longestUndecided
	}
	near := b[at:min(len(b), at+most)]
	open := !final && len(near) < most
	// All that a JWT may have for a header has been seen, and there is no dot.
	if r == jwt && !open && bytes.IndexByte(near, '.') < 0 {
		return found{}, nothing
	}
	end := r.end(near, 0, 0)
	f := found{rule: r, from: from, at: at, end: at + end}
	switch {
	case end == 0:
	case r.until != 0:
		if end < len(near) && near[end] == r.until {
			return f, secret
		}
	case r.secret(r.certain(near[:end], open && end == len(near))):
		// It is a secret, whatever follows; only now is its end looked for beyond the bound.
		f.end = r.end(b, at, 0)
		return f, secret
	}
	if open && end == len(near) {
		return f, undecided
	}
	return found{}, nothing
}

// certain is what of a body stays in it whatever follows. A dash at the end of a text that goes on may be the first of the
// footer's.
func (r *rule) certain(body []byte, goesOn bool) []byte {
	if r == pemKey && goesOn {
		return bytes.TrimSuffix(body, []byte("-"))
	}
	return body
}

// end is the position behind the body.
// prev is the last byte of the body before at, which a stream has passed or dropped already; 0 at the beginning.
func (r *rule) end(b []byte, at int, prev byte) int {
	for i := at; i < len(b); i++ {
		c := b[i]
		if !r.member(prev, c) || r == pemKey && i-at >= pemMost {
			if r == pemKey && c == '-' && i > at { // the first dash of the footer
				return i - 1
			}
			return i
		}
		if c == '\\' && r == pemKey { // an escape is taken whole, or not at all
			if i+1 == len(b) {
				return i + 1
			}
			if n := b[i+1]; n != 'n' && n != 'r' && n != 't' && n != '\\' {
				return i
			}
			i++
			prev = 0
			continue
		}
		prev = c
	}
	return len(b)
}
