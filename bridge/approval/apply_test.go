package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/policy"
	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// rows are one Question with its Session and Turn; a case changes what it needs to.
type rows struct {
	session store.Session
	turn    store.Turn
	call    store.ToolCall
	asked   store.Approval
}

// toolCall makes the Question one about a call that Aqueduct executes.
func (r *rows) toolCall() {
	r.call.Kind, r.call.Name, r.call.ArgsSHA256 = store.KindServer, "cut", "sum"
	r.asked.Tool, r.asked.ArgsSHA256 = "cut", "sum"
}

// calls is what the tool proxy does for a settled call, and what it was asked.
type calls struct {
	verdict policy.Verdict
	revoked bool
	settled []approval.Question
	judged  int
	decided int
}

func (c *calls) Settled(_ context.Context, _ store.Tx, _ store.Session, q approval.Question, _ store.Principal, _ time.Time) error {
	c.settled = append(c.settled, q)
	return nil
}

func (c *calls) Judged(context.Context, store.Reader, store.Session, approval.Question) (policy.Verdict, error) {
	c.judged++
	return c.verdict, nil
}

func (c *calls) Edited(_ context.Context, _ store.Reader, _ store.Session, _ approval.Question, edited json.RawMessage) (json.RawMessage, string, policy.Terms, error) {
	return edited, "edited-sum", policy.Terms{}, nil
}

func (c *calls) Revoke(context.Context, store.Tx, store.ToolCall, time.Time) (bool, error) {
	return c.revoked, nil
}

func (c *calls) Decided(approval.Question) { c.decided++ }

// bench is a Settler with a store, and the rows of one Question in it.
type bench struct {
	rows
	approval.Settler
	t       *testing.T
	store   store.Store
	calls   *calls
	once    []string
	notices int
}

func newBench(t *testing.T, change func(*bench)) *bench {
	t.Helper()
	st, err := sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	now := time.Now()
	id, session, turn := uuid.NewString(), uuid.NewString(), uuid.NewString()
	b := &bench{t: t, store: st, calls: &calls{}}
	b.rows = rows{
		session: store.Session{ID: session, Tenant: "acme", User: "ada", ExternalID: "T", AgentID: "a", CreatedAt: now, UpdatedAt: now},
		turn:    store.Turn{ID: turn, SessionID: session, AgentID: "a", Status: store.TurnRunning, Upstream: "here", CreatedAt: now},
		call: store.ToolCall{
			ID: id, SessionID: session, TurnID: turn, Name: approval.PermissionTool, Kind: store.KindQuestion, Status: store.ToolWaitingApproval,
			Args: []byte(`{"wood":"oak"}`), CreatedAt: now, ExpiresAt: now.Add(time.Hour),
		},
		asked: store.Approval{
			ID: id, SessionID: session, TurnID: turn, Kind: store.ApprovalPermission, Status: store.ApprovalPending, Tool: "shell", ToolKind: "execute",
			Title: "cut oak", Args: []byte(`{"wood":"oak"}`), AskedUser: "ada", CreatedAt: now, ExpiresAt: now.Add(time.Hour),
			Options: []byte(`[{"id":"yes","label":"Yes","kind":"allow_once"},{"id":"ever","label":"Always","kind":"allow_always"},{"id":"no","label":"No","kind":"reject_once"}]`),
		},
	}
	b.Settler = approval.Settler{
		Notices: approval.Notices{Rows: func(approval.Question, store.Session) []store.OutboxItem { b.notices++; return nil }},
		Calls:   b.calls, Replica: "here", NewID: uuid.NewString, Once: func(id string, _ error) { b.once = append(b.once, id) },
	}
	if change != nil {
		change(b)
	}
	if err := st.InTx(t.Context(), func(tx store.Tx) error {
		ctx := t.Context()
		return errors.Join(tx.InsertSession(ctx, b.session), tx.InsertTurn(ctx, b.turn), tx.InsertToolCall(ctx, b.call), tx.InsertApproval(ctx, b.asked))
	}); err != nil {
		t.Fatal(err)
	}
	return b
}

