package store

import (
	"context"
	"time"
)

// ContextOwner is what an entry of the context store belongs to.
type ContextOwner string

// The owners of context entries. Entries of a Session or a Run are deleted with the Session; those of a user or an agent
// end by their time or by a request.
const (
	ContextOfSession ContextOwner = "session"
	ContextOfRun     ContextOwner = "run"   // a Turn
	ContextOfUser    ContextOwner = "user"  // of any of the user's threads
	ContextOfAgent   ContextOwner = "agent" // what an agent keeps about one user
	// ContextOfUpload is a file that its user uploaded for a message: no agent uses it, and no new version replaces it.
	ContextOfUpload ContextOwner = "upload"
)

// ContextEntry is what an agent or a user keeps under a key. The platform stores it and does not look into it.
type ContextEntry struct {
	Key         string // the contract's context_key
	Tenant      string
	User        string // whose entry it is, whatever the owner
	OwnerType   ContextOwner
	OwnerID     string
	SessionID   string // of an owner that is a Session or a Run
	Version     int64  // 1 for the first, one more for each write
	ContentType string
	Size        int64  // of the content as it was written
	SHA256      string // of the same, in lower-case hexadecimal; "" of an encrypted one, whose secret could be guessed by it
	Metadata    []byte // a JSON object; nil is none
	// The content is Data, or what the Blob has. With a KID it is encrypted with that key.
	Data      []byte
	BlobID    string
	KID       string
	CreatedAt time.Time
	UpdatedAt time.Time
	ExpiresAt time.Time // zero: never
}

// Expired reports whether the entry's time is over.
func (e ContextEntry) Expired(now time.Time) bool {
	return !e.ExpiresAt.IsZero() && !e.ExpiresAt.After(now)
}

// ContextEntryOverhead is what each entry counts in ContextBytes beside its content, so that empty entries are bounded too.
const ContextEntryOverhead = 1 << 10

// ContextReader reads context entries.
type ContextReader interface {
	// ContextEntry is the entry of a key without its Data, expired or not. One of a Session that is hidden is ErrNotFound.
	ContextEntry(ctx context.Context, in Scope, key string) (ContextEntry, error)
	// ContextData is the Data of an entry that has this version; ErrNotFound where it has another by now.
	ContextData(ctx context.Context, in Scope, key string, version int64) ([]byte, error)
	// ContextEntries is a page of entries without their Data, the newest first: of an owner, or of all where the type is "".
	// Those that expired before now are left out.
	ContextEntries(ctx context.Context, in Scope, ownerType ContextOwner, ownerID string, now time.Time, p Page) ([]ContextEntry, error)
	// ContextBytes is the size of all entries of a user, and of the attachments in the user's threads that lie in Blobs. Only a Scope
	// that sees everything sees it.
	ContextBytes(ctx context.Context, in Scope, tenant, user string) (int64, error)
	// ExpiredContext lists entries that expired before now, without their Data, the longest ago first. Only a Scope that sees everything sees any.
	ExpiredContext(ctx context.Context, in Scope, now time.Time, limit int) ([]ContextEntry, error)
}

// ContextTx writes context entries.
type ContextTx interface {
	InsertContextEntry(ctx context.Context, e ContextEntry) error
	// ReplaceContextEntry writes a new version of the content and when it expires. False when the entry does not have the
	// version before e.Version any more.
	ReplaceContextEntry(ctx context.Context, e ContextEntry) (bool, error)
	// DeleteContextEntry deletes an entry of that version; false when it has another, or is gone.
	DeleteContextEntry(ctx context.Context, key string, version int64) (bool, error)
}
