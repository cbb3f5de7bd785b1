package notify

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// kindQuestion is the outbox's kind of our own rows. Their Target is a target's name.
const kindQuestion = "question"

// kept is a row's payload: the message, and whom a link in it is for.
type kept struct {
	Message  Message `json:"message"` // without a link, which is made when it is sent
	Tenant   string  `json:"tenant,omitempty"`
	Approver string  `json:"approver,omitempty"`
	TurnID   string  `json:"turn_id,omitempty"` // whose trace a delivery is part of
}

// Rows are the notices about a Question in its present state: opened, settled or expired. The commit that changes the
// Question writes them (store.InsertOutbox or Tx.InsertOutbox), and Kick follows it. A client tool call has none: it is
// not put to a person.
func (n *Notifier) Rows(q approval.Question, s store.Session) []store.OutboxItem {
	if n == nil || q.Approval.ID == "" {
		return nil
	}
	now := n.cfg.Now()
	k := kept{Message: messageOf(q, s), Tenant: s.Tenant, Approver: approverOf(q.Approval, s, now), TurnID: q.Approval.TurnID}
	return n.rowsOf(store.OutboxItem{SessionID: s.ID, Kind: kindQuestion, CreatedAt: now, NextAt: now}, k,
		func(t Target) bool { return t.wants(k.Message, s.Tenant) })
}

// rowsOf are copies of a row with a payload, one for each target that wants it.
func (n *Notifier) rowsOf(row store.OutboxItem, payload any, wanted func(Target) bool) (rows []store.OutboxItem) {
	var err error
	if row.Payload, err = json.Marshal(payload); err != nil {
		panic(err) // strings and times
	}
	for _, t := range n.cfg.Targets {
		if wanted(t) {
			row.ID, row.Target = uuid.Must(uuid.NewV7()).String(), t.Name
			rows = append(rows, row)
		}
	}
	return rows
}

// deliveryOf is where a row's message goes, without a body yet; the message is read into payload. A target that the
// configuration no longer has ends the delivery: its secret is gone too.
func (n *Notifier) deliveryOf(i store.OutboxItem, payload any) (Delivery, error) {
	t, ok := n.targets[i.Target]
	if !ok {
		return Delivery{}, errNoTarget
	}
	if json.Unmarshal(i.Payload, payload) != nil {
		return Delivery{}, errors.New("the row cannot be read")
	}
	return Delivery{URL: t.URL, Secret: t.Secret}, nil
}

var errNoTarget = errors.New("no such target any more")

// address makes the Delivery of a row of ours. The link is signed anew each time, and is the
// same each time.
func (n *Notifier) address(i store.OutboxItem) (Delivery, error) {
	var k kept
	delivery, err := n.deliveryOf(i, &k)
	if err == nil {
		k.Message.Link, delivery.TurnID = n.link(i, k), k.TurnID
		delivery.Body, err = json.Marshal(k.Message)
	}
	return delivery, err
}

// link is the link to the decision, "" where the message has none: where no one click can decide, and once the Question
// has expired. It is bound to the arguments' hash, so it decides about nothing that the approver was not shown.
func (n *Notifier) link(i store.OutboxItem, k kept) string {
	m := k.Message
	if n.cfg.Link == nil || k.Approver == "" || k.Tenant == "" || m.ExpiresAt == nil || !n.cfg.Now().Before(*m.ExpiresAt) {
		return ""
	}
	return n.cfg.BaseURL + "/decide/" + n.cfg.Link(Link{
		RowID: i.ID, ApprovalID: m.ID, Tenant: k.Tenant, User: k.Approver, ArgsSHA256: m.ArgsSHA256, ExpiresAt: *m.ExpiresAt,
	})
}

// AuditHead is the type of the message with the newest hash of the audit's chain.
const AuditHead = "audit.head"

// kindHead is the outbox's kind of these messages. Their Target is a target's name.
const kindHead = "audit_head"

// headMessage is the body of a notice about the audit's head. A target that keeps it can show later that no entries were
// cut off the end of the chain.
type headMessage struct {
	Type      string    `json:"type"`
	Seq       int64     `json:"seq"`
	Hash      string    `json:"hash"`
	CreatedAt time.Time `json:"created_at"`
}

// HeadRows are the outbox rows that notify targets of the head of the audit's chain. A target gets them only if it names
// the type (a target without types wants Questions) and is of no single tenant: the chain is the installation's.
func (n *Notifier) HeadRows(seq int64, hash string, now time.Time) []store.OutboxItem {
	if n == nil {
		return nil
	}
	return n.rowsOf(store.OutboxItem{Kind: kindHead, CreatedAt: now, NextAt: now}, headMessage{AuditHead, seq, hash, now.UTC()},
		func(t Target) bool { return t.Tenant == "" && slices.Contains(t.Types, AuditHead) })
}

// headDelivery makes the Delivery of a row of HeadRows. It belongs to no Turn, so it is part of no trace.
func (n *Notifier) headDelivery(i store.OutboxItem) (Delivery, error) {
	var m headMessage
	delivery, err := n.deliveryOf(i, &m)
	if err == nil {
		delivery.Body, err = json.Marshal(m)
	}
	return delivery, err
}

// PolicyChanged is the type of the message that another policy is in force.
const PolicyChanged = "policy.changed"

// kindPolicy is the outbox's kind of these messages. Their Target is a target's name.
const kindPolicy = "policy"

// policyMessage is the body of a notice that another policy is in force. "" as a hash is the default, without a file.
type policyMessage struct {
	Type      string    `json:"type"`
	Before    string    `json:"before_sha256"`
	After     string    `json:"after_sha256"`
	CreatedAt time.Time `json:"created_at"`
}

// PolicyRows are the outbox rows that notify targets of another policy: those that name the type, and those of all tenants that
// name none, because a change of the rules may change the approvers.
func (n *Notifier) PolicyRows(before, after string, at time.Time) []store.OutboxItem {
	if n == nil {
		return nil
	}
	return n.rowsOf(store.OutboxItem{Kind: kindPolicy, CreatedAt: at, NextAt: at}, policyMessage{PolicyChanged, before, after, at.UTC()},
		func(t Target) bool {
			return slices.Contains(t.Types, PolicyChanged) || len(t.Types) == 0 && t.Tenant == ""
		})
}

// policyDelivery makes the Delivery of a row of PolicyRows. It belongs to no Turn, so it is part of no trace.
func (n *Notifier) policyDelivery(i store.OutboxItem) (Delivery, error) {
	var m policyMessage
	delivery, err := n.deliveryOf(i, &m)
	if err == nil {
		delivery.Body, err = json.Marshal(m)
	}
	return delivery, err
}
