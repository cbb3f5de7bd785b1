// Package stricttest has, for tests, the rules by which the APIs of models refuse a request. Each rule stands with the text
// of the refusal or the page that names it. What an API only ignores is no rule here.
package stricttest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// refusal is an error that names where a request breaks a rule.
func refusal(where, format string, args ...any) error {
	return fmt.Errorf("%s: %s", where, fmt.Sprintf(format, args...))
}

// object is a JSON object.
type object = map[string]any

// read decodes a request and returns its list under key.
func read(body []byte, key string) (request object, list []any, err error) {
	if !utf8.Valid(body) {
		return nil, nil, refusal("body", "is not UTF-8")
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, nil, refusal("body", "%v", err)
	}
	list, _ = request[key].([]any)
	if len(list) == 0 {
		return nil, nil, refusal(key, "empty array. Expected an array with minimum length 1")
	}
	return request, list, nil
}

// only refuses members that are not named.
func only(where string, o object, members ...string) error {
	for key := range o {
		if !slices.Contains(members, key) {
			return refusal(where, "Unrecognized request argument supplied: %s", key)
		}
	}
	return nil
}

// functionName is the form of a function's name: "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'", and
// "string too long. Expected a string with maximum length 64".
var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// speaker is the form of a message's name: "Expected a string that matches the pattern '^[^\s<|\\/>]+$'", with at most 64
// characters.
var speaker = regexp.MustCompile(`^[^\s<|\\/>]{1,64}$`)

// Lengths and counts of OpenAI's API reference, "Create chat completion".
const (
	openAITools       = 128  // "Expected an array with maximum length 128"
	openAICallID      = 40   // messages[].tool_calls[].id: "Expected a string with maximum length 40"
	openAIDescription = 1024 // tools[].function.description: "Expected a string with maximum length 1024"
)

// OpenAI judges the body of a POST /v1/chat/completions by what OpenAI's API answers with invalid_request_error. Broken
// arguments of a call pass there, and fail in the servers that share its form (vLLM and DeepSeek decode them), so they fail
// here.
func OpenAI(body []byte) error {
	request, messages, err := read(body, "messages")
	if err != nil {
		return err
	}
	if err := openAIToolList(request); err != nil {
		return err
	}
	return openAIMessages(messages)
}

// openAIMessages judges the order of messages: the results of an assistant's calls come directly after it, each call once.
// "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'", and
// "messages with role 'tool' must be a response to an earlier message with 'tool_calls'".
func openAIMessages(messages []any) error {
	var open []string // calls of the last assistant message that have no result yet
	for i, one := range messages {
		where := fmt.Sprintf("messages[%d]", i)
		m, ok := one.(object)
		if !ok {
			return refusal(where, "is not an object")
		}
		if m["role"] == "tool" {
			id, _ := m["tool_call_id"].(string)
			at := slices.Index(open, id)
			if at < 0 {
				return refusal(where, "messages with role 'tool' must be a response to an earlier message with 'tool_calls' (%q)", id)
			}
			open = slices.Delete(open, at, at+1)
		} else if len(open) > 0 {
			return refusal(where, "the tool calls %q before it have no tool message", open)
		}
		calls, err := openAIMessage(where, m)
		if err != nil {
			return err
		}
		if calls != nil {
			open = calls
		}
	}
	if len(open) > 0 {
		return refusal("messages", "the tool calls %q at the end have no tool message", open)
	}
	return nil
}

