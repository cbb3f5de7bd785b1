package store

import (
	"context"
	"time"
)

// RecordSource says who wrote a Record.
type RecordSource string

// The sources of Records.
const (
	SourcePlatform RecordSource = "platform" // the platform contract's §9.1 events
	SourceACP      RecordSource = "acp"
	SourceProxy    RecordSource = "proxy"
)

// Record is anything worth keeping beside the log.
type Record struct {
	ID        string // UUIDv7
	SessionID string
	TurnID    string // "" when it belongs to no Turn
	Source    RecordSource
	Type      string
	AtSeq     int64 // the log's position when it was written
	TS        time.Time
	Payload   []byte // JSON
}

// RecordDecision is the Type of the Records that hold what the policy said of a call: a
// policy.Decision.
const RecordDecision = "policy_decision"

// RecordReader reads Records, oldest first.
type RecordReader interface {
	RecordsOfTurn(ctx context.Context, in Scope, turnID string, page Page) ([]Record, error)
	// RecordsOfType lists Records of one type. It reads the whole table, for commands that
	// people run.
	RecordsOfType(ctx context.Context, in Scope, kind string, page Page) ([]Record, error)
}

// RecordTx writes Records of those who do not own the Session.
type RecordTx interface {
	InsertRecord(ctx context.Context, r Record) error
}
