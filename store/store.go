package store

import "context"

// Reader is every read. Inside InTx a Tx reads its own writes.
type Reader interface {
	AgendaReader
	AgentReader
	BlobReader
	BudgetReader
	ContextReader
	SessionReader
	TurnReader
	RunReader
	EventReader
	RecordReader
	MessageReader
	ModelCallReader
	PartReader
	DeletionReader
	ToolCallReader
	ApprovalReader
	CommandReader
	ProxyReader
	TaskReader
	ToolReader
	GrantReader
	DelegationReader
	ShareReader
	OutboxReader
	LinkReader
	CredentialReader
	AuditReader
	SealedReader
	SearchReader
}

// Tx is one transaction of a request. It has no append: events come in a Batch only. An
// insert may wait for what comes next; its error then comes with that, or from InTx.
type Tx interface {
	Reader
	AgentTx
	BlobTx
	BudgetTx
	ContextTx
	SessionTx
	TurnTx
	RunTx
	RecordTx
	MessageTx
	ModelCallTx
	PartTx
	DeletionTx
	ToolCallTx
	ApprovalTx
	CommandTx
	ProxyTx
	TaskTx
	ToolTx
	GrantTx
	DelegationTx
	ShareTx
	OutboxTx
	LinkTx
	CredentialTx
	AuditTx
	SealedTx
	SearchTx
}

// Store is a database. Its methods are safe for concurrent use.
type Store interface {
	Reader
	Replicas
	// Commit writes a Batch: all of it, or nothing and an error that is one of ErrFenced,
	// ErrConflict, ErrData, ErrUnavailable, ErrUnknownOutcome. One caller at a time.
	Commit(ctx context.Context, b *Batch) (Result, error)
	// InTx runs fn in one transaction at READ COMMITTED or better; fn may run again when
	// the database asks for it, or ctx is Patient, so it has no effects of its own. An error of fn rolls back
	// and is returned as it is.
	InTx(ctx context.Context, fn func(Tx) error) error
	// CutLogs returns the Sessions whose logs a migration cut, 100 at most, by id.
	CutLogs(ctx context.Context) ([]CutLog, error)
	// Scrub makes what was deleted unreadable in the database's files, as far as the database can: SQLite writes its log
	// back into the file and truncates it. It never waits; pages in use stay until the next time.
	Scrub(ctx context.Context) error
	// Ping reports whether a write would succeed now.
	Ping(ctx context.Context) error
	Close() error
}
