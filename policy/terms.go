package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Terms are how a person has to be asked. The zero Terms ask nothing special.
type Terms struct {
	TTL       time.Duration `yaml:"ttl" json:"ttl,omitempty"` // 0: the default
	Approvers Approvers     `yaml:"approvers" json:"approvers,omitempty"`
	FourEyes  bool          `yaml:"four_eyes" json:"four_eyes,omitempty"` // who prompted may not approve
	// MayEdit lets an approver change the arguments. If a rule does not name it, it is nil: an agent that runs the call
	// itself may offer changes, and any other call must not be changed.
	MayEdit *bool       `yaml:"may_edit" json:"may_edit,omitempty"`
	Always  AlwaysLimit `yaml:"always" json:"always,omitempty"` // how wide a standing answer may be given by a button; with none no grant counts
	// GrantTTL caps how long a standing answer counts after it was given; 0: as long as it holds.
	GrantTTL time.Duration `yaml:"grant_ttl" json:"grant_ttl,omitempty"`
}

// Approvers are who may answer, in the tenant of the call, each "role:NAME" or "user:NAME".
// None named: anybody who sees it.
type Approvers []string

// Why a user may not answer.
var (
	ErrOtherTenant = errors.New("policy: it is another tenant's")
	ErrFourEyes    = errors.New("policy: who prompted may not approve")
	ErrNotApprover = errors.New("policy: another role is needed to approve")
)

// MayApprove returns why by may not approve what the agent of prompter asks; nil when it may.
// To reject is less: who prompted may always take it back.
// The tenant is compared first, so that no rule of one tenant ever lets another's user decide.
func (t Terms) MayApprove(by, prompter Principal) error {
	switch {
	case by.Tenant != prompter.Tenant:
		return ErrOtherTenant
	case t.FourEyes && (by.User == "" || by.same(prompter)):
		return ErrFourEyes
	case !t.Approvers.include(by):
		return ErrNotApprover
	}
	return nil
}

// special reports whether not everybody may approve.
func (t Terms) special() bool { return t.FourEyes || len(t.Approvers) > 0 }

// include reports whether the Principal is named, by its name or by one of its roles.
func (a Approvers) include(p Principal) bool {
	if len(a) == 0 || p.User != "" && slices.Contains(a, "user:"+p.User) {
		return true
	}
	return slices.ContainsFunc(p.Roles, func(role string) bool { return slices.Contains(a, "role:"+role) })
}

// Check refuses what is neither a role nor a user.
func (a Approvers) Check() error {
	for _, one := range a {
		kind, name, _ := strings.Cut(one, ":")
		if name == "" || kind != "role" && kind != "user" {
			return fmt.Errorf("unknown approver %q; it is role:NAME or user:NAME", one)
		}
	}
	return nil
}

// AllowsEdit reports whether the Terms allow changes of the arguments.
func (t Terms) AllowsEdit() bool { return t.MayEdit != nil && *t.MayEdit }

// ForbidsEdit reports whether the Terms forbid changes of the arguments, whatever the agent offers.
func (t Terms) ForbidsEdit() bool { return t.MayEdit != nil && !*t.MayEdit }

// given reports whether any member is set, which has a meaning for the verdict Ask only.
func (t Terms) given() bool {
	return t.TTL != 0 || t.special() || t.AllowsEdit() || t.Always != "" || t.GrantTTL != 0
}

// check is of Terms from any source: a rule, a tool's registration, a template.
func (t Terms) check() error {
	switch t.Always {
	case "", LimitNone, LimitExact, LimitWide:
	default:
		return fmt.Errorf("unknown always %q; it is none, exact or wide", t.Always)
	}
	if t.TTL != 0 && t.TTL < time.Second {
		return errors.New("a ttl is at least 1s, as in 10m")
	}
	if t.GrantTTL != 0 && t.GrantTTL < time.Second {
		return errors.New("a grant_ttl is at least 1s, as in 8h; always: none forbids standing answers")
	}
	return t.Approvers.Check()
}
