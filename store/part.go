package store

import (
	"context"
	"time"
)

// MessagePart is the bytes of one large part of a message (a picture, a document). A Session has equal bytes once,
// however many of its messages hold them; the message itself holds the part's URL.
type MessagePart struct {
	SessionID string
	SHA256    string // of Data, in lower-case hexadecimal
	MimeType  string // as its first message gave it; "" when it gave none
	Data      []byte
	CreatedAt time.Time
}

// PartReader reads parts.
type PartReader interface {
	MessagePart(ctx context.Context, in Scope, sessionID, sha256 string) (MessagePart, error)
}

// PartTx writes parts.
type PartTx interface {
	// InsertMessagePart does nothing when the Session has the bytes already.
	InsertMessagePart(ctx context.Context, p MessagePart) error
	// ReplaceMessageData replaces the Data of one message; nothing happens when the row is gone.
	ReplaceMessageData(ctx context.Context, messageID string, data []byte) error
}
