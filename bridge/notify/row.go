package notify

import (
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"aqueduct/bridge/inbox"
	"aqueduct/bridge/notify/link"
	"aqueduct/store"
)

// kindQuestion is the outbox's kind of our own rows. Their Target is a target's name.
const kindQuestion = "question"

// kept is a row's payload: the message, and whom a link in it is for.
type kept struct {
	Message  Message `json:"message"`
	Tenant   string  `json:"tenant,omitempty"`
	Approver string  `json:"approver,omitempty"`
	TurnID   string  `json:"turn_id,omitempty"` // whose trace a delivery is part of
}

// Rows is what is to be told about a Question as it now stands: that it opened, was settled
// or expired. Whoever changed it writes them in the same commit, by store.InsertOutbox or
// Tx.InsertOutbox, and Kicks afterwards. Tool calls for a client concern no person: none.
func (n *Notifier) Rows(q inbox.Question, s store.Session) []store.OutboxItem {
	if n == nil || q.Approval.ID == "" {
		return nil
	}
	now := n.cfg.Now()
	k := kept{Message: messageOf(q, s), Tenant: s.Tenant, Approver: approverOf(q.Approval, s, now), TurnID: q.Approval.TurnID}
	payload, err := json.Marshal(k)
	if err != nil {
		panic(err) // strings and times
	}
	var rows []store.OutboxItem
	for _, t := range n.cfg.Targets {
		if t.wants(k.Message, s.Tenant) {
			rows = append(rows, store.OutboxItem{
				ID: uuid.Must(uuid.NewV7()).String(), SessionID: s.ID, Kind: kindQuestion, Target: t.Name, Payload: payload, CreatedAt: now, NextAt: now,
			})
		}
	}
	return rows
}

var errNoTarget = errors.New("no such target any more")

// address makes the Letter of a row of ours. The link is signed anew each time, and is the
// same each time.
func (n *Notifier) address(i store.OutboxItem) (Letter, error) {
	t, ok := n.targets[i.Target]
	if !ok {
		return Letter{}, errNoTarget
	}
	var k kept
	if err := json.Unmarshal(i.Payload, &k); err != nil {
		return Letter{}, errors.New("the row cannot be read")
	}
	k.Message.Link = n.link(i, k)
	body, err := json.Marshal(k.Message)
	return Letter{URL: t.URL, Secret: t.Secret, Body: body, TurnID: k.TurnID}, err
}

func (n *Notifier) link(i store.OutboxItem, k kept) string {
	m := k.Message
	if n.cfg.Links == nil || k.Approver == "" || k.Tenant == "" || m.ExpiresAt == nil || !n.cfg.Now().Before(*m.ExpiresAt) {
		return ""
	}
	return n.cfg.BaseURL + "/decide/" + n.cfg.Links.Token(link.Claims{
		ApprovalID: m.ID, Tenant: k.Tenant, User: k.Approver, ArgsSHA256: m.ArgsSHA256, Expires: m.ExpiresAt.Unix(),
		Nonce: n.cfg.Links.Nonce(i.ID),
	})
}