// apply settles the Question by an answer, and gives what became of it or the code of the refusal.
func (b *bench) apply(d approval.Decision, who store.Principal) (approval.Settled, string) {
	b.t.Helper()
	var settled approval.Settled
	err := b.store.InTx(b.t.Context(), func(tx store.Tx) error {
		session, err := tx.LockSession(b.t.Context(), store.System(), b.session.ID)
		if err != nil {
			return err
		}
		q, err := approval.Load(b.t.Context(), tx, store.System(), b.call.ID)
		if err != nil {
			return err
		}
		settled, err = b.Apply(b.t.Context(), tx, session, q, d, who)
		return err
	})
	if err != nil && fault.CodeOf(err) == "" {
		b.t.Fatal(err)
	}
	return settled, fault.CodeOf(err)
}

// says is the Decision of ada's answer.
func (b *bench) says(payload string) approval.Decision {
	b.t.Helper()
	d, err := approval.OptionIDs{}.Read(b.t.Context(), approval.Question{Call: b.call, Approval: b.asked}, approval.Answer{Payload: []byte(payload)})
	if err != nil {
		b.t.Fatal(err)
	}
	d.By, d.Via = "ada", approval.ViaREST
	return d
}

func (b *bench) audits() (actions []string) {
	b.t.Helper()
	entries, err := b.store.Audit(b.t.Context(), store.System(), 0, 100)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range entries {
		actions = append(actions, e.Action)
	}
	return actions
}

var ada = store.Principal{Tenant: "acme", User: "ada"}

// TestApplyAuthorizes: who may approve what, and when it is too late. A wrong yes here lets a tool run that must not.
func TestApplyAuthorizes(t *testing.T) {
	t.Parallel()
	yes, no := `{"optionId":"yes"}`, `{"optionId":"no"}`
	edited := `{"optionId":"yes","editedArgs":{"wood":"elm"}}`
	named := func(b *bench) { b.asked.Approvers = []byte(`["role:ops"]`) }
	gone := func(b *bench) { b.toolCall(); b.turn.Upstream = "a replica that never was" }
	over := func(b *bench) { b.toolCall(); b.turn.Status = store.TurnDone }
	blocked := func(b *bench) {
		b.toolCall()
		b.calls.verdict = policy.Verdict{Action: policy.Block, Reason: "Not today."}
	}
	blockAll := func(b *bench) {
		rules, err := policy.Parse([]byte("rules: [{name: no, kind: execute, verdict: block}]"))
		if err != nil {
			b.t.Fatal(err)
		}
		b.Settler.Policy = func() *policy.Policy { return rules }
	}
	for name, c := range map[string]struct {
		change  func(*bench)
		payload string
		who     store.Principal
		want    string // the code of the refusal; "" for none
	}{
		"plain":                                 {nil, yes, ada, ""},
		"by the system":                         {named, yes, store.Principal{}, ""},
		"only ops may approve":                  {named, yes, ada, approval.NotApprover},
		"ops approves":                          {named, yes, store.Principal{Tenant: "acme", User: "bob", Roles: []string{"ops"}}, ""},
		"whoever sees it may reject":            {named, no, ada, ""},
		"who prompted, under four eyes":         {func(b *bench) { b.asked.FourEyes = true }, yes, ada, approval.FourEyes},
		"another, under four eyes":              {func(b *bench) { b.asked.FourEyes = true }, yes, store.Principal{Tenant: "acme", User: "bob"}, ""},
		"a call whose turn is over":             {over, yes, ada, approval.AskerLost},
		"its rejection":                         {over, no, ada, ""},
		"a call whose agent is gone":            {gone, yes, ada, approval.AskerLost},
		"a call whose agent waits":              {func(b *bench) { b.toolCall(); b.turn.Upstream = store.UpstreamWaits }, yes, ada, ""},
		"a call before its agent was called":    {func(b *bench) { b.toolCall(); b.turn.Upstream = "" }, yes, ada, ""},
		"a permission of an agent that is gone": {func(b *bench) { b.turn.Upstream = "a replica that never was" }, yes, ada, ""},
		"edited where that is not allowed":      {editable(false), edited, ada, approval.EditRefused},
		"edited where it is":                    {editable(true), edited, ada, ""},
		"an agent's own arguments":              {func(b *bench) { b.asked.MayEdit = true }, edited, ada, approval.EditRefused},
		"no tools here":                         {func(b *bench) { b.toolCall(); b.asked.MayEdit = true; b.Settler.Calls = nil }, edited, ada, approval.EditRefused},
		"a call that the policy blocks by now":  {blocked, yes, ada, approval.PolicyBlocks},
		"rejecting that":                        {blocked, no, ada, ""},
		"a permission that it blocks by now":    {blockAll, yes, ada, approval.PolicyBlocks},
		"an input under that policy": {func(b *bench) {
			blockAll(b)
			b.asked.Kind, b.asked.Options = store.ApprovalInput, nil
		}, `{"name":"x"}`, ada, ""},
		"a change of mode under that policy": {func(b *bench) {
			blockAll(b)
			b.toolCall()
			b.call.Kind, b.call.UpstreamID = store.KindQuestion, approval.SteerPrefix+"1"
		}, yes, ada, approval.PolicyBlocks},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.change)
			settled, code := b.apply(b.says(c.payload), c.who)
			if code != c.want || settled.Won != (c.want == "") {
				t.Errorf("refused with %q, won %t; want %q", code, settled.Won, c.want)
			}
			q, err := approval.Load(t.Context(), b.store, store.System(), b.call.ID)
			if err != nil || q.Open() != (c.want != "") {
				t.Errorf("open: %t, %v", q.Open(), err)
			}
		})
	}
}

