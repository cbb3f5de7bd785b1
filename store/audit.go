package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// AuditEntry is one deed worth answering for. Entries are never changed; each holds the
// hash of the one before, so that a change of any shows.
type AuditEntry struct {
	Seq         int64 // 1, 2, 3 … in the whole installation
	Tenant      string
	TS          time.Time
	Actor       string // the user, or "system"
	Action      string
	SubjectType string
	SubjectID   string
	Payload     []byte // JSON
	PrevHash    string // hex; "" for the first
	Hash        string // hex
}

// Sum is the Hash an entry must have. Every member is told with its length, so that no
// text can be moved from one member to the next.
func (e AuditEntry) Sum() string {
	h := sha256.New()
	for _, member := range []string{
		"aqueduct audit 1", strconv.FormatInt(e.Seq, 10), e.Tenant, strconv.FormatInt(e.TS.UnixMilli(), 10), e.Actor,
		e.Action, e.SubjectType, e.SubjectID, string(e.Payload), e.PrevHash,
	} {
		h.Write([]byte(strconv.Itoa(len(member)) + ":" + member + ","))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// AuditReader reads the audit.
type AuditReader interface {
	// Audit lists what comes after the position, oldest first. A user's Scope sees what that
	// user did; Within sees a tenant's.
	Audit(ctx context.Context, in Scope, afterSeq int64, limit int) ([]AuditEntry, error)
}

// AuditTx writes it.
type AuditTx interface {
	// AppendAudit gives the entry its Seq and hashes, and returns it as it is kept. It holds
	// up every other transaction that appends until this one ends, so it comes last.
	AppendAudit(ctx context.Context, e AuditEntry) (AuditEntry, error)
}
