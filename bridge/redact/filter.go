// Package redact takes secrets out of what is kept and shown. A Filter masks texts, JSON and streams of pieces; a Vault
// seals the originals of what runs; Wrap gives a store both, so that no row is written unmasked.
//
// It knows which forms secrets have (rule.go, scan.go) and which members of rows hold words of agents, users and tools
// (rows.go), and nothing of events, Turns or who may see what. Masking is by form, so it is no proof that nothing secret
// is kept; it must be cheap enough for every text, and must change nothing else: what is masked once stays equal to
// itself, JSON stays JSON, and what holds no secret keeps its bytes.
package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"unsafe"
)

// Filter masks secrets: those of the well-known forms (API keys, bearer tokens, JWTs, PEM private keys, cookies,
// passwords in URLs, variables that are named for a secret) and those of configured patterns. It is immutable and safe
// for concurrent use. A nil Filter masks nothing.
type Filter struct {
	custom []pattern
}

// pattern is a configured one.
type pattern struct {
	// expr is matched against the decoded strings of a JSON text, never against its escapes.
	expr   *regexp.Regexp
	prefix []byte // what each of its matches begins with; empty when nothing is known
}

// Forms masks the well-known forms alone.
func Forms() *Filter { return &Filter{} }

// New compiles patterns in RE2's syntax. What one matches is masked whole.
func New(patterns []string) (*Filter, error) {
	f := &Filter{}
	for i, p := range patterns {
		expr, err := regexp.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("pattern %d: %w", i+1, err) // the expression itself may hold a secret's beginning, but no secret
		}
		if expr.MatchString("") {
			return nil, fmt.Errorf("pattern %d matches an empty text, and so everywhere", i+1)
		}
		// Masking is repeated: of a row that is read and written again, and of events that hold masked text. Such a pattern
		// would mask the mask each time, and no text would compare equal to itself.
		if expr.MatchString(Mask) {
			return nil, fmt.Errorf("pattern %d matches %s itself", i+1, Mask)
		}
		prefix, _ := expr.LiteralPrefix()
		f.custom = append(f.custom, pattern{expr, []byte(prefix)})
	}
	return f, nil
}

// Text is a text without its secrets.
func (f *Filter) Text(s string) string {
	if f == nil || s == "" {
		return s
	}
	in := view(s)
	out := f.bytes(in)
	if same(in, out) {
		return s
	}
	return string(out)
}

// view is a string's bytes, which must not be changed. Converting would copy every text that holds no secret.
// It is safe since what is masked is written to a new slice.
func view(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// same reports whether nothing was hidden.
// It compares the address, not the bytes: every function here returns its argument when it has changed nothing.
func same(in, out []byte) bool {
	return len(in) == len(out) && (len(in) == 0 || &in[0] == &out[0])
}

// Bytes is Text for bytes: the same slice when nothing is hidden, else a new one.
func (f *Filter) Bytes(b []byte) []byte {
	if f == nil {
		return b
	}
	return f.bytes(b)
}

// bytes masks the forms and then the configured patterns. The forms come first: a pattern that matches a part of a key
// would destroy the marker that shows the whole of it.
func (f *Filter) bytes(b []byte) []byte {
	b = maskForms(b)
	for _, p := range f.custom {
		if p.expr.Match(b) {
			b = p.expr.ReplaceAllLiteral(b, []byte(Mask))
		}
	}
	return b
}

// maskForms masks what has a well-known form. The markers stay, so that a reader sees what kind of secret it was.
func maskForms(b []byte) []byte {
	var out []byte
	kept, i := 0, 0
	for {
		f, st, _ := forms.next(b, i, true)
		if st != secret {
			break
		}
		out = append(append(out, b[kept:f.at]...), Mask...)
		kept, i = f.end, f.end
	}
	if out == nil {
		return b
	}
	return append(out, b[kept:]...)
}

// JSON is a JSON text without the secrets in its strings: the same slice when nothing is hidden, else a new one that is
// JSON as well. What is no JSON is masked as a text.
func (f *Filter) JSON(b []byte) []byte {
	if f == nil || len(b) == 0 {
		return b
	}
	out := b
	if f.needsDecoding(b) {
		out = f.strings(b)
	}
	masked := maskForms(out)
	if same(b, masked) {
		return b
	}
	if !json.Valid(masked) && json.Valid(b) { // no form reaches over the end of a string; this is the net under that
		return f.strings(b)
	}
	return masked
}

var asciiEscape = []byte(`\u00`)

// needsDecoding reports whether secrets could stand in the strings of a JSON text that do not stand in the text as it is
// written: ASCII may be escaped, and patterns of others know no escapes.
func (f *Filter) needsDecoding(b []byte) bool {
	if bytes.Contains(b, asciiEscape) {
		return true
	}
	if len(f.custom) == 0 {
		return false
	}
	if bytes.IndexByte(b, '\\') >= 0 {
		return true
	}
	for _, p := range f.custom {
		if p.expr.Match(b) {
			return true
		}
	}
	return false
}

// strings masks each string of a JSON text by itself.
// It replaces only the strings that hold a secret and copies the rest as it is written, since a JSON text's bytes are
// hashed and compared: numbers, spaces and the order of members must stay.
func (f *Filter) strings(b []byte) []byte {
	var out []byte
	kept := 0
	for i := 0; i < len(b); i++ {
		if b[i] != '"' {
			continue
		}
		// Outside of a string no quote is escaped, so the first one begins a string; names of members are strings too.
		end := i + 1
		for end < len(b) && b[end] != '"' {
			if b[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(b) {
			break
		}
		var text string
		if json.Unmarshal(b[i:end+1], &text) == nil {
			if masked := f.Text(text); masked != text {
				quoted, _ := encoded(masked) // a string can be
				out = append(append(out, b[kept:i]...), quoted...)
				kept = end + 1
			}
		}
		i = end
	}
	if out == nil {
		return b
	}
	return append(out, b[kept:]...)
}

// encoded is JSON without the escapes of HTML, as events are written.
func encoded(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}
