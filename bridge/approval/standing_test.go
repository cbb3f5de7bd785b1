package approval_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/approval/audit"
	"aqueduct/internal/fault"
	"aqueduct/policy"
	"aqueduct/store"
)

// newStanding is a Service over the rows of a bench, with templates of a policy.
func newStanding(t *testing.T, change func(*bench)) (*bench, *approval.Service) {
	t.Helper()
	b := newBench(t, change)
	rules, err := policy.Parse([]byte(`
rules: [{name: ask, kind: execute, verdict: ask}]
templates:
  tests:
    ttl: 1h
    grants:
      - {tool: [go, make], match: {"*": true}, uses: 3}
`))
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	return b, approval.New(approval.Config{
		Store: b.store, Replica: "here", Audit: audit.NewLog(b.store, logger, nil), Policy: policy.NewHolder(rules), Ring: func(...string) {},
		NewID: uuid.NewString, Logger: logger,
	})
}

var approver = store.Principal{Tenant: "acme", User: "boss", Roles: []string{store.RoleApprover}}

// TestGiveGrants: a grant is as wide as its request, and no wider than its giver may give. One that is wider lets calls of
// others through.
func TestGiveGrants(t *testing.T) {
	t.Parallel()
	anything := []byte(`{"*":true}`)
	for name, c := range map[string]struct {
		who  store.Principal
		req  approval.GrantRequest
		code string
		rows int
		want func(store.Grant) bool
	}{
		"one's own": {ada, approval.GrantRequest{Tool: "go", Match: anything}, "", 1, func(g store.Grant) bool {
			return g.User == "ada" && g.Tenant == "acme" && g.SessionID == "" && g.CreatedBy == "ada" && time.Until(g.ExpiresAt) > 29*24*time.Hour && g.MaxUses == 0
		}},
		"with an end":             {ada, approval.GrantRequest{Tool: "go", Match: anything, TTL: time.Minute}, "", 1, func(g store.Grant) bool { return time.Until(g.ExpiresAt) <= time.Minute }},
		"with a number of uses":   {ada, approval.GrantRequest{Tool: "go", Match: anything, MaxUses: 2}, "", 1, func(g store.Grant) bool { return g.MaxUses == 2 }},
		"for one thread":          {ada, approval.GrantRequest{Tool: "go", Match: anything, Session: "T"}, "", 1, func(g store.Grant) bool { return g.SessionID != "" }},
		"for an agent":            {ada, approval.GrantRequest{Tool: "go", Match: anything, AgentID: "a"}, "", 1, func(g store.Grant) bool { return g.AgentID == "a" }},
		"for another user":        {ada, approval.GrantRequest{Tool: "go", Match: anything, User: "bob"}, approval.NotApprover, 0, nil},
		"for everyone":            {ada, approval.GrantRequest{Tool: "go", Match: anything, Everyone: true}, approval.NotApprover, 0, nil},
		"by an approver":          {approver, approval.GrantRequest{Tool: "go", Match: anything, User: "bob"}, "", 1, func(g store.Grant) bool { return g.User == "bob" && g.CreatedBy == "boss" }},
		"for everyone by one":     {approver, approval.GrantRequest{Tool: "go", Match: anything, Everyone: true}, "", 1, func(g store.Grant) bool { return g.User == "" }},
		"for everyone and a user": {approver, approval.GrantRequest{Tool: "go", Match: anything, Everyone: true, User: "bob"}, approval.InvalidAnswer, 0, nil},
		"without a tool":          {ada, approval.GrantRequest{Match: anything}, approval.InvalidAnswer, 0, nil},
		"without a match":         {ada, approval.GrantRequest{Tool: "go"}, approval.InvalidAnswer, 0, nil},
		"a template": {ada, approval.GrantRequest{Template: "tests"}, "", 2, func(g store.Grant) bool {
			return g.MaxUses == 3 && g.Template == "tests" && time.Until(g.ExpiresAt) <= time.Hour
		}},
		"a template, fewer uses":   {ada, approval.GrantRequest{Template: "tests", MaxUses: 1}, "", 2, func(g store.Grant) bool { return g.MaxUses == 1 }},
		"a template, more uses":    {ada, approval.GrantRequest{Template: "tests", MaxUses: 9}, "", 2, func(g store.Grant) bool { return g.MaxUses == 3 }},
		"an unknown template":      {ada, approval.GrantRequest{Template: "all"}, approval.InvalidAnswer, 0, nil},
		"a template and a tool":    {ada, approval.GrantRequest{Template: "tests", Tool: "rm"}, approval.InvalidAnswer, 0, nil},
		"a template and a match":   {ada, approval.GrantRequest{Template: "tests", Match: anything}, approval.InvalidAnswer, 0, nil},
		"a template and no match":  {ada, approval.GrantRequest{Template: "tests", Match: []byte("null")}, "", 2, nil},
		"a thread of someone else": {store.Principal{Tenant: "acme", User: "eve"}, approval.GrantRequest{Tool: "go", Match: anything, Session: "T"}, "not found", 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, s := newStanding(t, nil)
			rows, err := s.Grants.Give(t.Context(), c.who, c.req)
			code := fault.CodeOf(err)
			if errors.Is(err, store.ErrNotFound) {
				code = "not found"
			}
			if code != c.code || len(rows) != c.rows {
				t.Fatalf("%d grants, %v; want %d and %q", len(rows), err, c.rows, c.code)
			}
			kept, err := b.store.Grants(t.Context(), store.System(), store.Page{})
			if err != nil || len(kept) != c.rows || len(b.audits()) != c.rows {
				t.Errorf("%d are kept, %v, and %v audited", len(kept), err, b.audits())
			}
			for _, g := range kept {
				if c.want != nil && !c.want(g) {
					t.Errorf("kept %+v", g)
				}
			}
		})
	}
}

