// This file is the check that every body from outside passes before anything decodes it.
// encoding/json accepts duplicate keys and invalid UTF-8; two readers of such a document may see
// different values, for instance the one that authorizes and the one that executes.

package agui

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"aqueduct/internal/strictjson"
)

// MaxJSONDepth is how deep JSON from outside may nest.
const MaxJSONDepth = 64

// CheckJSON looks at a whole document before anything decodes it: it must be
// valid JSON (RFC 8259) in valid UTF-8, no deeper than maxDepth, and no object
// may have a key twice, since readers disagree on which of the two counts. It
// has at most [strictjson.MostValues] values. CheckJSON answers with an [*InputError].
func CheckJSON(body []byte, maxDepth int) error {
	_, err := CheckBounded(body, maxDepth, strictjson.MostValues, nil)
	return err
}

// CheckBounded is CheckJSON for a body of a known type: the elements of its arrays are counted while the bytes are read, and
// refused before anything is decoded. It returns how many values there are, by which the decoded body is weighed.
func CheckBounded(body []byte, maxDepth, mostValues int, of *strictjson.Bounds) (values int, err error) {
	c := checker{b: body, max: maxDepth, most: mostValues}
	if c.value(0, of) && c.skipSpace() {
		c.fail("more than one JSON value")
	}
	if c.reason == "" {
		return c.values, nil
	}
	var path []byte
	for _, segment := range slices.Backward(c.path) {
		path = append(append(path, '/'), EscapePointer(segment)...)
	}
	return c.values, &InputError{Path: string(path), Reason: c.reason}
}

// checker reads one document, once. Its methods report whether they may go on.
// The depth is bounded by max, so the recursion is too. reason and path are set by the first thing
// that is wrong; each level adds its segment of the path on the way out, so that valid input pays
// nothing for paths.
type checker struct {
	b      []byte
	i      int
	max    int
	most   int      // values
	values int      // that were read
	names  [][]byte // the keys of all open objects, innermost last
	reason string   // what is wrong
	path   []string // where, innermost first
}

// manyKeys is when an object's keys go into a set rather than being compared
// one by one, so that a body of keys alone costs no quadratic time.
const manyKeys = 16

func (c *checker) fail(reason string) bool {
	c.reason = reason
	return false
}

// skipSpace reports whether anything follows.
func (c *checker) skipSpace() bool {
	c.i = skipSpace(c.b, c.i)
	return c.i < len(c.b)
}

// value reads a value inside depth open brackets.
func (c *checker) value(depth int, of *strictjson.Bounds) bool {
	if !c.skipSpace() {
		return c.fail("unexpected end of JSON")
	}
	if c.values++; c.values > c.most {
		return c.fail(fmt.Sprintf("more than %d values", c.most))
	}
	switch c.b[c.i] {
	case '{':
		return c.object(depth, of)
	case '[':
		return c.array(depth, of)
	}
	return c.scalar()
}

// array reads an array; n is the index of the current element.
func (c *checker) array(depth int, of *strictjson.Bounds) bool {
	n := -1
	ok := c.list(']', depth, func() bool {
		if n++; !of.Allow(n + 1) {
			return c.fail(fmt.Sprintf("more than %d elements", of.Most))
		}
		return c.value(depth+1, of.Elements())
	})
	if !ok && n >= 0 {
		c.path = append(c.path, strconv.Itoa(n))
	}
	return ok
}

// object reads an object. The path of an error names the last key that was read, which is the one
// whose value, colon or successor is wrong.
func (c *checker) object(depth int, of *strictjson.Bounds) bool {
	keys := keySet{first: len(c.names)}
	var last []byte
	ok := c.list('}', depth, func() bool {
		key, ok := c.name()
		if !ok {
			return false
		}
		last = key
		if keys.has(c.names, key) {
			return c.fail("duplicate key")
		}
		c.names = append(c.names, key)
		if !of.Allow(len(c.names) - keys.first) {
			return c.fail(fmt.Sprintf("more than %d members", of.Most))
		}
		if !c.skipSpace() || c.b[c.i] != ':' {
			return c.fail("a colon is missing")
		}
		c.i++
		return c.value(depth+1, of.Member(key))
	})
	c.names = c.names[:keys.first]
	if !ok && last != nil {
		c.path = append(c.path, string(last))
	}
	return ok
}

