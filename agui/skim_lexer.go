// This file reads JSON from a stream, value by value, into sinks that stop holding at a bound. It
// checks the grammar of all that it reads, held or not; keys and text that are held are checked
// again by CheckJSON.

package agui

import (
	"encoding/json"
	"io"
)

// skimSink takes what is read, up to a bound; behind it nothing is held any more.
type skimSink struct {
	b    []byte
	max  int
	over bool
}

func (s *skimSink) reset(most int) { s.b, s.max, s.over = s.b[:0], most, false }

// write takes bytes, or lets go of everything once the bound is exceeded: half of a value is of no
// use.
func (s *skimSink) write(p []byte) {
	if s.over = s.over || len(s.b)+len(p) > s.max; s.over {
		s.b = s.b[:0]
		return
	}
	s.b = append(s.b, p...)
}

func (s *skimSink) add(c byte) { s.write([]byte{c}) }

// peek is the first byte that is no space, which stays unread; io.EOF when there is none.
// White space counts: a body of spaces alone would otherwise be read for ever.
func (k *skimmer) peek() (byte, error) {
	for {
		c, err := k.in.ReadByte()
		if err != nil {
			return 0, err
		}
		switch c {
		case ' ', '\n', '\r', '\t':
			if k.spaces++; k.spaces > k.Held {
				return 0, k.tooLarge()
			}
		default:
			return c, k.in.UnreadByte()
		}
	}
}

// next takes the first byte that is no space.
func (k *skimmer) next() (byte, error) {
	c, err := k.peek()
	if err != nil {
		return 0, eof(err)
	}
	_, err = k.in.Discard(1)
	return c, err
}

// object reads an object; member is called with each key, quoted, and reads the value behind it.
func (k *skimmer) object(member func(key []byte) error) error {
	return k.list('}', func() error {
		key := skimSink{max: skimID}
		if c, err := k.peek(); err != nil || c != '"' {
			return firstError(eof(err), wrong("a key must be a string"))
		}
		if err := k.str(&key); err != nil {
			return err
		}
		if key.over {
			return wrong("a key is too long")
		}
		if c, err := k.next(); err != nil || c != ':' {
			return firstError(err, wrong("a colon is missing"))
		}
		return member(key.b)
	})
}

// array reads an array; element is called for each.
func (k *skimmer) array(element func() error) error { return k.list(']', element) }

// list reads what is in brackets. The opening one has been peeked at.
func (k *skimmer) list(closing byte, item func() error) error {
	if _, err := k.next(); err != nil {
		return err
	}
	if c, err := k.peek(); err != nil {
		return eof(err)
	} else if c == closing {
		_, err = k.in.Discard(1)
		return err
	}
	for {
		if err := item(); err != nil {
			return err
		}
		switch c, err := k.next(); {
		case err != nil:
			return err
		case c == closing:
			return nil
		case c != ',':
			return wrong("a comma or a closing bracket is missing")
		}
	}
}

// value reads any value into the sink, without the spaces in it. depth is how many brackets are open.
func (k *skimmer) value(into *skimSink, depth int) error {
	c, err := k.peek()
	if err != nil {
		return eof(err)
	}
	switch c {
	case '"':
		return k.str(into)
	case '{', '[':
	default:
		return k.word(into)
	}
	if depth >= MaxJSONDepth {
		return wrong("nested too deeply")
	}
	into.add(c)
	first := true
	comma := func() {
		if !first {
			into.add(',')
		}
		first = false
	}
	if c == '[' {
		err = k.array(func() error {
			comma()
			return k.value(into, depth+1)
		})
	} else {
		err = k.object(func(key []byte) error {
			comma()
			into.write(key)
			into.add(':')
			return k.value(into, depth+1)
		})
	}
	into.add(c + 2) // the closing bracket, in ASCII
	return err
}

// word reads a number or a literal.
func (k *skimmer) word(into *skimSink) error {
	var word []byte
	for {
		c, err := k.in.ReadByte()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if wordEnds(c) {
			if err := k.in.UnreadByte(); err != nil {
				return err
			}
			break
		}
		if word = append(word, c); len(word) > skimWord {
			return wrong("not a JSON value")
		}
	}
	if !json.Valid(word) {
		return wrong("not a JSON value")
	}
	into.write(word)
	return nil
}

// wordEnds reports whether a character ends a number or a literal.
func wordEnds(c byte) bool {
	switch c {
	case ',', '}', ']', ':', '{', '[', '"', ' ', '\n', '\r', '\t':
		return true
	}
	return false
}

// str reads a string with its quotes. Nearly all of a large body is in strings, so they are read a buffer at a time.
func (k *skimmer) str(into *skimSink) error {
	if _, err := k.in.Discard(1); err != nil {
		return err
	}
	into.add('"')
	for {
		if _, err := k.in.Peek(1); err != nil {
			return eof(err)
		}
		chunk, _ := k.in.Peek(k.in.Buffered())
		n := plainRun(chunk)
		into.write(chunk[:n])
		if _, err := k.in.Discard(n); err != nil {
			return err
		}
		if n == len(chunk) {
			continue
		}
		c, err := k.in.ReadByte()
		if err != nil {
			return eof(err)
		}
		into.add(c)
		switch {
		case c == '"':
			return nil
		case c != '\\':
			return wrong("a control character in a string")
		}
		if err := k.escape(into); err != nil {
			return err
		}
	}
}

// plainRun is how many bytes of a string come before a quote, a backslash or a control character.
func plainRun(b []byte) int {
	for i, c := range b {
		if c == '"' || c == '\\' || c < 0x20 {
			return i
		}
	}
	return len(b)
}

// escape reads what follows a backslash.
func (k *skimmer) escape(into *skimSink) error {
	c, err := k.in.ReadByte()
	if err != nil {
		return eof(err)
	}
	into.add(c)
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
	default:
		return wrong("an unknown escape in a string")
	}
	for range 4 {
		if c, err = k.in.ReadByte(); err != nil {
			return eof(err)
		}
		if !isHex(c) {
			return wrong("an unknown escape in a string")
		}
		into.add(c)
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