// TestRevokeGrant: a grant ends by its user, or an approver, and once.
func TestRevokeGrant(t *testing.T) {
	t.Parallel()
	_, s := newStanding(t, nil)
	rows, err := s.Grants.Give(t.Context(), ada, approval.GrantRequest{Tool: "go", Match: []byte(`{"*":true}`)})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		who  store.Principal
		want error
	}{
		{store.Principal{Tenant: "acme", User: "eve"}, store.ErrNotFound}, {store.Principal{Tenant: "evil", User: "ada"}, store.ErrNotFound},
		{approver, nil}, {ada, store.ErrNotFound},
	} {
		if err := s.Grants.Revoke(t.Context(), step.who, rows[0].ID); !errors.Is(err, step.want) {
			t.Errorf("%+v: %v, want %v", step.who, err, step.want)
		}
	}
}

// TestGiveDelegations: a delegation is to another user, from now on, and for a year at most.
func TestGiveDelegations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		req  approval.DelegationRequest
		code string
	}{
		"to another":       {approval.DelegationRequest{To: "bob"}, ""},
		"to oneself":       {approval.DelegationRequest{To: "ada"}, approval.InvalidAnswer},
		"until yesterday":  {approval.DelegationRequest{To: "bob", Until: time.Now().Add(-time.Hour)}, approval.InvalidAnswer},
		"for a year":       {approval.DelegationRequest{To: "bob", Until: time.Now().Add(365 * 24 * time.Hour)}, ""},
		"for two years":    {approval.DelegationRequest{To: "bob", Until: time.Now().Add(2 * 365 * 24 * time.Hour)}, approval.InvalidAnswer},
		"of another tool":  {approval.DelegationRequest{To: "bob", Tool: "cut"}, ""},
		"of another agent": {approval.DelegationRequest{To: "bob", AgentID: "b"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, s := newStanding(t, nil)
			row, err := s.Delegations.Give(t.Context(), ada, c.req)
			if fault.CodeOf(err) != c.code {
				t.Fatalf("%v, want %q", err, c.code)
			}
			// What it covers, the delegate may decide; what it does not, the delegate does not find.
			_, err = s.Decide(t.Context(), store.Principal{Tenant: "acme", User: "bob"}, b.call.ID, approval.Answer{Payload: []byte(sayYes)}, approval.ViaREST)
			if covers := c.code == "" && c.req.Tool == "" && c.req.AgentID == ""; covers != (err == nil) || !covers && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("bob decides: %v", err)
			}
			if c.code == "" && (row.Wide || row.ExpiresAt.Before(time.Now())) {
				t.Errorf("kept %+v", row)
			}
		})
	}
}

// TestRevokeDelegation: it ends by its giver, or an approver, and once. Its delegate has no say in that.
func TestRevokeDelegation(t *testing.T) {
	t.Parallel()
	b, s := newStanding(t, nil)
	row, err := s.Delegations.Give(t.Context(), ada, approval.DelegationRequest{To: "bob"})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		who  store.Principal
		want error
	}{{store.Principal{Tenant: "acme", User: "eve"}, store.ErrNotFound}, {bob, store.ErrNotFound}, {ada, nil}, {ada, store.ErrNotFound}} {
		if err := s.Delegations.Revoke(t.Context(), step.who, row.ID); !errors.Is(err, step.want) {
			t.Errorf("%+v: %v, want %v", step.who, err, step.want)
		}
	}
	if _, err := s.Decide(t.Context(), bob, b.call.ID, approval.Answer{Payload: []byte(sayYes)}, approval.ViaREST); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("bob decides after it: %v", err)
	}
}

