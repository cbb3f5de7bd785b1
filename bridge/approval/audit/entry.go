package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"aqueduct/store"
)

// The actions of entries. They are kept for ever and are part of what is hashed, so a name is never changed or given to
// something else; rows.go reads the ones of Approvals and Grants back.
const (
	ApprovalDecided   = "approval.decided"
	ApprovalRevoked   = "approval.revoked" // a decision, before it took effect
	ApprovalExpired   = "approval.expired"
	ApprovalCancelled = "approval.cancelled" // with its Turn, by its Agent, or because that is gone
	ApprovalDelegated = "approval.delegated"
	ApprovalProposed  = "approval.edit_proposed"
	// ApprovalChanged: the agent asked under the same id for something else.
	ApprovalChanged   = "approval.arguments_changed"
	ApprovalRefused   = "approval.refused" // a decision of a person who may not make it
	GrantCreated      = "grant.created"
	GrantUsed         = "grant.used"
	GrantRevoked      = "grant.revoked"
	DelegationCreated = "delegation.created" // a standing one
	DelegationRevoked = "delegation.revoked"
	ToolCallSettled   = "tool_call.settled" // one whose outcome was unknown
	ToolRegistered    = "tool.registered"
	ToolRemoved       = "tool.removed"
	ToolChanged       = "tool.changed"     // an MCP server states a tool that no one has confirmed
	ToolConfirmed     = "tool.confirmed"   // by the approval of a call
	AgentRegistered   = "agent.registered" // or got another endpoint
	AgentRemoved      = "agent.removed"
	AgentRefused      = "agent.refused"      // a registration under an id that is another's
	AgentCallRefused  = "agent.call_refused" // of an agent by another, by the policy
	ThreadControlled  = "thread.controlled"  // mode, config and the like of a thread's agent
	SignedIn          = "session.started"
	SignedOut         = "session.ended"
	SignInRefused     = "session.refused"
	TokenIssued       = "token.issued"
	TokenRevoked      = "token.revoked"
	AccessRefused     = "access.refused" // a request without a credential, or of one without the right
	KeyBegun          = "audit.key_begun"
	PolicyChanged     = "policy.changed" // another policy came in force, or is found in force at a start
	ShareCreated      = "share.created"  // or its rights changed
	ShareRemoved      = "share.removed"

	ProxyControlled      = "proxy.controlled" // what its agents run in was changed, or asked to be
	ProxyRemoved         = "proxy.removed"
	ProxyRefused         = "proxy.refused" // an attempt at one of these that was refused, or failed
	ProxyRegistered      = "proxy.registered"
	ProxyRegisterRefused = "proxy.register_refused"
)

// Subject is what it was done to.
type Subject struct{ Type, ID string }

// OfApproval is an Approval as a Subject.
func OfApproval(id string) Subject { return Subject{"approval", id} }

// OfTool is a registered tool as a Subject.
func OfTool(name string) Subject { return Subject{"tool", name} }

// OfAgent is an agent of the directory as a Subject.
func OfAgent(id string) Subject { return Subject{"agent", id} }

// OfProxy is an acp-proxy as a Subject.
func OfProxy(id string) Subject { return Subject{"proxy", id} }

// OfGrant is a Grant as a Subject.
func OfGrant(id string) Subject { return Subject{"grant", id} }

// OfThread is a thread as a Subject, by our id of its Session.
func OfThread(sessionID string) Subject { return Subject{"thread", sessionID} }

// OfUser is a user of the tenant as a Subject.
func OfUser(user string) Subject { return Subject{"user", user} }

// OfDelegation is a standing Delegation as a Subject.
func OfDelegation(id string) Subject { return Subject{"delegation", id} }

// OfToken is a token as a Subject, by its public id, never by itself.
func OfToken(id string) Subject { return Subject{"token", id} }

// OfRoute is a route as a Subject, as "POST /api/tools/:name".
func OfRoute(route string) Subject { return Subject{"route", route} }

// Append writes one action in a transaction, with the address that ctx has (WithRemote). It holds up every other
// transaction that appends, so it comes last in one.
func Append(ctx context.Context, tx store.AuditTx, who store.Principal, action string, of Subject, details any) error {
	return AppendAt(ctx, tx, who, action, of, details, time.Now())
}

// AppendAt is Append with a time that rows of the same transaction have too.
func AppendAt(ctx context.Context, tx store.AuditTx, who store.Principal, action string, of Subject, details any, now time.Time) error {
	e, err := Entry(who, action, of, details, now)
	if err != nil {
		return err
	}
	if who.User != system {
		e.Remote = Remote(ctx)
	}
	_, err = tx.AppendAudit(ctx, e)
	return err
}

// Entry is one action, for AppendAudit. details is encoded as JSON; nil for none. It is kept
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

// AllTenants stands for the tenant of what holds for the whole installation: the operator's own files and settings.
const AllTenants = "*"

// Nobody is the actor of what no person did: an expiry, a recovery.
func Nobody(tenant string) store.Principal { return store.Principal{Tenant: tenant, User: system} }

// Actors that are no user. A token for a user named system is refused (server/auth).
const (
	system  = "system"
	unknown = "unknown"
)

// Unknown is who showed no credential that is good. The entry has the address.
func Unknown() store.Principal { return store.Principal{User: unknown} }

// VisibleTo is the Scope of the entries that a Principal may read: those of its tenant for admins and auditors, else its
// own.
func VisibleTo(who store.Principal) store.Scope {
	if who.Has(store.RoleAdmin) || who.Has(store.RoleAuditor) {
		return store.Within(who.Tenant)
	}
	return store.As(who)
}
