package approval

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"aqueduct/internal/fault"
	"aqueduct/policy"
	"aqueduct/store"
)

// TermsOf are how a Question has to be asked, as the policy wanted it.
func TermsOf(a store.Approval) policy.Terms {
	t := policy.Terms{FourEyes: a.FourEyes, MayEdit: &a.MayEdit}
	_ = json.Unmarshal(a.Approvers, &t.Approvers) // of our own writing, or none
	return t
}

// SetTerms puts them on an Approval that is about to be asked.
func SetTerms(a *store.Approval, t policy.Terms, asked string) {
	a.FourEyes, a.MayEdit, a.AskedUser = t.FourEyes, t.AllowsEdit(), asked
	if len(t.Approvers) > 0 {
		a.Approvers = mustJSON(t.Approvers)
	}
}

// MayDecide is why a person may not make a Decision; nil when it may. To reject is less
// than to approve: every person who sees the Question may.
func MayDecide(q Question, d Decision, who store.Principal) error {
	if d.Status != store.ApprovalApproved || q.Approval.ID == "" {
		return nil
	}
	prompter := policy.Principal{Tenant: who.Tenant, User: q.Approval.AskedUser}
	switch err := TermsOf(q.Approval).MayApprove(policy.Principal(who), prompter); {
	case err == nil:
		return nil
	case errors.Is(err, policy.ErrFourEyes):
		return fault.New(FourEyes, "Who prompted the agent may not approve this; somebody else has to.")
	}
	return fault.New(NotApprover, "Somebody else has to approve this.")
}

// MayDecideFor is MayDecide with standing Delegations: where only certain approvers may approve,
// a delegate of one of them may as well. Four eyes hold for the delegate and for the giver.
// Only the refusal that a delegate could lift leads to a look at the Delegations. The giver is judged with the roles
// it had when it delegated, because the roles of a person who is not here are in no token.
func MayDecideFor(ctx context.Context, r store.DelegationReader, q Question, d Decision, who store.Principal) error {
	err := MayDecide(q, d, who)
	if fault.CodeOf(err) != NotApprover {
		return err
	}
	given, failed := r.DelegationsOf(ctx, store.System(), q.Approval.ID, who.User)
	if failed != nil {
		return failed
	}
	for _, by := range given {
		if MayDecide(q, d, giverOf(by)) == nil {
			return nil
		}
	}
	return err
}

// giverOf is who gave a Delegation, with the roles that it had then.
func giverOf(d store.Delegation) store.Principal {
	giver := store.Principal{Tenant: d.Tenant, User: d.User}
	var names []string
	_ = json.Unmarshal(d.Holds, &names) // of our own writing, or none
	for _, name := range names {
		if role, ok := strings.CutPrefix(name, "role:"); ok {
			giver.Roles = append(giver.Roles, role)
		}
	}
	return giver
}
