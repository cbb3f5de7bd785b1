package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Error codes of JSON-RPC 2.0 and of ACP.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
	CodeAuthRequired   = -32000
	CodeNotFound       = -32002 // a resource: a file, a session
	CodeCancelled      = -32800 // the request was withdrawn
)

// ID is a request's id as it stands in JSON: a string in quotes, or a number. Both sides
// count for themselves, so the same id may be open in both directions. Empty means absent.
type ID string

// errID is an id that is neither a string nor a number.
var errID = errors.New("acp: an id is a string or a number")

// UnmarshalJSON keeps the id's text, because it must be sent back as it came.
func (id *ID) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || !(data[0] == '"' || data[0] == '-' || '0' <= data[0] && data[0] <= '9' || bytes.Equal(data, []byte("null"))) {
		return errID
	}
	*id = ID(data)
	return nil
}

// MarshalJSON writes the id as it came.
func (id ID) MarshalJSON() ([]byte, error) {
	if id == "" {
		return []byte("null"), nil
	}
	return []byte(id), nil
}

// Message is any JSON-RPC message: a request has ID and Method, a notification only Method,
// a response ID and either Result or Error.
type Message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      ID              `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// IsRequest reports whether m expects an answer.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != "" && m.ID != "null" }

// IsResponse reports whether m answers a request.
func (m *Message) IsResponse() bool { return m.Method == "" && m.ID != "" }

// Error is a JSON-RPC error.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// errorData bounds what of an error's data is shown.
const errorData = 2 << 10

// Error includes the data: agents put the cause there.
func (e *Error) Error() string {
	if len(e.Data) == 0 || string(e.Data) == "null" {
		return fmt.Sprintf("%s (%d)", e.Message, e.Code)
	}
	return fmt.Sprintf("%s (%d): %s", e.Message, e.Code, e.Data[:min(len(e.Data), errorData)])
}

// CodeOf returns the JSON-RPC code in err's chain, 0 when there is none.
func CodeOf(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}
