package safetext

import (
	"encoding/json"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText bounds the text of arguments, in bytes. More than a person reads before deciding; the arguments themselves are
// beside it in whole.
const MaxText = 64 << 10

// Warnings are stable codes.
const (
	WarnNumberPrecision = "number_precision"    // a client that computes with doubles shows another number
	WarnNumberRange     = "number_range"        // … or infinity
	WarnDuplicateKey    = "duplicate_key"       // programs differ in which of the two they take
	WarnBidi            = "bidi_character"      // turns the direction of what follows
	WarnInvisible       = "invisible_character" // shows nothing, or looks like a space
	WarnControl         = "control_character"   // moves a terminal's cursor
	WarnInvalidText     = "invalid_text"        // no UTF-8, or half of a surrogate pair
	WarnCut             = "args_text_cut"       // the text is only the beginning
	WarnLabel           = "label_contradicts_kind"
	WarnUnconfined      = "agent_unconfined" // the agent that asks could approve for itself
)

// Args are arguments as people and programs have to see them.
type Args struct {
	Text     string   // indented, every odd character visible, at most MaxText
	Warnings []string // codes, sorted
}

// OfArgs reads arguments, which are JSON; what is not is shown as it is.
//
// The text is the JSON itself, indented, and never JSON that was decoded and encoded again: a decoder would have dropped
// the first of two equal keys and digits of a number, which are what the warnings are about. Warnings are of all the
// arguments, also of what is behind the cut.
func OfArgs(raw []byte) Args {
	s := scanner{raw: raw, found: map[string]bool{}}
	if json.Valid(raw) {
		s.scan()
	} else {
		s.text(string(raw))
		s.out.Write(raw[:min(len(raw), MaxText+1)]) // one more shows below that it is cut
	}
	text := s.out.String()
	if len(text) > MaxText {
		text, s.found[WarnCut] = strings.ToValidUTF8(text[:MaxText], ""), true
	}
	var b strings.Builder
	for _, m := range Visible(text, KeepLines) {
		b.WriteString(m.Text)
	}
	if s.found[WarnCut] {
		b.WriteString("\n… cut here")
	}
	return Args{Text: b.String(), Warnings: slices.Sorted(maps.Keys(s.found))}
}

// Indented is JSON as it is, a member a line; what is not JSON is given back.
func Indented(raw []byte) string {
	if !json.Valid(raw) {
		return string(raw)
	}
	s := scanner{raw: raw, found: map[string]bool{}, whole: true}
	s.scan()
	return s.out.String()
}

// scanner walks through valid JSON once: it writes it indented, byte for byte otherwise, and notes what is odd. It
// relies on the text's being valid: nothing here looks for the end of raw inside a token.
type scanner struct {
	raw   []byte
	i     int
	out   strings.Builder
	whole bool // write all of it
	found map[string]bool
	open  []object
}

// object is an object or array that is open.
type object struct {
	keys  map[string]bool // nil: an array
	value bool            // of an object: the next string is a value
	empty bool            // so far; an empty one is closed on the line that opened it
}

// write stops behind the token that passes MaxText, so that OfArgs sees that there was more.
func (s *scanner) write(text string) {
	if s.whole || s.out.Len() <= MaxText {
		s.out.WriteString(text)
	}
}

func (s *scanner) line() {
	s.write("\n")
	for range s.open {
		s.write("  ")
	}
}

// scan writes the tokens with spaces and line ends of its own, so that the form an agent gave its JSON hides nothing: no
// argument stands far to the right or behind a thousand empty lines.
func (s *scanner) scan() {
	for ; s.i < len(s.raw); s.i++ {
		switch c := s.raw[s.i]; c {
		case ' ', '\t', '\n', '\r':
		case '{', '[':
			s.item()
			s.write(string(c))
			o := object{empty: true}
			if c == '{' {
				o.keys = map[string]bool{}
			}
			s.open = append(s.open, o)
		case '}', ']':
			empty := s.open[len(s.open)-1].empty
			s.open = s.open[:len(s.open)-1]
			if !empty {
				s.line()
			}
			s.write(string(c))
		case ',':
			s.write(",")
			s.open[len(s.open)-1].value = false
			s.line()
		case ':':
			s.write(": ")
			s.open[len(s.open)-1].value = true
		case '"':
			s.item()
			s.string()
		default:
			s.item()
			s.literal()
		}
	}
}

// item begins a line for the first item of an object or array.
func (s *scanner) item() {
	if n := len(s.open); n > 0 && s.open[n-1].empty {
		s.open[n-1].empty = false
		s.line()
	}
}

// string writes a string as it stands. What is odd in it is looked for in the token and in what that stands for: an
// escape such as \u202e is plain ASCII in the one and turns the text in the other. Keys are compared decoded, as
// programs compare them.
func (s *scanner) string() {
	begin := s.i
	plain := true
	for s.i++; s.raw[s.i] != '"'; s.i++ {
		if s.raw[s.i] == '\\' {
			s.i++
			plain = false
		} else if s.raw[s.i] >= 0x80 || s.raw[s.i] < 0x20 || s.raw[s.i] == 0x7f {
			plain = false
		}
	}
	token := s.raw[begin : s.i+1]
	s.write(string(token))
	text := string(token[1 : len(token)-1])
	if !plain {
		s.text(text) // before it is decoded: decoding replaces what is no UTF-8
		_ = json.Unmarshal(token, &text)
		s.text(text)
	}
	if n := len(s.open); n > 0 && s.open[n-1].keys != nil && !s.open[n-1].value {
		if s.open[n-1].keys[text] {
			s.found[WarnDuplicateKey] = true
		}
		s.open[n-1].keys[text] = true
	}
}

// literal writes a number, true, false or null. Only numbers can mean two things.
func (s *scanner) literal() {
	begin := s.i
	for s.i+1 < len(s.raw) && !strings.ContainsRune(" \t\r\n,:]}", rune(s.raw[s.i+1])) {
		s.i++
	}
	token := string(s.raw[begin : s.i+1])
	s.write(token)
	if c := token[0]; c == '-' || '0' <= c && c <= '9' {
		if code := number(token); code != "" {
			s.found[code] = true
		}
	}
}

// number is what a client that computes with doubles makes of a number. An integer has to stay what it is; of a fraction
// the shortest decimal that gives the same double has to be the fraction itself, as programs write them.
func number(token string) string {
	f, err := strconv.ParseFloat(token, 64)
	if err != nil || math.IsInf(f, 0) {
		return WarnNumberRange
	}
	const certain = 15 // significant digits that every double holds
	if len(token) <= certain && !strings.ContainsAny(token, "eE") {
		return ""
	}
	// The exact fraction of such a number would be large to compute; it is taken for one that no double holds.
	if len(token) > 1000 || exponent(token) < -1000 {
		return WarnNumberPrecision
	}
	exact, ok := new(big.Rat).SetString(token)
	shown, okShown := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	if !ok || !okShown || exact.Cmp(shown) != 0 || exact.IsInt() && math.Abs(f) > 1<<53 {
		return WarnNumberPrecision
	}
	return ""
}

// exponent is a number's power of ten; very small when it is out of range.
func exponent(token string) int {
	i := strings.IndexAny(token, "eE")
	if i < 0 {
		return 0
	}
	n, err := strconv.Atoi(token[i+1:])
	if err != nil {
		return math.MinInt
	}
	return n
}

// text notes what is odd in a text.
func (s *scanner) text(text string) {
	v := viewer{limit: KeepLines}
	for i, r := range text {
		if unicode.Is(unicode.Bidi_Control, r) {
			s.found[WarnBidi] = true
			continue
		}
		_, size := utf8.DecodeRuneInString(text[i:])
		switch name := v.odd(r, size, text[i:]); {
		case r == utf8.RuneError: // a byte that is no UTF-8, or what a decoder has put in its place
			s.found[WarnInvalidText] = true
		case name == "", name == "tab", r == '\r':
		case r < 0x20, r == 0x7f, 0x80 <= r && r < 0xa0:
			s.found[WarnControl] = true
		default:
			s.found[WarnInvisible] = true
		}
	}
}
