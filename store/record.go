package store

import (
	"context"
	"time"
)

// RecordSource is who wrote a Record.
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
	Type      string // the platform's are constants of bridge/trace
	AtSeq     int64  // the log's position when it was written
	TS        time.Time
	Payload   []byte // JSON
}

// PlacedRecord is a Record with its position among those of its Session, which goes upwards from
// 1 in the order in which readers can see them.
type PlacedRecord struct {
	Record
	Pos int64
}

// RecordReader reads Records, oldest first.
type RecordReader interface {
	RecordsOfTurn(ctx context.Context, in Scope, turnID string, page Page) ([]Record, error)
	// RecordsOfType lists Records of one type. It reads the whole table, for commands that
	// people run.
	RecordsOfType(ctx context.Context, in Scope, kind string, page Page) ([]Record, error)
	// RecordsOfSession lists all of a Session, those of no Turn too, after a position, in the
	// order of positions. What is not sequenced yet is not listed; see SequenceRecords.
	RecordsOfSession(ctx context.Context, in Scope, sessionID string, after int64, limit int) ([]PlacedRecord, error)
	// PlacedRecordsOfTurn is RecordsOfSession for the Records of one Turn.
	PlacedRecordsOfTurn(ctx context.Context, in Scope, turnID string, after int64, limit int) ([]PlacedRecord, error)
	// RecordsUnsequenced reports whether SequenceRecords has something to do for the Session or, with a turnID, for that
	// Turn of it.
	RecordsUnsequenced(ctx context.Context, in Scope, sessionID, turnID string) (bool, error)
}

// RecordTx writes Records of those who do not own the Session.
type RecordTx interface {
	InsertRecord(ctx context.Context, r Record) error
	// SequenceRecords gives positions to a Session's Records that are committed and have none, in the order of their ids,
	// limit at most, and returns how many. Many write Records of one Session and commit in another
	// order than they began: a position that was given when a Record was written could appear
	// below one that a reader has passed. The caller holds the Session's lock.
	SequenceRecords(ctx context.Context, sessionID string, limit int) (int64, error)
}