// list reads what is in brackets; item reads one element or member.
func (c *checker) list(closing byte, depth int, item func() bool) bool {
	if depth >= c.max {
		return c.fail("nested too deeply")
	}
	c.i++
	if c.skipSpace() && c.b[c.i] == closing {
		c.i++
		return true
	}
	for item() {
		switch {
		case !c.skipSpace():
			return c.fail("unexpected end of JSON")
		case c.b[c.i] == closing:
			c.i++
			return true
		case c.b[c.i] != ',':
			return c.fail("a comma or a closing bracket is missing")
		}
		c.i++
	}
	return false
}

// name reads a key.
func (c *checker) name() (key []byte, ok bool) {
	if !c.skipSpace() || c.b[c.i] != '"' {
		return nil, c.fail("a key must be a string")
	}
	start := c.i
	if !c.str() {
		return nil, false
	}
	return unquotedKey(c.b[start:c.i]), true
}

// keySet is the keys of one object: the last of those that are open.
type keySet struct {
	first int
	seen  map[string]struct{}
}

// has reports whether the object has the key already, and from the 17th key on records it.
func (s *keySet) has(names [][]byte, key []byte) bool {
	own := names[s.first:]
	if len(own) < manyKeys {
		return slices.ContainsFunc(own, func(k []byte) bool { return bytes.Equal(k, key) })
	}
	if s.seen == nil {
		s.seen = make(map[string]struct{}, 2*manyKeys)
		for _, k := range own {
			s.seen[string(k)] = struct{}{}
		}
	}
	_, twice := s.seen[string(key)]
	s.seen[string(key)] = struct{}{}
	return twice
}

// scalar reads a string, a number or a literal.
func (c *checker) scalar() bool {
	switch b := c.b[c.i]; {
	case b == '"':
		return c.str()
	case b == '-' || b >= '0' && b <= '9':
		return c.number()
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(c.b[c.i:], []byte(word)) {
			c.i += len(word)
			return true
		}
	}
	return c.fail("not a JSON value")
}

// str reads a string and checks its UTF-8. Lone surrogates in escapes are allowed: RFC 8259 permits
// them, JavaScript clients send them when they cut text, and they become U+FFFD when the string is
// decoded.
func (c *checker) str() bool {
	for c.i++; c.i < len(c.b); {
		switch b := c.b[c.i]; {
		case b == '"':
			c.i++
			return true
		case b == '\\':
			if !c.escape() {
				return false
			}
		case b < 0x20:
			return c.fail("a control character in a string")
		case b < utf8.RuneSelf:
			c.i++
		default:
			r, size := utf8.DecodeRune(c.b[c.i:])
			if r == utf8.RuneError && size == 1 {
				return c.fail("not valid UTF-8")
			}
			c.i += size
		}
	}
	return c.fail("unexpected end of JSON")
}

func (c *checker) escape() bool {
	rest := c.b[c.i+1:]
	if len(rest) == 0 {
		return c.fail("unexpected end of JSON")
	}
	switch rest[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		c.i += 2
		return true
	case 'u':
		if len(rest) >= 5 && isHex(rest[1]) && isHex(rest[2]) && isHex(rest[3]) && isHex(rest[4]) {
			c.i += 6
			return true
		}
	}
	return c.fail("an unknown escape in a string")
}

func isHex(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F'
}

// number follows the grammar of RFC 8259: no leading zeros, digits on both sides of the point.
func (c *checker) number() bool {
	if c.b[c.i] == '-' {
		c.i++
	}
	if c.i < len(c.b) && c.b[c.i] == '0' {
		c.i++
	} else if !c.digits() {
		return false
	}
	if c.i < len(c.b) && c.b[c.i] == '.' {
		c.i++
		if !c.digits() {
			return false
		}
	}
	if c.i < len(c.b) && (c.b[c.i] == 'e' || c.b[c.i] == 'E') {
		c.i++
		if c.i < len(c.b) && (c.b[c.i] == '+' || c.b[c.i] == '-') {
			c.i++
		}
		return c.digits()
	}
	return true
}

func (c *checker) digits() bool {
	start := c.i
	for c.i < len(c.b) && c.b[c.i] >= '0' && c.b[c.i] <= '9' {
		c.i++
	}
	return c.i > start || c.fail("not a number")
}
