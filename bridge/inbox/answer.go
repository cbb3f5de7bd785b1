// Package inbox holds Questions: what was asked, how an answer is read, and how it is
// settled, once, whoever answers and wherever.
package inbox

import "encoding/json"

// Answer is one answer as a surface received it, before it is read against the Question
// it names. Every spelling of every surface becomes one of these.
type Answer struct {
	// QuestionID is our id; "" only from TDesign pages, which may lose it.
	QuestionID string
	// Cancelled: the person declines to answer (AG-UI resume status "cancelled").
	Cancelled bool
	// Payload is what was said: an object such as {"optionId":…} or {"approved":…}, a bare
	// JSON string, or for an input or a client tool any value.
	Payload json.RawMessage
	// Reason is the person's own words, if any.
	Reason string
	// MessageID is set when the client sent the answer as a tool message of its own, which
	// then is the Question's result in the transcript.
	MessageID string
	// Error is set when a client tool failed.
	Error string
}