// TestPassOn: who decides only because it was handed over may not hand it on, or a question would wander out of sight.
func TestPassOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*bench)
		who    store.Principal
		code   string
	}{
		"the thread's user": {nil, ada, ""},
		"an approver":       {nil, approver, ""},
		"a delegate":        {func(b *bench) { b.asked.DelegatedTo, b.asked.DelegatedBy = "bob", "ada" }, bob, approval.NotApprover},
		"who is named":      {func(b *bench) { b.asked.Approvers = []byte(`["user:bob"]`) }, bob, ""},
		"one of a role":     {func(b *bench) { b.asked.Approvers = []byte(`["role:ops"]`) }, store.Principal{Tenant: "acme", User: "bob", Roles: []string{"ops"}}, ""},
		"who prompted": {func(b *bench) {
			b.session.User, b.asked.AskedUser, b.asked.Approvers = "eve", "bob", []byte(`["user:bob"]`)
		}, bob, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, s := newStanding(t, c.change)
			_, err := s.Delegations.Delegate(t.Context(), c.who, b.call.ID, "cyd", time.Time{})
			if fault.CodeOf(err) != c.code || err != nil && c.code == "" {
				t.Fatalf("%v, want %q", err, c.code)
			}
			_, err = s.Decide(t.Context(), store.Principal{Tenant: "acme", User: "cyd"}, b.call.ID, approval.Answer{Payload: []byte(sayNo)}, approval.ViaREST)
			if (err == nil) != (c.code == "") {
				t.Errorf("cyd decides: %v", err)
			}
		})
	}
}

// TestWords: the platform contract's words decide what they say, and contradictions decide nothing.
func TestWords(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for name, c := range map[string]struct {
		input bool
		words approval.Words
		want  string // the status, or the code of the refusal
	}{
		"approve":                       {false, approval.Words{Decision: "approve"}, "APPROVED"},
		"reject":                        {false, approval.Words{Decision: "reject"}, "REJECTED"},
		"cancel":                        {false, approval.Words{Decision: "cancel"}, "CANCELLED"},
		"approved":                      {false, approval.Words{Approved: &yes}, "APPROVED"},
		"not approved":                  {false, approval.Words{Approved: &no}, "REJECTED"},
		"an option":                     {false, approval.Words{OptionID: "no"}, "REJECTED"},
		"approve and not":               {false, approval.Words{Decision: "approve", Approved: &no}, approval.InvalidAnswer},
		"approve twice":                 {false, approval.Words{Decision: "approve", Approved: &yes}, "APPROVED"},
		"a payload":                     {false, approval.Words{Payload: []byte(`{"optionId":"yes"}`)}, "APPROVED"},
		"a payload and a word":          {false, approval.Words{Payload: []byte(`{"optionId":"yes"}`), Decision: "approve"}, approval.InvalidAnswer},
		"a payload and an option":       {false, approval.Words{Payload: []byte(`{"optionId":"yes"}`), OptionID: "yes"}, approval.InvalidAnswer},
		"a payload and other arguments": {false, approval.Words{Payload: []byte(`{"optionId":"yes"}`), Edited: []byte(`{}`)}, approval.InvalidAnswer},
		"a null payload":                {false, approval.Words{Payload: []byte(`null`), Decision: "reject"}, "REJECTED"},
		"an input's value":              {true, approval.Words{Payload: []byte(`"blue"`)}, "APPROVED"},
		"an input, approved":            {true, approval.Words{Decision: "approve"}, approval.InvalidAnswer},
		"an input, rejected":            {true, approval.Words{Decision: "reject"}, "CANCELLED"},
		"an input, cancelled":           {true, approval.Words{Decision: "cancel"}, "CANCELLED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, s := newStanding(t, func(b *bench) {
				if c.input {
					b.asked.Kind, b.asked.Options = store.ApprovalInput, nil
				}
			})
			settled, err := s.DecideInWords(t.Context(), ada, b.call.ID, c.words, approval.ViaREST)
			got := fault.CodeOf(err)
			if err == nil {
				got = string(settled.Question.Approval.Status)
			}
			if got != c.want {
				t.Errorf("%s, %v; want %s", got, err, c.want)
			}
		})
	}
}

// TestDeliveredAlways: an "always" stays a grant of ours where the agent also offers once: what an agent remembers by
// itself, no person can revoke.
func TestDeliveredAlways(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]string{
		`[{"id":"once","kind":"allow_once"},{"id":"ever","kind":"allow_always"}]`:                  "once",
		`[{"id":"ever","kind":"allow_always"}]`:                                                    "ever",
		`[{"id":"once","kind":"allow_once"},{"id":"ever","kind":"allow_always","always":"agent"}]`: "ever",
	} {
		q := asked(options)
		d, err := approval.OptionIDs{}.Read(t.Context(), q, approval.Answer{Payload: []byte(`{"optionId":"ever"}`)})
		if err != nil {
			t.Fatal(err)
		}
		q.Approval.Status, q.Approval.Decision = d.Status, mustMarshal(t, map[string]any{"status": d.ResumeStatus(), "payload": d.Payload})
		status, payload := approval.DeliveryOf(q)
		if status != "resolved" || !strings.Contains(string(payload), `"optionId":"`+want+`"`) {
			t.Errorf("%s: the agent gets %s %s, want %s", options, status, payload, want)
		}
		if got := approval.ChosenOption(q); got != "ever" {
			t.Errorf("%s: chosen was %s", options, got)
		}
	}
}

func mustMarshal(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
