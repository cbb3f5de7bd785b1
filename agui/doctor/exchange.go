// Package doctor judges an AG-UI endpoint by what it answered. It does no I/O and knows no clock: package recorder makes the
// requests and records them, so every rule can be tried on a recording.
//
// Each rule has a code that stays as it is, and is in one table (rules.go) with its reason and its source. A rule that
// a recording gave no occasion for is reported as not seen, never as kept.
package doctor

import (
	"encoding/json"
	"net/http"
	"time"

	"aqueduct/agui"
)

// Exchange is everything that was asked and answered. What was not asked is nil.
type Exchange struct {
	Run *Run
	// Malformed is the answer to an input that is no RunAgentInput.
	Malformed *Answer
	// Preflight is the answer to a browser's question whether a page may call.
	Preflight *Preflight
	// Again is the answer to the same input once more, with AgainAfter, the position of an event in its middle.
	Again      *Run
	AgainAfter string
}

// Run is one POST of a RunAgentInput, and its answer as it arrived.
type Run struct {
	ThreadID, RunID string
	State           json.RawMessage
	Messages        []agui.Message // of the input
	Answer
	Chunks []Chunk
	// Ended is how the body came to its end, and After how long after the request.
	Ended Ending
	After time.Duration
	Cause string // of a body that broke off
	// Patience is how long the end of the body was waited for behind the terminal event.
	Patience time.Duration
}

// Answer is the head of a response.
type Answer struct {
	Status int
	Header http.Header
}

// Chunk is what one read gave, and when, counted from the request.
type Chunk struct {
	At   time.Duration
	Data []byte
}

// Ending is how a body ended.
type Ending int

// The endings.
const (
	Closed  Ending = iota // in order
	Broken                // the connection was lost
	GivenUp               // nothing more was waited for
)

// Preflight is an OPTIONS request of a browser for a page of Origin, and what the POST itself answered to such a page.
type Preflight struct {
	Origin string
	// Wanted: pages of this origin are to be let in. Else it is an origin that no server can know.
	Wanted bool
	Answer
	Post http.Header
}

// EndsRun reports whether the data of an event is that of a terminal one, wherever its type stands.
func EndsRun(data []byte) bool {
	var event struct{ Type agui.Type }
	return json.Unmarshal(data, &event) == nil && (event.Type == agui.TypeRunFinished || event.Type == agui.TypeRunError)
}
