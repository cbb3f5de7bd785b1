// Package approval holds Questions: what was asked, how an answer is read, and how it is
// settled, once, by whichever answer is first.
//
// The way of an answer: a surface makes an Answer or Words of its request (answer.go, words.go), Read checks it against
// the Question and makes a Decision (decision.go), Settler.Apply authorizes the Decision and moves the rows (apply.go,
// settle.go). Expiry, cancel and the end of an Agent make their Decision without an Answer and go the same way from
// there. What stands beyond one Question are Grants and Delegations; Deadlines and the Feed only watch.
//
// The package knows the rows, the policy and the audit. It knows no HTTP, no AG-UI event and no Agent's protocol: a
// settled Question is only a pair of rows here, and the engine (package bridge) passes it on to what waits.
package approval

import "encoding/json"

// Answer is one answer as a surface received it, before it is read against the Question
// it names. Every spelling of every surface becomes one of these.
//
// By surface: the chat makes it of a resume entry {"interruptId","status","payload"} or of a tool message, REST of
// POST /v1/approvals/{id}/decision, a link of its page, a webhook or socket of its frame.
type Answer struct {
	// QuestionID is our id; "" only from TDesign pages, which may lose it.
	QuestionID string
	// CardID is the tool call that the client answered, where it answered one. It has to be the Question's card: an Agent may
	// show a call of its own under an id that its Question has (Question.CardID).
	CardID string
	// Cancelled: the person declines to answer (AG-UI resume status "cancelled").
	Cancelled bool
	// Payload is the answer itself: an object such as {"optionId":…} or {"approved":…}, a bare
	// JSON string, or for an input or a client tool any value.
	Payload json.RawMessage
	// Reason is the person's own words, if any.
	Reason string
	// MessageID is set when the client sent the answer as a tool message of its own, which
	// then is the Question's result in the transcript.
	MessageID string
	// Error is set when a client tool failed.
	Error string
	// Command is set if a client answers by forwardedProps.command, which names no Question by our id.
	Command *Command
}

// Command is a client's answer to CUSTOM on_interrupt. Event is command.interruptEvent, the value of the event that the
// client answers; nil if the client does not name it.
type Command struct{ Event json.RawMessage }

// as has the form that Service.answer wants: Words depend on the kind of the Question, an Answer does not.
func (a Answer) as(Question) (Answer, error) { return a, nil }