// openAIMessage judges one message and returns the ids of its calls.
func openAIMessage(where string, m object) (calls []string, err error) {
	if name, ok := m["name"]; ok {
		if text, _ := name.(string); !speaker.MatchString(text) {
			return nil, refusal(where+".name", "does not match %s", speaker)
		}
	}
	content := m["content"]
	switch m["role"] {
	case "system", "developer":
		err = openAIContent(where, content, "text")
		return nil, firstOf(only(where, m, "role", "content", "name"), err)
	case "user":
		err = openAIContent(where, content, "text", "image_url", "input_audio", "file")
		return nil, firstOf(only(where, m, "role", "content", "name"), err)
	case "tool":
		err = openAIContent(where, content, "text")
		return nil, firstOf(only(where, m, "role", "content", "tool_call_id"), err)
	case "assistant":
		calls, err = openAICalls(where+".tool_calls", m)
		if content != nil || len(calls) == 0 { // "content … Required unless tool_calls or function_call is specified."
			err = firstOf(err, openAIContent(where, content, "text", "refusal"))
		}
		return calls, firstOf(only(where, m, "role", "content", "name", "tool_calls", "refusal", "audio"), err)
	}
	return nil, refusal(where+".role", "unknown role %v", m["role"])
}

// firstOf returns the first error.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// openAICalls judges an assistant's calls.
func openAICalls(where string, m object) (ids []string, err error) {
	value, ok := m["tool_calls"]
	if !ok {
		return nil, nil
	}
	list, _ := value.([]any)
	if len(list) == 0 {
		return nil, refusal(where, "empty array. Expected an array with minimum length 1")
	}
	for i, one := range list {
		at := fmt.Sprintf("%s[%d]", where, i)
		call, _ := one.(object)
		function, _ := call["function"].(object)
		id, _ := call["id"].(string)
		name, _ := function["name"].(string)
		arguments, ok := function["arguments"].(string)
		switch {
		case id == "" || utf8.RuneCountInString(id) > openAICallID:
			err = refusal(at+".id", "%q is empty or longer than %d", id, openAICallID)
		case slices.Contains(ids, id):
			err = refusal(at+".id", "duplicate %q", id)
		case call["type"] != "function":
			err = refusal(at+".type", "is %v", call["type"])
		case !functionName.MatchString(name):
			err = refusal(at+".function.name", "%q does not match %s", name, functionName)
		case !ok || !isObject(arguments):
			err = refusal(at+".function.arguments", "%q is not the text of a JSON object", arguments)
		}
		if err = firstOf(err, only(at, call, "id", "type", "function"), only(at+".function", function, "name", "arguments")); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// isObject reports whether a text is a JSON object.
func isObject(text string) bool {
	var o object
	return json.Unmarshal([]byte(text), &o) == nil && o != nil
}

// openAIContent judges a content: a string, or parts of the types that the role may have. "Invalid 'messages[0].content':
// empty array", and "Invalid value for 'content': expected a string, got null".
func openAIContent(where string, content any, types ...string) error {
	where += ".content"
	if _, ok := content.(string); ok {
		return nil
	}
	list, ok := content.([]any)
	if !ok || len(list) == 0 {
		return refusal(where, "expected a string or a non-empty array of parts, got %v", content)
	}
	for i, one := range list {
		at := fmt.Sprintf("%s[%d]", where, i)
		part, _ := one.(object)
		kind, _ := part["type"].(string)
		if !slices.Contains(types, kind) {
			return refusal(at+".type", "invalid value %q, supported are %q", kind, types)
		}
		if err := openAIPart(at, kind, part); err != nil {
			return err
		}
	}
	return nil
}

// openAIPart judges one part.
func openAIPart(where, kind string, part object) error {
	if err := only(where, part, "type", kind); err != nil {
		return err
	}
	if kind == "text" || kind == "refusal" {
		if _, ok := part[kind].(string); !ok {
			return refusal(where+"."+kind, "missing required parameter")
		}
		return nil
	}
	value, ok := part[kind].(object)
	if !ok {
		return refusal(where+"."+kind, "missing required parameter")
	}
	switch kind {
	case "image_url":
		address, _ := value["url"].(string)
		return firstOf(only(where, value, "url", "detail"), openAIImage(where, address))
	case "input_audio": // "Invalid value: 'mpeg'. Supported values are: 'wav' and 'mp3'."
		data, _ := value["data"].(string)
		if format := value["format"]; format != "wav" && format != "mp3" {
			return refusal(where+".input_audio.format", "invalid value %v, supported are wav and mp3", format)
		}
		return isBase64(where, data)
	}
	if id, _ := value["file_id"].(string); id != "" {
		return only(where, value, "file_id")
	}
	if name, _ := value["filename"].(string); name == "" { // "Missing required parameter: 'messages[0].content[0].file.filename'."
		return refusal(where+".file.filename", "missing required parameter")
	}
	data, _ := value["file_data"].(string)
	_, err := dataURL(where+".file.file_data", data)
	return firstOf(only(where, value, "file_data", "filename"), err)
}

// openAIImage judges an image's address. "You uploaded an unsupported image. Please make sure your image has of one the
// following formats: ['png', 'jpeg', 'gif', 'webp']".
func openAIImage(where, address string) error {
	if strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://") {
		return nil
	}
	kind, err := dataURL(where+".image_url.url", address)
	if err == nil && !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, kind) {
		err = refusal(where+".image_url.url", "unsupported image %q", kind)
	}
	return err
}

