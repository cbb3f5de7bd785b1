package store

import (
	"context"
	"crypto/hmac"
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
	Remote      string // address of the peer that asked for it; "" for what the server did by itself
	PrevHash    string // hex; "" for the first
	Hash        string // hex
	MAC         string // <key id>:<hex>, see AuditKey; "" without a key
}

// Sum is the Hash an entry must have. Every member is hashed with its length, so that no
// text can be moved from one member to the next.
func (e AuditEntry) Sum() string {
	// Entries without an address keep the first form, in which all entries of before were hashed.
	members := []string{
		"aqueduct audit 1", strconv.FormatInt(e.Seq, 10), e.Tenant, strconv.FormatInt(e.TS.UnixMilli(), 10), e.Actor,
		e.Action, e.SubjectType, e.SubjectID, string(e.Payload), e.PrevHash,
	}
	if e.Remote != "" {
		members[0] = "aqueduct audit 2"
		members = append(members, e.Remote)
	}
	h := sha256.New()
	for _, member := range members {
		h.Write([]byte(strconv.Itoa(len(member)) + ":" + member + ","))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// AuditKey authenticates entries with a secret that is not in the database: who can write rows there can compute hashes,
// but no MACs. The zero value makes none.
type AuditKey struct{ secret []byte }

// NewAuditKey is a key of a secret.
func NewAuditKey(secret []byte) AuditKey { return AuditKey{secret: secret} }

// auditKeyIDSize is how many characters of its hash name a key.
const auditKeyIDSize = 16

// ID names the key without giving it away; "" for the zero value.
func (k AuditKey) ID() string {
	if len(k.secret) == 0 {
		return ""
	}
	return k.sum("aqueduct audit key id")[:auditKeyIDSize]
}

// MAC is the AuditEntry.MAC of an entry with the hash.
func (k AuditKey) MAC(hash string) string {
	if len(k.secret) == 0 {
		return ""
	}
	return k.ID() + ":" + k.sum("aqueduct audit mac "+hash)
}

// String keeps the secret out of formatted text.
func (k AuditKey) String() string { return "[audit key " + k.ID() + "]" }

// GoString keeps the secret out of %#v.
func (k AuditKey) GoString() string { return k.String() }

func (k AuditKey) sum(text string) string {
	mac := hmac.New(sha256.New, k.secret)
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// AuditReader reads the audit.
type AuditReader interface {
	// Audit lists what comes after the position, oldest first. A user's Scope sees what that
	// user did; Within sees a tenant's.
	Audit(ctx context.Context, in Scope, afterSeq int64, limit int) ([]AuditEntry, error)
	// AuditHead is the last entry, ErrNotFound when there is none. Only a Scope that sees everything sees it.
	AuditHead(ctx context.Context, in Scope) (AuditEntry, error)
	// AuditKeyBegun is the entry about a key (SubjectAuditKey) with which its use began.
	AuditKeyBegun(ctx context.Context, in Scope, keyID string) (AuditEntry, error)
	// PolicyChanged is the last entry about the policy (SubjectPolicy), ErrNotFound when there is none. Only a Scope that sees
	// everything sees it.
	PolicyChanged(ctx context.Context, in Scope) (AuditEntry, error)
}

// SubjectAuditKey is the SubjectType of entries about an AuditKey.
const SubjectAuditKey = "audit_key"

// SubjectPolicy is the SubjectType of entries about the policy in force.
const SubjectPolicy = "policy"

// AuditTx writes it.
type AuditTx interface {
	// AppendAudit gives the entry its Seq and hashes, and returns it as it is kept. It holds
	// up every other transaction that appends until this one ends, so it comes last.
	AppendAudit(ctx context.Context, e AuditEntry) (AuditEntry, error)
}
