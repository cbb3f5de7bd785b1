package audit

import (
	"encoding/json"
	"fmt"
	"time"

	"aqueduct/store"
)

// What can be done.
const (
	ApprovalDecided   = "approval.decided"
	ApprovalRevoked   = "approval.revoked" // a decision, before it took effect
	ApprovalExpired   = "approval.expired"
	ApprovalCancelled = "approval.cancelled" // with its Turn, by its Agent, or because that is gone
	ApprovalDelegated = "approval.delegated"
	// ApprovalChanged: the agent asked under the same id for something else.
	ApprovalChanged   = "approval.arguments_changed"
	ApprovalRefused   = "approval.refused" // a decision of somebody who may not make it
	GrantCreated      = "grant.created"
	GrantUsed         = "grant.used"
	GrantRevoked      = "grant.revoked"
	DelegationCreated = "delegation.created" // a standing one
	DelegationRevoked = "delegation.revoked"
	ToolCallSettled   = "tool_call.settled" // one whose outcome nobody knew
	ToolRegistered    = "tool.registered"
	ToolRemoved       = "tool.removed"

	ProxyControlled      = "proxy.controlled" // what its agents run in was changed, or asked to be
	ProxyRemoved         = "proxy.removed"
	ProxyRefused         = "proxy.refused" // an attempt at one of these that was refused, or failed
	ProxyRegistered      = "proxy.registered"
	ProxyRegisterRefused = "proxy.register_refused"
	BootstrapIssued      = "bootstrap.issued"
)

// Subject is what it was done to.
type Subject struct{ Type, ID string }

// OfApproval is an Approval as a Subject.
func OfApproval(id string) Subject { return Subject{"approval", id} }

// OfTool is a registered tool as a Subject.
func OfTool(name string) Subject { return Subject{"tool", name} }

// OfProxy is an acp-proxy as a Subject.
func OfProxy(id string) Subject { return Subject{"proxy", id} }

// OfGrant is a Grant as a Subject.
func OfGrant(id string) Subject { return Subject{"grant", id} }

// OfDelegation is a standing Delegation as a Subject.
func OfDelegation(id string) Subject { return Subject{"delegation", id} }

// Entry is one deed, for AppendAudit. details is encoded as JSON; nil for none. It is kept
// for ever and read by many, so it holds hashes of arguments rather than arguments.
func Entry(who store.Principal, action string, of Subject, details any, now time.Time) (store.AuditEntry, error) {
	e := store.AuditEntry{
		Tenant: who.Tenant, TS: now, Actor: who.User, Action: action, SubjectType: of.Type, SubjectID: of.ID,
	}
	if details == nil {
		return e, nil
	}
	var err error
	if e.Payload, err = json.Marshal(details); err != nil {
		return store.AuditEntry{}, fmt.Errorf("audit: %s: %w", action, err)
	}
	return e, nil
}

// Nobody is who does what no person did: an expiry, a recovery.
func Nobody(tenant string) store.Principal { return store.Principal{Tenant: tenant, User: "system"} }
