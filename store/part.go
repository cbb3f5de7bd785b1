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
	// An uploaded part may lie in a Blob; Data is empty then. With a KID the Blob is encrypted.
	BlobID    string
	BlobSize  int64 // of the content; 0 for one in Data
	KID       string
	CreatedAt time.Time
}

// PartReader reads parts.
type PartReader interface {
	MessagePart(ctx context.Context, in Scope, sessionID, sha256 string) (MessagePart, error)
}

// PartTx writes parts.
type PartTx interface {
	// InsertMessagePart does nothing when the Session has the bytes already. One in a Blob is inserted by who has looked before,
	// under the Session's lock, and keeps its Blob.
	InsertMessagePart(ctx context.Context, p MessagePart) error
	// ReplaceMessageData replaces the Data of one message; nothing happens when the row is gone.
	ReplaceMessageData(ctx context.Context, messageID string, data []byte) error
}
