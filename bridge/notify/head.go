package notify

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"aqueduct/store"
)

// AuditHead is the type of the message that tells where the audit's chain ends.
const AuditHead = "audit.head"

// kindHead is the outbox's kind of these messages. Their Target is a target's name.
const kindHead = "audit_head"

// headMessage is what a target is told. Kept there, it shows later that nothing was cut off.
type headMessage struct {
	Type      string    `json:"type"`
	Seq       int64     `json:"seq"`
	Hash      string    `json:"hash"`
	CreatedAt time.Time `json:"created_at"`
}

// HeadRows tells the targets that name the type where the audit's chain ends; those without types want Questions. Targets
// of one tenant are not told: the chain is the installation's.
func (n *Notifier) HeadRows(seq int64, hash string, now time.Time) []store.OutboxItem {
	if n == nil {
		return nil
	}
	payload, err := json.Marshal(headMessage{AuditHead, seq, hash, now.UTC()})
	if err != nil {
		panic(err) // texts and a time
	}
	var rows []store.OutboxItem
	for _, t := range n.cfg.Targets {
		if t.Tenant == "" && slices.Contains(t.Types, AuditHead) {
			rows = append(rows, store.OutboxItem{
				ID: uuid.Must(uuid.NewV7()).String(), Kind: kindHead, Target: t.Name, Payload: payload, CreatedAt: now, NextAt: now,
			})
		}
	}
	return rows
}

func (n *Notifier) headLetter(i store.OutboxItem) (Letter, error) {
	t, ok := n.targets[i.Target]
	if !ok {
		return Letter{}, errNoTarget
	}
	var m headMessage
	if json.Unmarshal(i.Payload, &m) != nil {
		return Letter{}, errors.New("the row cannot be read")
	}
	body, err := json.Marshal(m)
	return Letter{URL: t.URL, Secret: t.Secret, Body: body}, err
}