func editable(may bool) func(*bench) {
	return func(b *bench) { b.toolCall(); b.asked.MayEdit = may }
}

// TestApplyEffects: what follows from a decision is there with it, and nothing else. A Grant that was not meant lets later
// calls through.
func TestApplyEffects(t *testing.T) {
	t.Parallel()
	ends := func(b *bench) { b.toolCall(); b.call.OnFailure = store.FailureEndsRun }
	for name, c := range map[string]struct {
		change   func(*bench)
		decision func(*bench) approval.Decision
		who      store.Principal
		grants   int
		once     int
		settled  int // calls that the tool proxy was given
		commands int // that end the Turn
		audit    string
	}{
		"allowed once":              {nil, saying(`{"optionId":"yes"}`), ada, 0, 0, 0, 0, "approval.decided"},
		"allowed always":            {nil, saying(`{"optionId":"ever"}`), ada, 1, 0, 0, 0, "approval.decided"},
		"always, of no object":      {func(b *bench) { b.call.Args = []byte(`"oak"`) }, saying(`{"optionId":"ever"}`), ada, 0, 1, 0, 0, "approval.decided"},
		"rejected":                  {nil, saying(`{"optionId":"no"}`), ada, 0, 0, 0, 0, "approval.decided"},
		"a call of ours":            {func(b *bench) { b.toolCall() }, saying(`{"optionId":"yes"}`), ada, 0, 0, 1, 0, "approval.decided"},
		"without tools":             {func(b *bench) { b.toolCall(); b.Settler.Calls = nil }, saying(`{"optionId":"yes"}`), ada, 0, 0, 0, 0, "approval.decided"},
		"expired":                   {nil, func(b *bench) approval.Decision { return approval.Expired() }, store.Principal{}, 0, 0, 0, 0, "approval.expired"},
		"cancelled with its turn":   {nil, func(*bench) approval.Decision { return approval.CancelledBy("") }, store.Principal{}, 0, 0, 0, 0, "approval.cancelled"},
		"withdrawn by its agent":    {nil, func(*bench) approval.Decision { return approval.WithdrawnByAgent() }, store.Principal{}, 0, 0, 0, 0, "approval.cancelled"},
		"left by its agent":         {nil, func(*bench) approval.Decision { return approval.AskerGone() }, store.Principal{}, 0, 0, 0, 0, "approval.cancelled"},
		"a failure ends the turn":   {ends, saying(`{"optionId":"no"}`), ada, 0, 0, 1, 1, "approval.decided"},
		"an expiry does too":        {ends, func(b *bench) approval.Decision { return approval.Expired() }, store.Principal{}, 0, 0, 1, 1, "approval.expired"},
		"a success does not":        {ends, saying(`{"optionId":"yes"}`), ada, 0, 0, 1, 0, "approval.decided"},
		"nor an agent that is gone": {ends, func(*bench) approval.Decision { return approval.AskerGone() }, store.Principal{}, 0, 0, 1, 0, "approval.cancelled"},
		"an unknown outcome": {func(b *bench) { b.toolCall(); b.call.Kind = store.KindQuestion }, saying(`{"optionId":"yes"}`), ada, 0, 0, 1, 0,
			"tool_call.settled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.change)
			if settled, code := b.apply(c.decision(b), c.who); code != "" || !settled.Won {
				t.Fatalf("refused with %q", code)
			}
			grants, err := b.store.Grants(t.Context(), store.System(), store.Page{})
			if err != nil || len(grants) != c.grants || len(b.once) != c.once {
				t.Errorf("%d grants, %d times once, %v; want %d and %d", len(grants), len(b.once), err, c.grants, c.once)
			}
			if c.grants > 0 && (grants[0].Tool != "shell" || grants[0].SessionID != b.session.ID || grants[0].CreatedBy != "ada" || grants[0].ExpiresAt.IsZero()) {
				t.Errorf("the grant is %+v", grants[0])
			}
			if len(b.calls.settled) != c.settled {
				t.Errorf("the tools were given %d calls, want %d", len(b.calls.settled), c.settled)
			}
			commands, err := b.store.PendingCommands(t.Context(), store.System(), b.session.ID)
			if err != nil || len(commands) != c.commands {
				t.Errorf("%d commands, %v; want %d", len(commands), err, c.commands)
			}
			if got := b.audits(); !slices.Equal(got, []string{c.audit}) {
				t.Errorf("audited %v, want %s", got, c.audit)
			}
			if b.notices != 1 {
				t.Errorf("%d notices", b.notices)
			}
		})
	}
}

