package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// The names in a Match that mean no field.
const (
	anyOther = "*"      // lets fields through that the Match does not name
	title    = "@title" // is the call's title: some agents state only there what they do
)

// match is what the arguments of a call have to be: a test for each field, and no field
// without one, unless it is open.
//
// For example {"path":{"prefix_path":"docs"},"content":{"any":true}} covers calls with exactly these two arguments;
// with "*":true others may stand beside them.
type match struct {
	fields map[string]test
	loose  map[string]bool // of fields, those that may have any value or be absent
	open   bool
	title  test // nil: any
}

// test is a condition on one field.
type test func(value any) bool

// CheckMatch reports what is wrong with a Match. A Grant with a wrong one covers nothing.
func CheckMatch(raw json.RawMessage) error {
	_, err := readMatch(raw)
	return err
}

// readMatch reads a Match as strictly as arguments: with two members of one name it would be unclear what is covered.
func readMatch(raw json.RawMessage) (*match, error) {
	value, err := readStrictly(raw)
	if err != nil {
		return nil, err
	}
	fields, ok := value.(map[string]any)
	if !ok || len(raw) == 0 {
		return nil, errors.New("policy: a match is an object")
	}
	m := &match{fields: make(map[string]test, len(fields)), loose: make(map[string]bool)}
	for name, want := range fields {
		if err := m.read(name, want); err != nil {
			return nil, fmt.Errorf("policy: match %q: %w", name, err)
		}
	}
	return m, nil
}

// read takes one member of the Match.
func (m *match) read(name string, want any) error {
	if name == anyOther {
		if m.open = want == true; !m.open {
			return errors.New("it is true or left out")
		}
		return nil
	}
	fits, err := readTest(want)
	if err != nil {
		return err
	}
	if name == title {
		m.title = fits
		return nil
	}
	if field := unescaped(name); m.fields[field] == nil {
		m.fields[field] = fits
		if loose, ok := want.(map[string]any); ok && loose["any"] == true {
			m.loose[field] = true
		}
		return nil
	}
	return errors.New("the field is named twice")
}

// unescaped is the name of the field that a name in a Match means: a backslash before it
// takes from the names above their special sense.
func unescaped(name string) string { return strings.TrimPrefix(name, `\`) }

// escaped is the name in a Match that means a field of this name.
func escaped(name string) string {
	if name == anyOther || name == title || strings.HasPrefix(name, `\`) {
		return `\` + name
	}
	return name
}

// covers reports whether a call with this title and these arguments is covered.
// An argument that the Match does not name is a no, unless it is open: a new member of a tool's arguments may change
// what the call does.
func (m *match) covers(stated string, args any) bool {
	fields, ok := args.(map[string]any)
	if !ok || m.title != nil && !m.title(stated) {
		return false
	}
	named := 0
	for name, fits := range m.fields {
		value, there := fields[name]
		switch {
		case there && fits(value):
			named++
		case there || !m.loose[name]:
			return false
		}
	}
	return len(fields) == named || m.open && !m.hidden(fields)
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
