package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// anyOther is the field of a Match that lets fields it does not name through.
const anyOther = "*"

// match is what the arguments of a call have to be: a test for each field, and no field
// without one, unless it is open.
type match struct {
	fields map[string]test
	open   bool
}

// test is a condition on one field.
type test func(value any) bool

// CheckMatch says what is wrong with a Match. A Grant with a wrong one covers nothing.
func CheckMatch(raw json.RawMessage) error {
	_, err := readMatch(raw)
	return err
}

func readMatch(raw json.RawMessage) (*match, error) {
	value, err := readStrictly(raw)
	if err != nil {
		return nil, err
	}
	fields, ok := value.(map[string]any)
	if !ok || len(raw) == 0 {
		return nil, errors.New("policy: a match is an object")
	}
	m := &match{fields: make(map[string]test, len(fields))}
	for name, want := range fields {
		if name == anyOther {
			if want != true {
				return nil, errors.New(`policy: "*" of a match is true or left out`)
			}
			m.open = true
			continue
		}
		if m.fields[unescaped(name)], err = readTest(want); err != nil {
			return nil, fmt.Errorf("policy: match %q: %w", name, err)
		}
	}
	return m, nil
}

// unescaped is the name of the field that a name in a Match means: a backslash before it
// takes from "*" its special sense.
func unescaped(name string) string { return strings.TrimPrefix(name, `\`) }

func escaped(name string) string {
	if name == anyOther || strings.HasPrefix(name, `\`) {
		return `\` + name
	}
	return name
}

func (m *match) covers(args any) bool {
	fields, ok := args.(map[string]any)
	if !ok {
		return false
	}
	for name, fits := range m.fields {
		value, there := fields[name]
		if !there || !fits(value) {
			return false
		}
	}
	return len(fields) == len(m.fields) || m.open && !m.hidden(fields)
}

// hidden reports whether an unnamed field differs from a named one in case only: many
// programs would take the one for the other.
func (m *match) hidden(fields map[string]any) bool {
	for name := range fields {
		if _, named := m.fields[name]; named {
			continue
		}
		for other := range m.fields {
			if strings.EqualFold(name, other) {
				return true
			}
		}
	}
	return false
}
