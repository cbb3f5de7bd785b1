package trace

import (
	"time"

	"aqueduct/store"
)

// ModelStarted is the payload of llm_call_started.
type ModelStarted struct {
	RequestID   string `json:"request_id"`
	Route       string `json:"route"` // of OpenAI's API
	Model       string `json:"model"`
	Stream      bool   `json:"stream"`
	Traceparent string `json:"traceparent,omitempty"` // as the upstream is given it
}

// ModelEnded is the payload of llm_call_done.
type ModelEnded struct {
	RequestID    string      `json:"request_id"`
	Model        string      `json:"model"`
	Upstream     string      `json:"upstream,omitempty"` // which of the operator's answered
	Status       string      `json:"status"`             // DONE, FAILED or CUT
	HTTPStatus   int         `json:"http_status,omitempty"`
	LatencyMS    int64       `json:"latency_ms"`               // from the request to the end of the answer
	FirstTokenMS int64       `json:"first_token_ms,omitempty"` // of a stream
	Tokens       ModelTokens `json:"tokens"`
	Cost         float64     `json:"cost,omitempty"` // by the price table, in its currency
	Currency     string      `json:"currency,omitempty"`
	Error        *ModelError `json:"error,omitempty"`
	Attempts     []string    `json:"failed_upstreams,omitempty"` // that were tried before
}

// ModelTokens are what a call used.
type ModelTokens struct {
	Input     int64 `json:"input"`
	Cached    int64 `json:"cached,omitempty"` // of Input
	Output    int64 `json:"output"`
	Reasoning int64 `json:"reasoning,omitempty"` // of Output
	Estimated bool  `json:"estimated,omitempty"` // the upstream did not tell
}

// ModelError is why a call failed.
type ModelError struct {
	Code    string `json:"code"`
	Message string `json:"message,omitempty"`
}

// ModelCallStarted is llm_call_started.
func ModelCallStarted(c store.ModelCall, stream bool, traceparent string) store.Record {
	return Record(LLMCallStarted, c.SessionID, c.TurnID, c.StartedAt, ModelStarted{
		RequestID: c.ID, Route: c.Route, Model: c.Model, Stream: stream, Traceparent: traceparent,
	})
}

// ModelCallEnded is llm_call_done. What the row of the call does not have stands in more: it is of interest to a person who
// looks at one call, and not to what adds calls up.
func ModelCallEnded(c store.ModelCall, more ModelEnded) store.Record {
	more.RequestID, more.Model, more.Upstream, more.Status = c.ID, c.Model, c.Upstream, string(c.Status)
	more.LatencyMS, more.FirstTokenMS = c.EndedAt.Sub(c.StartedAt).Milliseconds(), since(c.StartedAt, c.FirstTokenAt)
	more.Tokens = ModelTokens{c.Tokens.Input, c.Tokens.Cached, c.Tokens.Output, c.Tokens.Reasoning, c.Tokens.Estimated}
	if c.Cost > 0 {
		more.Cost = float64(c.Cost) / 1e6
	}
	if c.Code != "" {
		if more.Error == nil {
			more.Error = &ModelError{}
		}
		more.Error.Code, more.Error.Message = c.Code, cut(more.Error.Message)
	}
	return Record(LLMCallDone, c.SessionID, c.TurnID, c.EndedAt, more)
}

// since is a span in milliseconds, 0 for what did not come.
func since(begun, at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.Sub(begun).Milliseconds()
}
