package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of arguments that are looked into.
const (
	maxArgs  = 1 << 20 // bytes
	maxDepth = 64
)

// arguments are JSON, parsed once, when a rule looks at them. An error is kept as well: the next rule gets the
// same.
type arguments struct {
	done  bool
	value any
	err   error
}

func (a *arguments) read(raw []byte) (any, error) {
	if !a.done {
		a.done = true
		a.value, a.err = readStrictly(raw)
	}
	return a.value, a.err
}

// errTwoCases is an error of its own: Decide blocks the call for it, whatever the rules are.
var errTwoCases = errors.New("policy: two names among the arguments differ in case only")

// errAmbiguous makes every condition on the arguments fail: an allow rule does not apply then, and a block rule does.
var errAmbiguous = errors.New("policy: the arguments can be read in two ways")

// readStrictly reads JSON that every reader reads alike: a field given twice, broken text
// and half characters are refused, since who runs the tool may take the other meaning.
//
// {"path":"/tmp/x","path":"/etc/passwd"} is one file for a reader that takes the first member and another for one that
// takes the last. A rule that judged one of them would not hold for the other.
func readStrictly(raw []byte) (any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return map[string]any{}, nil
	}
	if len(raw) > maxArgs {
		return nil, fmt.Errorf("policy: arguments of more than %d bytes", maxArgs)
	}
	if !json.Valid(raw) {
		return nil, errors.New("policy: the arguments are no JSON")
	}
	if !utf8.Valid(raw) {
		return nil, errAmbiguous
	}
	r := reader{json.NewDecoder(bytes.NewReader(raw)), bytes.Contains(bytes.ToLower(raw), []byte(`\ud`))}
	r.UseNumber()
	return r.value(0)
}

// reader reads one document by its tokens. encoding/json's own Unmarshal into a map would keep the last of two equal
// names.
type reader struct {
	*json.Decoder
	halves bool // half characters are possible
}

func (r reader) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, errors.New("policy: the arguments are nested too deep")
	}
	token, err := r.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return r.object(depth)
	case json.Delim('['):
		return r.array(depth)
	}
	return token, r.check(token)
}

// Names that differ in case only are an error of their own, which blocks the call: many programs read members without
// regard to case.
func (r reader) object(depth int) (any, error) {
	fields, folded := map[string]any{}, map[string]string{}
	for r.More() {
		key, err := r.Token()
		if err == nil {
			err = r.check(key)
		}
		if err != nil {
			return nil, err
		}
		name := key.(string) // valid JSON has nothing else here
		if _, twice := fields[name]; twice {
			return nil, errAmbiguous
		}
		fold := strings.ToLower(name)
		if _, twice := folded[fold]; twice {
			return nil, errTwoCases
		}
		folded[fold] = name
		if fields[name], err = r.value(depth + 1); err != nil {
			return nil, err
		}
	}
	_, err := r.Token()
	return fields, err
}

func (r reader) array(depth int) (any, error) {
	items := []any{}
	for r.More() {
		item, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	_, err := r.Token()
	return items, err
}

// check refuses the half of a surrogate pair: encoding/json makes all halves the same.
func (r reader) check(token any) error {
	if text, ok := token.(string); ok && r.halves && strings.ContainsRune(text, utf8.RuneError) {
		return errAmbiguous
	}
	return nil
}

// forExpression is a value with numbers as CEL has them.
// CEL distinguishes integers from floating numbers; JSON does not. A number that fits an integer is one.
func forExpression(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, field := range v {
			out[name] = forExpression(field)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = forExpression(item)
		}
		return out
	case json.Number:
		return number(v)
	}
	return value
}

// number is the exact value where CEL has a type for it, else the nearest double.
func number(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
		return u
	}
	f, err := n.Float64()
	if err != nil {
		return n.String() // beyond all numbers: compares with none
	}
	return f
}
