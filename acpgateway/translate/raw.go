// This file passes on values of an agent's that have no form of ours: content of kinds that are not known, updates that
// become CUSTOM events, state. They come out on one line, bounded in depth, and with our ids where the agent's stood, so
// that what they name is found in the chat. Members are taken for ids by their names alone, because nothing else shows
// what they are.

package translate

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"aqueduct/agui"
)

// maxDepth bounds how deep a raw value may nest; what lies deeper is left out.
const maxDepth = 32

// scrub is a raw value on one line with our ids in the place of the agent's.
func (i *ids) scrub(raw json.RawMessage) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0:
		return json.RawMessage("null")
	case !json.Valid(raw):
		return marshal(string(raw))
	}
	return i.appendScrubbed(make([]byte, 0, len(raw)), raw, 0)
}

// appendScrubbed appends a value. raw is valid JSON without space around it, so its first byte shows which kind it is.
func (i *ids) appendScrubbed(dst, raw []byte, depth int) []byte {
	switch {
	case depth == maxDepth && (raw[0] == '{' || raw[0] == '['):
		return append(dst, `"(too deep)"`...)
	case raw[0] == '{':
		return i.appendObject(dst, raw, depth)
	case raw[0] == '[':
		return i.appendArray(dst, raw, depth)
	}
	return append(dst, raw...)
}

func (i *ids) appendObject(dst, raw []byte, depth int) []byte {
	dst = append(dst, '{')
	first := true
	_ = agui.EachMember(raw, func(key, val []byte) error { // the function never fails
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(agui.AppendString(dst, string(key)), ':')
		if kind := idKind(string(key)); kind != "" && val[0] == '"' {
			dst = i.appendID(dst, kind, val)
			return nil
		}
		dst = i.appendScrubbed(dst, val, depth+1)
		return nil
	})
	return append(dst, '}')
}

func (i *ids) appendArray(dst, raw []byte, depth int) []byte {
	dst = append(dst, '[')
	first := true
	_ = agui.EachElement(raw, func(val []byte) error { // the function never fails
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = i.appendScrubbed(dst, val, depth+1)
		return nil
	})
	return append(dst, ']')
}

// idKind tells which members hold an agent's id, and of what.
func idKind(key string) string {
	switch key {
	case "toolCallId", "tool_call_id":
		return "call"
	case "messageId", "message_id":
		return "message"
	case "sessionId", "session_id", "parentSessionId":
		return "session"
	case "terminalId", "terminal_id":
		return "terminal"
	case "compactionId", "planId", "subagentId", "elicitationId", "requestId", "request_id", "prompt_id", "promptId":
		return key
	}
	return ""
}

// appendID appends our id for a string that is one of the agent's. A call that the chat shows has the id that it is shown
// under; anything else gets one that is the same each time.
func (i *ids) appendID(dst []byte, kind string, quoted []byte) []byte {
	var id string
	if json.Unmarshal(quoted, &id) != nil || id == "" {
		return append(dst, `""`...)
	}
	if known := i.calls[id]; kind == "call" && known != "" {
		return agui.AppendString(dst, known)
	}
	return agui.AppendString(dst, i.id(kind, id))
}

// head is the longest beginning of at most size bytes that cuts no character.
func head(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}

// tail is the longest end of at most size bytes that cuts no character.
func tail(text string, size int) string {
	if len(text) <= size {
		return text
	}
	at := len(text) - size
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return text[at:]
}
