package notify

import (
	"encoding/json"
	"slices"
	"time"

	"aqueduct/store"
)

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
