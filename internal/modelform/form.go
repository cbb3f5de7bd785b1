// Package modelform converts to the forms that the APIs of all providers of models accept: of a function's name, of a call's
// arguments, and of a tool's schema.
package modelform

import (
	"encoding/json"
	"strings"
)

// MaxName is the maximum length in bytes of a function's name that all providers accept.
const MaxName = 64

// Name converts a name to the form that all providers accept: ^[a-zA-Z0-9_-]{1,64}$.
func Name(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	if name == "" {
		return "_"
	}
	return name[:min(len(name), MaxName)]
}

// Object returns the arguments of a call as the text of a JSON object. Some models write an empty text or null for no
// arguments, or encode an object twice. A truncated text is not JSON and becomes {}; any other value becomes a member.
func Object(arguments string) string {
	text := strings.TrimSpace(arguments)
	switch {
	case !json.Valid([]byte(text)) || text == "null":
		return "{}"
	case text[0] == '{':
		return arguments
	}
	var inner string
	if json.Unmarshal([]byte(text), &inner) == nil {
		if inner = strings.TrimSpace(inner); inner == "" || inner == "null" || inner[0] == '{' && json.Valid([]byte(inner)) {
			return Object(inner)
		}
	}
	return `{"arguments":` + text + `}`
}
