package agui

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// MaxJSONDepth is how deep JSON from outside may nest.
const MaxJSONDepth = 64

// CheckJSON looks at a whole document before anything decodes it: it must be
// valid JSON (RFC 8259) in valid UTF-8, no deeper than maxDepth, and no object
// may have a key twice, since readers disagree on which of the two counts. It
// reads once, keeps its own stack and answers with an [*InputError].
func CheckJSON(body []byte, maxDepth int) error {
	c := checker{b: body, max: maxDepth}
	return c.run()
}

type checker struct {
	b      []byte
	i      int
	max    int
	stack  []level
	names  [][]byte // the keys of all open objects, innermost last
	reason string
}

// level is one open object or array.
type level struct {
	object bool
	n      int // elements before the current one
	names  int // where this object's keys begin
	seen   map[string]struct{}
}

// manyKeys is when an object's keys go into a set rather than being compared
// one by one, so that a body of keys alone costs no quadratic time.
const manyKeys = 16

func (c *checker) run() error {
	for {
		if !c.value() {
			return c.failure()
		}
		for {
			done, more := c.after()
			switch {
			case c.reason != "":
				return c.failure()
			case done:
				return nil
			case more:
			default:
				continue // a bracket closed; what follows it?
			}
			break
		}
	}
}

func (c *checker) fail(reason string) bool {
	if c.reason == "" {
		c.reason = reason
	}
	return false
}

func (c *checker) failure() error {
	var path []byte
	for i := range c.stack {
		l := &c.stack[i]
		if !l.object {
			path = strconv.AppendInt(append(path, '/'), int64(l.n), 10)
			continue
		}
		if end := c.namesEnd(i); end > l.names {
			path = append(append(path, '/'), EscapePointer(string(c.names[end-1]))...)
		}
	}
	return &InputError{Path: string(path), Reason: c.reason}
}

func (c *checker) namesEnd(i int) int {
	for i++; i < len(c.stack); i++ {
		if c.stack[i].object {
			return c.stack[i].names
		}
	}
	return len(c.names)
}

// value reads a scalar, or opens a bracket up to the first value inside it.
func (c *checker) value() bool {
	for {
		c.i = skipSpace(c.b, c.i)
		if c.i == len(c.b) {
			return c.fail("unexpected end of JSON")
		}
		switch c.b[c.i] {
		case '{':
			if !c.push(true) {
				return false
			}
			if c.at('}') {
				return true
			}
			if !c.name() {
				return false
			}
		case '[':
			if !c.push(false) {
				return false
			}
			if c.at(']') {
				return true
			}
		default:
			return c.scalar()
		}
	}
}

// after goes on behind a value: done at the end of the document, more when
// another value comes, neither when a bracket has closed.
func (c *checker) after() (done, more bool) {
	c.i = skipSpace(c.b, c.i)
	if len(c.stack) == 0 {
		if c.i != len(c.b) {
			return false, c.fail("more than one JSON value")
		}
		return true, false
	}
	top := &c.stack[len(c.stack)-1]
	if c.i == len(c.b) {
		return false, c.fail("unexpected end of JSON")
	}
	switch b := c.b[c.i]; {
	case b == ',':
		c.i++
		top.n++
		return false, !top.object || c.name()
	case b == '}' && top.object, b == ']' && !top.object:
		c.i++
		c.pop()
		return false, false
	}
	return false, c.fail("a comma or a closing bracket is missing")
}

func (c *checker) push(object bool) bool {
	if len(c.stack) >= c.max {
		return c.fail("nested too deeply")
	}
	c.i++
	c.stack = append(c.stack, level{object: object, names: len(c.names)})
	return true
}

func (c *checker) pop() {
	last := len(c.stack) - 1
	if c.stack[last].object {
		c.names = c.names[:c.stack[last].names]
	}
	c.stack = c.stack[:last]
}

// at looks for the closing bracket of an empty object or array; after takes it.
func (c *checker) at(bracket byte) bool {
	c.i = skipSpace(c.b, c.i)
	return c.i < len(c.b) && c.b[c.i] == bracket
}

// name reads a key and its colon.
func (c *checker) name() bool {
	c.i = skipSpace(c.b, c.i)
	start := c.i
	if start == len(c.b) || c.b[start] != '"' {
		return c.fail("a key must be a string")
	}
	if !c.str() {
		return false
	}
	key := unquotedKey(c.b[start:c.i])
	twice := c.used(key)
	c.names = append(c.names, key)
	if twice {
		return c.fail("duplicate key")
	}
	c.i = skipSpace(c.b, c.i)
	if c.i == len(c.b) || c.b[c.i] != ':' {
		return c.fail("a colon is missing")
	}
	c.i++
	return true
}

func (c *checker) used(key []byte) bool {
	top := &c.stack[len(c.stack)-1]
	own := c.names[top.names:]
	if len(own) < manyKeys {
		for _, k := range own {
			if bytes.Equal(k, key) {
				return true
			}
		}
		return false
	}
	if top.seen == nil {
		top.seen = make(map[string]struct{}, 2*manyKeys)
		for _, k := range own {
			top.seen[string(k)] = struct{}{}
		}
	}
	_, twice := top.seen[string(key)]
	top.seen[string(key)] = struct{}{}
	return twice
}

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
