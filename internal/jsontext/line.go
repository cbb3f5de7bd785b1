package jsontext

import "bytes"

// lineEnds are the characters that end a line for line readers in Python and Java, but not in JSON or SSE: U+0085, U+2028 and
// U+2029, each with its escape.
var lineEnds = [...]struct{ char, escape []byte }{
	{[]byte("\u0085"), []byte(`\u0085`)}, {[]byte("\u2028"), []byte(`\u2028`)}, {[]byte("\u2029"), []byte(`\u2029`)},
}

// AppendLine appends valid JSON of one line and escapes the characters at which some readers end a line. They occur only in
// strings, so the value does not change.
func AppendLine(dst, json []byte) []byte {
	for i := range lineEnds {
		if bytes.Contains(json, lineEnds[i].char) {
			return appendEscaped(dst, json)
		}
	}
	return append(dst, json...)
}

// appendEscaped implements AppendLine for JSON with such a character.
func appendEscaped(dst, json []byte) []byte {
	start := 0
	for i := 0; i < len(json); i++ {
		if json[i] != 0xC2 && json[i] != 0xE2 {
			continue
		}
		for j := range lineEnds {
			if bytes.HasPrefix(json[i:], lineEnds[j].char) {
				dst = append(append(dst, json[start:i]...), lineEnds[j].escape...)
				i += len(lineEnds[j].char) - 1
				start = i + 1
				break
			}
		}
	}
	return append(dst, json[start:]...)
}
