package store

import (
	"context"
	"time"
)

// CommandKind is what the owner of a Session is asked to do.
type CommandKind string

// The kinds of Commands.
const (
	CommandCancel CommandKind = "cancel" // of TurnID
	CommandFail   CommandKind = "fail"   // TurnID, for the reason in Payload: {code,message}
	CommandFinish CommandKind = "finish" // TurnID, which no prompt began: a prompt has come
	CommandAppend CommandKind = "append" // a message, which is in Payload, to the thread; it names no Turn
	// CommandLook asks for a look at the rows of the Turns that TurnID's agent called, or that called it: one of them
	// began, asks, was answered, or ended.
	CommandLook CommandKind = "look"
)

// Ends reports whether the Command ends its Turn.
func (k CommandKind) Ends() bool { return k != CommandLook && k != CommandAppend }

// Command is a request to the owner of a Session that no other row expresses.
type Command struct {
	ID        string
	SessionID string
	TurnID    string
	Kind      CommandKind
	Payload   []byte // JSON or nil
	CreatedAt time.Time
	DoneAt    time.Time
}

// CommandReader reads Commands that are not done, oldest first.
type CommandReader interface {
	PendingCommands(ctx context.Context, in Scope, sessionID string) ([]Command, error)
}

// CommandTx writes Commands.
type CommandTx interface {
	InsertCommand(ctx context.Context, c Command) error
}
