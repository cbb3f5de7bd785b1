// Package contextstore keeps what agents and users store under a key (platform contract §11.1): any bytes, in versions, for as
// long as their owner lives or their time lasts. It stores and does not look into what it stores.
//
// The row of an entry is the truth. What is large lies in a blob store, under an id that one version of one entry uses. A
// blob has a row of its own from before its first byte until behind its last (store.Blob), so that a process that is
// killed anywhere leaves nothing that a sweep does not find:
//
//	write:   row PENDING · bytes durable · one commit: the entry refers to it, it is KEPT, the one before is DOOMED
//	delete:  one commit: the entry is gone, its blob is DOOMED · bytes deleted · row deleted
//	sweep:   PENDING for longer than a write may take becomes DOOMED; what is DOOMED is deleted
package contextstore

import (
	"log/slog"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/redact"
	"aqueduct/store"
	"aqueduct/store/blob"
)

const (
	// MaxContent bounds one version of an entry: it is in memory while it is written.
	MaxContent = 16 << 20
	// MaxMetadata bounds what describes an entry. It is in the row, and in every answer about it.
	MaxMetadata = 16 << 10
	// inlineContent is the size up to which a content stays in its row. A row of SQLite that fills many pages makes its
	// neighbours slow to find, and a file of less than a few pages costs more than the row.
	inlineContent = 64 << 10
	// DefaultUserBytes bounds what one user's entries hold together. It is much for texts, and a disk holds it for many users.
	DefaultUserBytes = 1 << 30

	// uploadTime bounds the writing of one blob.
	uploadTime = time.Minute
	// pendingFor is how long a blob may be PENDING: so much longer than uploadTime and the commit behind it that neither a
	// slow store nor clocks that differ make a sweep take a blob whose write goes on.
	pendingFor = time.Hour
	// sweepEvery is how late an expired entry's bytes are deleted. It cannot be read from its time on.
	sweepEvery = 30 * time.Second
	// sweepAtOnce bounds the entries of one transaction and the blobs of one list.
	sweepAtOnce = 100
	// maxTries is how often an unconditional write meets another writer's before it is refused.
	maxTries = 8
)

// Codes of refusals: the entry has another version than the caller named, the user's entries hold as much as they
// may, the owner is not one that the caller may name.
const (
	RefusedVersion = "version_conflict"
	RefusedFull    = "context_full"
	RefusedOwner   = "context_owner_forbidden"
)

// Config is what a Service needs.
type Config struct {
	Store store.Store
	// Blobs has what is too large for a row; nil keeps all in rows.
	Blobs blob.Store
	// Secrets finds contents with secrets in them, and encrypts those.
	Secrets redact.Hasher
	// UserBytes bounds the entries of one user; 0 is DefaultUserBytes.
	UserBytes int64
	// Limited counts what is refused for it; nil counts nothing.
	Limited func(limit string)
	Logger  *slog.Logger
}

// Service is the context store. Any goroutine may call its methods.
type Service struct {
	cfg      Config
	contents *contents
}

// New makes a Service; Run must be running for anything to be swept.
func New(cfg Config) *Service {
	if cfg.UserBytes == 0 {
		cfg.UserBytes = DefaultUserBytes
	}
	return &Service{cfg: cfg, contents: &contents{store: cfg.Store, blobs: cfg.Blobs, secrets: cfg.Secrets, kick: make(chan struct{}, 1)}}
}

// OfSession is an entry of a Session with a content in its row, for a commit that also has what names it.
func OfSession(s store.Session, c Content) store.ContextEntry {
	at := now()
	return store.ContextEntry{
		Key: newID(), Tenant: s.Tenant, User: s.User, OwnerType: store.ContextOfSession, OwnerID: s.ID, SessionID: s.ID, Version: 1,
		ContentType: c.Type, Size: int64(len(c.Data)), SHA256: sumOf(c.Data), Data: c.Data, CreatedAt: at, UpdatedAt: at,
	}
}

// now is the time as rows keep it.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

func newID() string { return uuid.Must(uuid.NewV7()).String() }