// dataURL judges a data URL and returns its media type. "Expected a base64-encoded data URL with an image MIME type".
func dataURL(where, address string) (kind string, err error) {
	head, data, ok := strings.Cut(address, ",")
	kind, isData := strings.CutPrefix(head, "data:")
	kind, encoded := strings.CutSuffix(kind, ";base64")
	if !ok || !isData || !encoded || !strings.Contains(kind, "/") {
		return "", refusal(where, "%.40q is not a base64 data URL with a media type", address)
	}
	return kind, isBase64(where, data)
}

// isBase64 judges base64 of the standard alphabet, with padding.
func isBase64(where, data string) error {
	if _, err := base64.StdEncoding.Strict().DecodeString(data); err != nil || data == "" || strings.ContainsAny(data, "\r\n") {
		return refusal(where, "%.40q is not base64", data)
	}
	return nil
}

// openAIToolList judges the declarations of functions.
func openAIToolList(request object) error {
	value, ok := request["tools"]
	if !ok {
		return nil
	}
	list, _ := value.([]any)
	if len(list) == 0 || len(list) > openAITools { // "[] is too short - 'tools'"
		return refusal("tools", "%d tools, expected 1 to %d", len(list), openAITools)
	}
	for i, one := range list {
		at := fmt.Sprintf("tools[%d]", i)
		tool, _ := one.(object)
		function, _ := tool["function"].(object)
		name, _ := function["name"].(string)
		if tool["type"] != "function" || !functionName.MatchString(name) {
			return refusal(at+".function.name", "%q does not match %s", name, functionName)
		}
		if text, _ := function["description"].(string); utf8.RuneCountInString(text) > openAIDescription {
			return refusal(at+".function.description", "longer than %d", openAIDescription)
		}
		if schema, ok := function["parameters"]; ok {
			if err := openAISchema(at+".function.parameters", schema); err != nil {
				return err
			}
		}
	}
	return nil
}

// openAISchema judges a function's parameters. "Invalid schema for function 'f': schema must be a JSON Schema of 'type:
// "object"'", and "array schema missing items".
func openAISchema(where string, value any) error {
	schema, ok := value.(object)
	if !ok || schema["type"] != "object" {
		return refusal(where, `schema must be a JSON Schema of 'type: "object"'`)
	}
	if properties, ok := schema["properties"]; ok {
		if _, ok := properties.(object); !ok {
			return refusal(where+".properties", "is not an object")
		}
	}
	return arraysHaveItems(where, schema)
}

// arraysHaveItems refuses a schema of an array without items, at any depth.
func arraysHaveItems(where string, value any) error {
	switch v := value.(type) {
	case []any:
		for i := range v {
			if err := arraysHaveItems(where, v[i]); err != nil {
				return err
			}
		}
	case object:
		if _, ok := v["items"]; v["type"] == "array" && !ok {
			return refusal(where, "array schema missing items")
		}
		for key := range v {
			if err := arraysHaveItems(where+"."+key, v[key]); err != nil {
				return err
			}
		}
	}
	return nil
}