func saying(payload string) func(*bench) approval.Decision {
	return func(b *bench) approval.Decision { return b.says(payload) }
}

// TestApplyAuditHidesReasons: a person's words can be deleted with their thread, and the audit cannot.
func TestApplyAuditHidesReasons(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		who    store.Principal
		reason string
		plain  bool
		hashed bool
	}{
		"a person's":   {ada, "because of Bob", false, true},
		"none":         {ada, "", false, false},
		"the system's": {store.Principal{}, "because of Bob", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			d := b.says(`{"optionId":"yes"}`)
			d.Reason = c.reason
			b.apply(d, c.who)
			entries, err := b.store.Audit(t.Context(), store.System(), 0, 10)
			if err != nil || len(entries) != 1 {
				t.Fatal(entries, err)
			}
			payload := string(entries[0].Payload)
			if strings.Contains(payload, "because of Bob") != c.plain || strings.Contains(payload, "reason_sha256") != c.hashed {
				t.Errorf("the entry is %s", payload)
			}
		})
	}
}

// TestApplyTwice: the second decision changes nothing, and learns what the first was.
func TestApplyTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(b *bench) { b.toolCall() })
	b.apply(b.says(`{"optionId":"yes"}`), ada)
	for payload, repeated := range map[string]bool{`{"optionId":"yes"}`: true, `{"optionId":"no"}`: false} {
		settled, code := b.apply(b.says(payload), ada)
		if code != "" || settled.Won || settled.Repeated != repeated || settled.Question.Approval.Status != store.ApprovalApproved {
			t.Errorf("%s: %+v, %q", payload, settled, code)
		}
	}
	if len(b.calls.settled) != 1 || b.notices != 1 || len(b.audits()) != 1 {
		t.Errorf("%d calls, %d notices, %v", len(b.calls.settled), b.notices, b.audits())
	}
}
