// This file escapes and splits JSON Pointers (RFC 6901).

package agui

import "strings"

// EscapePointer writes a key as a segment of a JSON Pointer (RFC 6901).
func EscapePointer(segment string) string {
	if !strings.ContainsAny(segment, "~/") {
		return segment
	}
	return strings.ReplaceAll(strings.ReplaceAll(segment, "~", "~0"), "/", "~1")
}

func unescapePointer(segment string) string {
	if !strings.Contains(segment, "~") {
		return segment
	}
	return strings.ReplaceAll(strings.ReplaceAll(segment, "~1", "/"), "~0", "~")
}

// firstSegment is the top-level key a pointer goes through; ok is false for the
// whole document.
func firstSegment(pointer string) (key string, ok bool) {
	rest, found := strings.CutPrefix(pointer, "/")
	if !found {
		return "", false
	}
	key, _, _ = strings.Cut(rest, "/")
	return unescapePointer(key), true
}
