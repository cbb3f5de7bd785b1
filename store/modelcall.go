package store

import (
	"context"
	"time"
)

// ModelCallStatus is how far a call of a model is.
type ModelCallStatus string

// The states of a ModelCall.
const (
	ModelOpen   ModelCallStatus = "OPEN"
	ModelDone   ModelCallStatus = "DONE"
	ModelFailed ModelCallStatus = "FAILED" // Code has the cause
	ModelCut    ModelCallStatus = "CUT"    // the agent left before the answer's end, or the server did
)

// ModelCall is a call of a model that an Agent made through this server. The request and the answer are not kept: they are the
// agent's, and what of them concerns the conversation is in the log.
type ModelCall struct {
	ID        string
	SessionID string
	TurnID    string
	AgentID   string
	Route     string // of OpenAI's API: "chat/completions"
	Model     string // as the agent named it
	Upstream  string // which answered; "" before one did
	Status    ModelCallStatus
	Code      string // of a failure
	Replica   string // in which it is, or was, under way
	// Tokens are what it used. While it is OPEN they, and Cost, are what it counts with should its Replica be killed.
	Tokens ModelTokens
	// Cost is in millionths of the price table's currency.
	Cost         int64
	StartedAt    time.Time
	FirstTokenAt time.Time // of a stream
	EndedAt      time.Time
}

// ModelTokens are what a call of a model used. Cached are part of Input, Reasoning are part of Output.
type ModelTokens struct {
	Input, Cached, Output, Reasoning int64
	Estimated                        bool // the upstream did not tell
}

// ModelUsage is what the calls of one model at one upstream used; their costs and their counters differ.
type ModelUsage struct {
	Model, Upstream string
	Tokens          ModelTokens
	Cost            int64
}

// ModelCallReader reads ModelCalls.
type ModelCallReader interface {
	ModelCall(ctx context.Context, in Scope, id string) (ModelCall, error)
	// UsageOfTurn adds up the calls of a Turn that have ended, by model and upstream.
	UsageOfTurn(ctx context.Context, in Scope, turnID string) ([]ModelUsage, error)
	// AbandonedModelCalls are OPEN ones whose Replica is fenced, at most limit of them.
	AbandonedModelCalls(ctx context.Context, in Scope, limit int) ([]ModelCall, error)
}

// ModelCallTx writes them.
type ModelCallTx interface {
	InsertModelCall(ctx context.Context, c ModelCall) error
	// EndModelCall writes everything but what InsertModelCall was given of the call's origin. False when it is not OPEN.
	EndModelCall(ctx context.Context, c ModelCall) (bool, error)
}
